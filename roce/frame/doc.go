// Package frame reads and writes RoCEv2 packets: Ethernet (with up to two VLAN tags), IPv4 or IPv6, UDP, the
// InfiniBand base transport header (BTH) and its extensions, and the invariant CRC (ICRC) at the end. It also
// reads and writes source quenches ([Quench]), by which switches report dead ports to the senders of such packets.
//
// Headers are views over the caller's bytes ([BTH], [RETH], [AETH]): a getter reads, a setter writes in place,
// nothing is copied. [Parse] finds them in a frame from outside and checks every bound first, so a view taken from
// a [Frame] never panics; a view made by hand over too few bytes does. [Stack.Encode] writes a frame's headers into
// the caller's buffer. Nothing here allocates, keeps state, or starts goroutines. Everything is safe for concurrent
// use on different bytes.
//
// # Frames without their payload
//
// A simulator keeps header bytes and a payload length. [ParseHeaders] accepts a frame that is cut off anywhere
// behind its last header and takes the lengths from the IP header. [ICRCZeroPayload] computes the ICRC that the
// frame would have if its payload were all zero bytes, in time logarithmic in the payload.
//
// # The ICRC and labels
//
// The ICRC covers everything from the IP header on, except the fields that routers may change: IPv4 ToS, TTL and
// header checksum; IPv6 traffic class, flow label and hop limit; the UDP checksum; the BTH's FECN, BECN and
// reserved byte. The UDP source port is covered. Code that writes a path label into the source port of a finished
// packet must correct the ICRC, or the receiver silently drops the packet: use [Frame.SetSourcePort], or
// [CorrectICRC], whose cost does not depend on the payload. The IPv6 flow label can be rewritten freely
// ([Frame.SetFlowLabel]).
//
// On the wire the ICRC is little-endian. Every ICRC value in this package is the number; the package converts the
// byte order.
package frame
