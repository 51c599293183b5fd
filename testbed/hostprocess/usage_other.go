//go:build !unix

package hostprocess

// usage returns 0 on this system.
func usage() (cpu, rss int64) { return 0, 0 }
