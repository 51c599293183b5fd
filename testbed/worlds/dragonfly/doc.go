// Package dragonfly compares ways of choosing paths on a dragonfly, without packets:
// what the fullest link has to carry under each, beside what no choice can beat.
//
// # What is real
//
// The fabric and its paths (package fabric/dragonfly), the collectives' messages, the division of
// flows that hosts make under ethereal (package hostagent/nonminimal), and links that are cut.
//
// # What is modelled
//
// There are no headers, no packets and no queues, but for the schemes that decide by queues: see slots.go. A link that
// is cut is cut before the collective begins, and all know it. No virtual channels are counted, and nothing deadlocks.
//
// # The bound
//
// Of each step of a collective, the optimum of the linear program over all ways that there are, as far as it
// is proven. Hosts' links are links as others are. Of several steps the loads and the bounds are added up, as if each
// step waited for the one before.
package dragonfly
