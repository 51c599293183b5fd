// Package notify gives host agents the link states: first a snapshot, then every
// change, in order and without a gap.
//
// A [Hub] is fed the controller core's notices. It keeps the latest of them once
// for all; a [Watcher] is no more than a position among them, so an agent that
// stalls costs nothing and delays nobody: when it comes back after its position
// was overwritten it gets a snapshot. An agent that reconnects says what it had
// and goes on from there.
//
// There is no goroutine, socket or clock here, and nothing is safe for
// concurrent use: the shell that owns the streams serialises the calls.
package notify
