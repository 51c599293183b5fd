// Package labeller is the contract between an agent, which decides the label of a queue pair's packets, and the
// code that writes the label into them.
//
// A [Labeller] knows a queue pair by two fields of its packets, the destination IP address and the destination
// queue pair number ([QP]). There are two implementations:
//
//   - hostagent/tagger: the kernel rewrites the packets of any program.
//   - hostagent/verbs: the RNIC's driver sets the label of a queue pair.
//
// Package labellertest has a third, for tests: it rewrites frames in Go by the same rules as the kernel.
//
// # Rules
//
// A label applies from the next packet on: a packet that is being made while [Labeller.Set] runs has either the old
// label or the new one, never a mixture. Setting several queue pairs at once is not atomic across them.
//
// A rewritten packet's ICRC and UDP checksum are corrected, not computed anew: a wrong checksum stays wrong.
// Packets without a label, fragments, and frames with contradictory lengths are not changed, and are counted.
//
// Everything here is safe for concurrent use.
package labeller
