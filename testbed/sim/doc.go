// Package sim is virtual time: a discrete-event network of hosts, links and
// shared-buffer switches, built from a [fabric.Fabric].
//
// # Use
//
// [New] builds a [Network] from a [Config]. [Network.SetSwitch] gives every
// switch its [Pipeline] (a P4 program: see package sim/p4), and
// [Network.SetHost] gives every host its [Endpoint] (a NIC). [Network.Run]
// then advances time. Everything else that happens in the world - a link is
// cut, a controller's message arrives, a batch of flows starts - is a function
// handed to [Network.At].
//
// # Model
//
// Links are full duplex; a [LinkDir] is one direction. A node sends one packet
// at a time into a direction: its last bit leaves rate.TimeFor(wire bytes)
// after its first, and arrives a propagation delay later; nodes store and
// forward. Wire bytes are header + payload + trailer + [Config.Overhead].
//
// A switch passes an arriving packet to Ingress at once and queues what comes
// back at its egress ports. A port has [Config.Classes] queues, served in
// strict priority, highest class first; class 0 is data, all others control.
// All queues of a switch share one buffer with dynamic thresholds: a packet is
// admitted while its queue holds less than Alpha times the free buffer, and
// fits. A packet occupies the buffer from admission until its first bit leaves.
// Egress runs when the packet leaves its queue, so that a program sees the
// queue as it is then. [QueueState] depths are those of the data class of the
// port, in cells of [Config.Cell] bytes rounded up, without the packet itself:
// before it joined, and after it left.
//
// With [PFC] the data class is lossless, as far as control leaves it the buffer: a
// switch pauses who sends it more than it has room for.
//
// A cut direction is a black hole: what is in it at that moment is lost, and
// so is everything sent into it until it is restored. No one is notified: detection
// belongs to the world.
//
// # Order and determinism
//
// There is no randomness and no wall clock here. Events at one picosecond run
// in an order that depends on nothing but what they are: control functions by
// the sequence in which they were scheduled, then arrivals by link direction,
// then ports by link direction, then hosts. The order in which events were
// pushed never matters among packets, so that running parts of a fabric side by
// side can give the same result. [Network.EventHash] is a digest of all that
// happened.
//
// # Cost
//
// A hop over an idle port is one event, its arrival; over a busy port two. A
// link direction, a port and a host each have at most one pending event, bar a
// few wake-ups of a host. Packets are pooled and indexed, header bytes real and
// inline, payload only a length; nothing is allocated per packet once the pools
// have grown. A pipeline that is [InPlace] takes most packets through a switch
// where they lie.
//
// # Regions
//
// A large fabric is split into regions ([Config.Regions]), runs of neighbouring
// ToRs with their hosts and pods, that are simulated each with its own clock,
// event queue and packets. What leaves a region takes at least a link's
// propagation to have an effect in another, the look-ahead ([Network.Lookahead]).
// So a region runs through a window of time of that length on its own, then the
// next does, until all have; then they exchange the packets that crossed, and
// begin the next window. Since the order of events does not depend on when they
// were pushed, every region does exactly what it would have done in one queue.
//
// That pays on one core: what a region's switches, hosts and links need stays in
// the core's second cache for a window, where events of the whole fabric in order
// of time would fetch it anew each time. And regions can be simulated side by side,
// by [Config.Cores] goroutines: whichever is free takes the next.
//
// A window ends where a function of [Network.At] is due: these may touch
// everything, so all regions are at rest then. A function that concerns one node
// goes to [Network.AtNode] instead and runs in the node's region. From within
// events of a node, whatever else is shared is touched by way of
// [Network.Serially] only: it runs at once on one core, and after the window
// else, in the order of events, which the regions keep a journal for. The
// sequence numbers of control functions come from there too.
//
// The end of a run is an event like any other ([Network.Stop]), and nothing may
// happen after it that would not have happened on one core. [Config.MayStop]
// says when it is near; from then on one goroutine takes the events of all
// regions in turn.
//
// To find a difference between one core and several: [Progress] says which has
// more events, a [JSONL] of one core what happens when; the race detector finds
// what is touched past Serially.
//
// # Goroutines
//
// A Network belongs to one goroutine, the one that calls Run; hooks run on it.
// With several regions, endpoints, pipelines and functions of AtNode run on the
// goroutine of their node's region, all others while no region runs. Only
// [Network.Progress] and [Network.Stop] may be called at any time.
package sim
