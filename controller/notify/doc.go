// Package notify gives host agents the link states: first a snapshot, then every
// change, in order and without a gap.
//
// A [Hub] is fed the controller core's notices. It keeps the latest of them once
// for all; a [Watcher] is no more than a position among them, so an agent that
// stalls costs nothing and delays nobody: when it comes back after its position
// was overwritten it gets a snapshot. An agent that reconnects says what it had
// and goes on from there.
//
// Hub and Watcher have no goroutine, socket or clock, and are not safe for
// concurrent use. A [Service] is the shell around them, which serves them over
// gRPC, and is: an agent that does not read holds up its own stream only. What
// has been sent and not read stays within gRPC's flow control for that stream.
package notify
