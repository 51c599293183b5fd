// Package host is what a host does at run time, in every world: it gathers messages
// in batching windows, has the load balancer deal them out, and does what the
// balancer then asks for.
//
// A [Core] is pure: calls with the time go in, calls of an [Endpoint] and a [Shell]
// come out. It has no goroutine, socket or clock and is not safe for concurrent use.
// Three shells drive it: the virtual world's hosts, package hostprocess (live,
// Mininet and lab), and the flow world's hosts. What differs between them is theirs:
// the bytes of messages, simulated regions, fluids.
//
// # Rules
//
// The core is its endpoint's handler for acknowledgements and time-outs, and its
// [endpoint.Balancer] if the scheme labels every packet. An endpoint's calls may come
// from within the endpoint, so Label and Echo do not call back: call [Core.Received]
// when the endpoint's Receive has returned.
//
// What the balancer asks for is done in this order: open queue pairs; move queue
// pairs, each first resending what its dead path has; hold queue pairs; report
// failed paths. What is asked for a queue pair that has ended meanwhile is dropped.
//
// # Agent away
//
// Between [Core.Leave] and [Core.Return] no agent is there: queue pairs go on by the
// paths they have, batches wait, news is lost. Return takes what was posted
// meanwhile.
//
// # Event log
//
// With [Config].Log every call that goes in and every effect that comes out is
// written as a line of JSON; see [Record]. [ReadLog] reads it and [Record.Play] makes
// its calls again, so a log of one world can be played to a core of another.
package host
