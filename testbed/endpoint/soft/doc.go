// Package soft is a RoCEv2 endpoint in software whose packets have bytes:
// RDMA WRITE over reliable connections, with the invariant CRC on every
// packet, on any [port.Port].
//
// It is a shell around [endpoint.Endpoint], the endpoint of the virtual world: the
// same requester and responder decide what is sent when, and what is
// acknowledged. This package adds what simulated packets do not have: payloads
// and their places, CRCs, and a port that has to be paced.
//
// # Engine
//
// An [Engine] turns the bytes of messages into frames and back. It is pure: time
// and frames go in by method calls, frames come out of [Engine.Next], events go
// to a [Handler]. It is not safe for concurrent use.
//
// Memory that others may write to is registered with [Engine.Register], under a
// key that a writer must know. A WRITE outside of it, or under another key,
// is refused, and the queue pair that it came on fails at its sender.
//
// A frame is taken only when its headers agree with each other and with the
// frame's length, it is addressed to this host, and its CRC is right. What is
// not is counted and dropped.
//
// # Shell
//
// A [Shell] drives an engine on a port by the monotonic clock, one goroutine on
// one thread. Everything that touches the engine runs there: hand it over with
// [Shell.Do]. It paces frames at the link's rate, because a virtual interface
// takes whatever is given to it at once. A thread that was not scheduled in time
// may catch up by [ShellConfig].Burst, no more.
package soft
