// Package cm connects queue pairs of programs, as the kernel's rdma_cm does. Identifiers are bound to ports,
// listen, connect, accept and disconnect, and report events.
//
// A program's librdmacm writes the commands of rdma/rdma_user_cm.h, and [Program.Do] carries them out. message.go
// has the messages between two hosts. The host's endpoint carries them, on the same paths as data, and retransmits
// them until they arrive. An identifier's messages are sent one after another, so they arrive in order.
//
// The package reads no clock and opens no socket.
//
// # Not implemented
//
// Multicast, AF_IB addresses, IPv6 other than mapped IPv4, and alternate paths. Any program may listen on any port.
package cm
