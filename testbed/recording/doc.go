// Package recording is what happened within a run, on one clock: what took a while (a collective, its phases, messages,
// their pieces, probes), what happened at once (marks, drops, losses, cuts, quenches, flips, time-outs, table writes),
// and counters read so often (queues and use of links, rates of hosts).
//
// # Use
//
// [New] makes a [Recorder], which a world is given with its observer. The virtual world records everything; every world
// records its timeline. [Recorder.End] gives the [Recording]. [Recording.Write] writes it as a trace
// of Perfetto's, [Read] reads such a trace back: that is the one form in which a recording is kept, for Perfetto and
// for `ethereal view`.
//
// # Bounds
//
// [Options] bound what is kept: a window of time, hosts, how often counters are read, and how many slices and
// instants there are at most. What was left out is counted. Marks, drops and losses of one port between two readings
// are one instant with their number.
//
// # Cost
//
// A world without a recorder pays one comparison for each message, piece and flip, and none for a packet: packets are
// seen by the simulator's own tracer, which is not set then, and counters are read between two steps of the simulation.
// With a recorder the run takes one region, and gives the same result.
//
// # Goroutines
//
// A Recorder belongs to the goroutine of its run, but for Happened, which may be called by any.
package recording
