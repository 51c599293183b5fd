// Package nic is an RDMA device in software for programs that know nothing of it: the
// verbs' objects of a host's programs, whose bytes go by the host's soft RoCEv2
// endpoint and whose paths the host's agent chooses.
//
// A program has libethereal-verbs (hostagent/verbs/interpose) in its process, which
// speaks to a [NIC] by a UNIX socket and rings in shared memory. The bytes of messages
// stay in the program's memory: the NIC reads them when a packet is sent, and writes
// them when its turn has come.
//
// # Streams
//
// A reliable connection is two streams of bytes in each direction, of requests and of
// responses. Of a stream up to 1 MiB is under way. Parts of it are flows to the agent,
// which splits and labels them as it does all messages, so a connection uses all
// paths at once and its pieces leave dead ones. The receiver puts the bytes in order
// before the program sees any: what a program sees is one queue pair, as the
// specification has it.
//
// On the wire a piece is an RDMA WRITE, whose key names the stream and whose address is
// the place in it. So two such devices understand each other, and an RNIC would not.
//
// A request is complete when the other side has carried it out and said so, in its
// stream of responses, with the status that the specification has for what went wrong.
//
// # Trust
//
// A program may write anything to the shared memory and to the socket. Its indices and
// requests are copied before they are checked, the memory cannot be made smaller under
// the NIC, what a program can have is bounded, and keys and addresses are checked at
// each request. Its memory is reached by a descriptor that it opened itself, so it lends
// what it has. A program that withholds pages of its memory (by a FUSE file system)
// makes the NIC wait for them; programs of other users are kept off the socket by its
// mode.
package nic
