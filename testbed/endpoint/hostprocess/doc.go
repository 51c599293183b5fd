// Package hostprocess is one host of a live fabric: a soft RoCEv2 endpoint, the load
// balancer that labels its queue pairs, and what the host has to send and to
// receive.
//
// A [Rank] is what [soft.Shell] drives: everything in it runs in the shell's
// goroutine. It has no socket, clock or goroutine of its own, so tests drive it
// in virtual time. A [Server] listens for a coordinator, see package hostproto, and
// hands its requests to the shell.
//
// # Messages
//
// A message's bytes are made from a seed and its ID, so that two messages differ.
// Their CRC-32C is reported when they are handed to the endpoint, and again, taken
// from the receiver's memory, when they have arrived: who compares the two checks
// the whole way, and not the generator. A message that arrives is reported once; bytes
// beyond its length are a fault.
//
// All that a job sends to a host goes to one region of its memory, at places that
// both ends work out from the job.
package hostprocess
