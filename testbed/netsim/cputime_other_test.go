//go:build !unix

package netsim

// cpuSeconds is not known here.
func cpuSeconds() float64 { return 0 }
