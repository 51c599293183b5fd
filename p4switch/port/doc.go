// Package port has packet ports, which receive and send Ethernet frames without waiting, and a [Poller] that waits
// for all of them at once.
//
// # Ports
//
// A [Port] is one of
//
//   - [OpenInterface]: a Linux network interface through AF_PACKET, with a
//     receive ring shared with the kernel and batched sends;
//   - [OpenFiles]: a pair of pcap files, one to read and one to write;
//   - [Capture] and [Dump]: another port, with a record of its frames.
//
// [OpenLinks] follows the state of network interfaces: one netlink socket for any number of ports.
//
// # Back-pressure
//
// [Port.Send] takes as many frames as there is room for and returns their number. The caller keeps the rest. When
// there is room again, [Poller.Wait] returns the port. So the queue behind a slow link is in the switch, where it
// can be measured and bounded.
//
// # Goroutines
//
// A port and its poller belong to one goroutine, which alone calls Receive, Send, Add and Wait. Counters, Close and
// [Poller.Wake] may be called from anywhere, Close only after the last Receive and Send. The package starts no
// goroutine.
//
// # Traps of Linux interfaces
//
// A segmentation super-frame of a TCP stack behind a veth is cut into segments of the interface's MTU and counted as
// [Counters.InCut]; `ethtool -K PEER tso off gso off` on its origin has the kernel do so, which costs less here. Any
// other frame that is longer than the MTU when the port was opened is dropped and counted as [Counters.InTooLong].
// Checksums that the origin left to its NIC (`tx off`) are completed for TCP and UDP. VLAN tags that the kernel took
// off are put back. The sender's thread pays for the copy into a veth's receive ring, because the kernel delivers the
// frame immediately.
package port
