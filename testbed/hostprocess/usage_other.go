//go:build !unix

package hostprocess

// processUsage returns 0 on this system.
func processUsage() (cpu, rss int64) { return 0, 0 }
