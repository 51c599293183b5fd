// Package cm connects queue pairs of programs, as the kernel's rdma_cm does: identifiers that are bound to ports, listen,
// connect, accept and disconnect, and the events of them.
//
// A program's librdmacm writes the commands of rdma/rdma_user_cm.h, which [Program.Do] carries out. What goes between two
// hosts is in message.go; the host's endpoint carries it, by paths as data has them, and repeats it until it has arrived. An
// identifier's messages go one after another, so they arrive in order.
//
// The package reads no clock and opens no socket.
//
// # Not there
//
// Multicast, AF_IB addresses, IPv6 other than mapped IPv4, and alternate paths. Any program may
// listen on any port.
package cm
