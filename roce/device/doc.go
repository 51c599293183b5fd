// Package device is an RDMA device in software for unmodified programs. It implements the verbs' objects of a host's
// programs. The host's soft RoCEv2 endpoint carries their bytes, and the host's agent chooses the paths.
//
// A program has libethereal-verbs (roce/device/interpose) in its process, which talks to a [NIC] by a UNIX
// socket and rings in shared memory. The bytes of messages stay in the program's memory: the NIC reads them when it
// sends a packet, and writes them when they are next in order.
//
// # Streams
//
// A reliable connection consists of two streams of bytes in each direction, of requests and of responses. At most 1
// MiB of a stream is in flight. Parts of it are flows for the agent, which splits and labels them like all
// messages. So a connection uses all paths at once, and its pieces leave dead paths. The receiver puts the bytes in
// order before the program sees any: the program sees one queue pair, as the specification describes it.
//
// On the wire a piece is an RDMA WRITE, whose key names the stream and whose address is the place in it. So two
// such devices understand each other, but an RNIC does not understand them.
//
// A request is complete when the other side has carried it out and has answered so in its stream of responses, with
// the status that the specification gives for each error.
//
// A queue pair fails with status retry exceeded when nothing has arrived for the time-out times the retries, at least 2
// s. Time in which the NIC's thread was not scheduled does not count, and what has arrived is processed before timers.
//
// # Trust
//
// A program may write anything to the shared memory and to the socket. Its indices and requests are copied before
// they are checked, the memory cannot be made smaller under the NIC, a program's resources are bounded, and keys
// and addresses are checked at each request. The NIC reaches a program's memory by a descriptor that the program
// opened itself, so a program lends only its own memory. If that has bytes of files, all accesses to it are made in
// goroutines of the program (aside.go), so a file system that does not answer holds up that program alone. Programs may
// map files over memory that they have registered: on Linux 6.11 and later the NIC asks the kernel at least every 10
// ms. A program that does so in between, on a file system that does not answer, still makes the NIC wait; the socket's
// mode excludes programs of other users.
package device
