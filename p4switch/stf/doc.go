// Package stf runs p4c's STF tests ("simple test framework") on a compiled program: files that add table entries,
// send packets to ports and list the packets expected at each port.
//
//	add t h.f:0x0a ingress.forward(port:2)
//	packet 1 0a00 0001
//	expect 2 0a** 0001
//
// [Parse] reads a script, [Script.Run] runs it on a fresh switch and reports every difference. As in p4c's own
// runner, packets are compared per port and in order, ports that the script never mentions are ignored, an expected
// packet may be a prefix of the actual one unless it ends with $, and * stands for any digit. Besides the core
// statements it knows the runner's commands for multicast, mirror sessions, registers, counters and meters.
//
// A Script may be run any number of times and concurrently.
package stf
