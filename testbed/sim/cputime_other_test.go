//go:build !unix

package sim

// cpuSeconds is not known here.
func cpuSeconds() float64 { return 0 }
