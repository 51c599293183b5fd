// Package gray makes network interfaces lose a share of the packets that leave
// them, at random, by a small eBPF program (Linux 6.6, root): netem, which kernels
// often lack, is not needed.
package gray
