// Package sim is virtual time: a discrete-event network of hosts, links and shared-buffer switches, built from a
// [fabric.Fabric].
//
// # Use
//
// [New] builds a [Network] from a [Config]. [Network.SetSwitch] gives every switch its [Pipeline] (a P4 program:
// see package sim/p4), and [Network.SetHost] gives every host its [Endpoint] (a NIC). [Network.Run] then advances
// time. Every other event of the world - a link is cut, a controller's message arrives, a batch of flows starts -
// is a function passed to [Network.At].
//
// # Model
//
// Links are full duplex; a [LinkDir] is one direction. A node sends one packet at a time into a direction: its last
// bit leaves rate.TimeFor(wire bytes) after its first, and arrives a propagation delay later; nodes store and
// forward. Wire bytes are header + payload + trailer + [Config.Overhead].
//
// A switch passes an arriving packet to Ingress at once and queues the resulting packets at its egress ports. A
// port has [Config.Classes] queues, served in strict priority, highest class first; class 0 is data, all others
// control. All queues of a switch share one buffer with dynamic thresholds: a packet is admitted if its queue holds
// less than Alpha times the free buffer, and it fits. A packet occupies the buffer from admission until its first
// bit leaves. Egress runs when the packet leaves its queue, so that a program sees the queue at that time.
// [QueueState] depths are those of the port's data class, in cells of [Config.Cell] bytes rounded up, without the
// packet itself: before it joined, and after it left.
//
// With [PFC] the data class is lossless, as far as control traffic leaves it the buffer: a switch pauses a
// neighbour that sends more than the switch has room for.
//
// A cut direction is a black hole: packets in it at that moment are lost, and so are all packets sent into it until
// it is restored. No one is notified: the world models detection.
//
// # Order and determinism
//
// There is no randomness and no wall clock here. Events at one picosecond run in an order that depends on the
// events alone: control functions by the sequence in which they were scheduled, then arrivals by link direction,
// then ports by link direction, then hosts. The order in which packets' events were pushed never matters, so that
// regions of a fabric, simulated side by side, give the same result. [Network.EventHash] is a digest of all events.
//
// # Cost
//
// A hop over an idle port is one event, its arrival; over a busy port two. A link direction, a port and a host each
// have at most one pending event, except a few wake-ups of a host. Packets are pooled and indexed, header bytes are
// real and inline, payload is only a length; nothing is allocated per packet once the pools have grown. An
// [InPlace] pipeline processes most packets without copying them.
//
// # Regions
//
// A large fabric is split into regions ([Config.Regions]): runs of neighbouring ToRs with their hosts and pods.
// Each has its own clock, event queue and packets. A packet that leaves a region needs at least a link's
// propagation delay to have an effect in another region: the look-ahead ([Network.Lookahead]). So a region runs
// alone through a window of that length, then the next region does, until all have. Then they exchange the packets
// that crossed, and begin the next window. Since the order of events does not depend on when they were pushed,
// every region runs exactly the events that it would have run in one queue.
//
// This is faster on one core: the data of a region's switches, hosts and links stays in the core's second cache for
// a window, whereas the whole fabric's events in order of time would fetch it again for each event. And regions can
// be simulated side by side, by [Config.Cores] goroutines: a free goroutine takes the next region.
//
// A window ends where a function of [Network.At] is due: these may touch everything, so all regions are at rest
// then. A function that concerns one node goes to [Network.AtNode] instead and runs in the node's region. Events of
// a node touch other shared state by [Network.Serially] only. It runs at once on one core; on several it runs after
// the window, in the order of events, for which the regions keep a journal. The journal also gives control
// functions their sequence numbers.
//
// The end of a run is an event like any other ([Network.Stop]), and nothing may happen after it that would not have
// happened on one core. [Config.InOrder] says when the end is near, or when an event may touch other nodes' data. Then
// one goroutine takes the events of all regions in turn.
//
// To find a difference between one core and several: [Progress] says which has more events, a [JSONL] of one core
// shows the events in order, and the race detector finds accesses that bypass Serially.
//
// # Goroutines
//
// A Network belongs to one goroutine, the one that calls Run; hooks run on it. With several regions, endpoints,
// pipelines and functions of AtNode run on the goroutine of their node's region, all others while no region runs.
// Only [Network.Progress] and [Network.Stop] may be called at any time.
package sim
