// Package quenchsocket has the UDP sockets by which an agent takes source quenches and notices, where it does not read
// its host's frames itself.
//
// Our switches drop quenches that a host sends, but they know a quench only by a UDP header right behind the IP header
// of a whole packet. So the sockets take no other form: no IPv4 options, no IPv6 extension headers, no fragments. Switches
// send none of these.
package quenchsocket
