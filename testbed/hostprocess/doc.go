// Package hostprocess is one host of a live fabric: a soft RoCEv2 endpoint, the load balancer that labels its queue
// pairs, and the messages that the host sends and receives.
//
// A [soft.EventLoop] drives a [Rank]: everything in it runs in the shell's goroutine. It has no socket, clock or
// goroutine, so tests drive it in virtual time. A [Server] listens for a coordinator (package hostproto) and passes
// its requests to the shell.
//
// # Messages
//
// A message's bytes are made from a seed and its ID, so that two messages differ. Their CRC-32C is reported when
// the endpoint gets them, and again, computed from the receiver's memory, when they have arrived. A comparison of
// the two checks the whole way except the generator. A message that arrives is reported once; bytes beyond its
// length are an error.
//
// All messages of a job to a host arrive in one region of its memory, at places that both ends compute from the
// job.
package hostprocess
