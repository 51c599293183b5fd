// Package soft is a RoCEv2 endpoint in software whose packets have bytes: RDMA WRITE over reliable connections,
// with the invariant CRC on every packet, on any [port.Port].
//
// It is a shell around [transport.Endpoint], the endpoint of the virtual world: the same requester and responder
// decide what is sent when, and what is acknowledged. This package adds what simulated packets lack: payloads and
// their places, CRCs, and pacing of the port.
//
// # Engine
//
// An [Engine] turns the bytes of messages into frames and back. It is pure: time and frames go in by method calls,
// [Engine.Next] returns frames, and events go to a [Handler]. It is not safe for concurrent use.
//
// Memory that others may write to is registered with [Engine.Register], under a key that a writer must know. A
// WRITE outside of it, or under another key, is refused, and its queue pair fails at its sender.
//
// A frame is accepted only if its headers agree with each other and with the frame's length, it is addressed to
// this host, and its CRC is right. Other frames are counted and dropped.
//
// # Shell
//
// A [EventLoop] drives an engine on a port by the monotonic clock, one goroutine on one thread. Everything that touches
// the engine runs there: hand it over with [EventLoop.Do]. The shell paces frames at the link's rate, because a virtual
// interface accepts every frame at once. A thread that was not scheduled in time may catch up by at most
// [EventLoopConfig].Burst.
package soft
