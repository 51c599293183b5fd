// Package quenchsocket has the UDP sockets by which an agent receives source quenches and notices if it does not
// read its host's frames itself.
//
// Our switches drop quenches that a host sends, but they recognise a quench only by a UDP header directly behind
// the IP header of a whole packet. So the sockets accept no other form: no IPv4 options, no IPv6 extension headers,
// no fragments. Switches send none of these.
package quenchsocket
