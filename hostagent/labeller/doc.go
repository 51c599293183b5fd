// Package labeller is the contract between an agent, which decides what label
// a queue pair's packets carry, and whatever writes it there.
//
// A [Labeller] knows a queue pair by what its packets say: the IP address they
// go to and the queue pair's number there ([QP]). Two things satisfy it:
//
//   - hostagent/tagger: the kernel rewrites the packets of any program.
//   - hostagent/verbs: the RNIC's driver sets the label of a queue pair.
//
// Package labellertest has a third, for tests: it rewrites frames in Go by the same rules as the kernel.
//
// # Rules
//
// A label counts from the next packet on: a packet in the making while
// [Labeller.Set] runs has the old label or the new, never a mixture. Setting
// several queue pairs at once is not atomic across them.
//
// A rewritten packet's ICRC and UDP checksum are corrected, not made anew: one
// that was wrong stays wrong. What has no label is left alone; so are
// fragments and frames whose lengths contradict each other. Each is counted.
//
// Everything here is safe for concurrent use.
package labeller
