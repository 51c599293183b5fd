// Package port attaches a switch to the world: packet ports that receive and
// send Ethernet frames without waiting, and a [Poller] to wait for all of them
// at once.
//
// # Ports
//
// A [Port] is one of
//
//   - [OpenInterface]: a Linux network interface through AF_PACKET, with a
//     receive ring shared with the kernel and batched sends;
//   - [OpenFiles]: a pair of pcap files, one to read and one to write;
//   - [Capture] and [Dump]: another port, with a record of what passes.
//
// [OpenLinks] follows the state of network interfaces: one netlink socket for
// any number of ports.
//
// # Back-pressure
//
// [Port.Send] takes as many frames as there is room for and says how many.
// A refused caller keeps the rest, and finds the port in what
// [Poller.Wait] returns when there is room again. So the queue behind a slow
// link is the switch's own, where it can be measured and bounded.
//
// # Goroutines
//
// A port and its poller belong to one goroutine: Receive, Send, Add and Wait
// are its calls alone. Counters, Close and [Poller.Wake] may be called from
// anywhere, Close only after the last Receive and Send. The package starts no
// goroutine.
//
// # Traps of Linux interfaces
//
// A frame that is longer than the interface's MTU when the port was opened,
// such as a segmentation super-frame of a TCP stack behind a veth, is dropped
// and counted as [Counters.InTooLong]: `ethtool -K PEER tso off gso off` on
// its origin avoids them. Checksums that the origin left to its NIC
// (`tx off`) are completed for TCP and UDP. VLAN tags that the kernel took off
// are put back. The sender's thread pays for the copy into a veth's receive
// ring, because the kernel delivers there and then.
package port
