// Package host is the run-time logic of a host, the same in every world: it gathers messages in batching windows,
// has the load balancer deal them out, and carries out the balancer's requests.
//
// A [Core] is pure: it takes calls with the time, and calls an [Endpoint] and a [Shell]. It has no goroutine,
// socket or clock and is not safe for concurrent use. Three shells drive it: the virtual world's hosts, package
// hostprocess (live, Mininet and lab), and the flow world's hosts. The shells contain what differs: the bytes of
// messages, simulated regions, fluids.
//
// # Rules
//
// The core is its endpoint's handler for acknowledgements and time-outs, and its [transport.Balancer] if the scheme
// labels every packet. An endpoint may make its calls while it is itself called, so Label and Echo do not call
// back: call [Core.Received] when the endpoint's Receive has returned.
//
// The balancer's requests are carried out in this order: open queue pairs; move queue pairs, each after its dead
// path's packets are retransmitted; hold queue pairs; report failed paths. Requests for a queue pair that has ended
// meanwhile are dropped.
//
// # Agent away
//
// Between [Core.Leave] and [Core.Return] the agent is absent: queue pairs keep their paths, batches wait,
// notifications are lost. Return takes the messages posted meanwhile.
//
// # Event log
//
// With [Config].Log, every call of the core and every effect is written as a line of JSON; see [Record]. [ReadLog]
// reads the log and [Record.Play] repeats its calls, so that a core in one world can replay a log from another.
package host
