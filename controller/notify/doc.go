// Package notify sends the link states to host agents: first a snapshot, then every change, in order and without a
// gap.
//
// A [Hub] takes the controller core's notices and keeps the latest ones, in one copy for all agents. A [Watcher] is
// only a position in that copy, so an agent that stalls costs nothing and delays no other agent. If its position is
// overwritten meanwhile, it gets a snapshot. An agent that reconnects names the last notice that it received and
// continues from there.
//
// Hub and Watcher have no goroutine, socket or clock, and are not safe for concurrent use. A [Service] serves them
// over gRPC and is safe for concurrent use. An agent that does not read blocks only its own stream, and its unread
// messages are bounded by gRPC's flow control.
package notify
