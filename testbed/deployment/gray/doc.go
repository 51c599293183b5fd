// Package gray makes network interfaces lose a random share of the packets that they send, by a small eBPF program
// (Linux 6.6, root). It replaces netem, which kernels often lack.
package gray
