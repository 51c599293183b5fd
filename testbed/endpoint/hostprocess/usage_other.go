//go:build !unix

package hostprocess

// usage is not known here.
func usage() (cpu, rss int64) { return 0, 0 }
