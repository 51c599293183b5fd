// Package recording records the events within a run, on one clock: events with a duration (a collective, its
// phases, messages, their pieces, probes), instants (marks, drops, losses, cuts, quenches, flips, time-outs, table
// writes), and counters read at intervals (queues and use of links, rates of hosts).
//
// # Use
//
// [New] makes a [Recorder], which a world receives with its observer. The virtual world records everything; every
// world records its timeline. [Recorder.End] returns the [Recording]. [Recording.Write] writes it as a Perfetto
// trace, and [Read] reads such a trace. This is the only file format of a recording, for Perfetto and for `ethereal
// view`.
//
// # Bounds
//
// [Options] bound the recording: a window of time, hosts, the interval between readings of counters, and the
// largest numbers of slices and instants. Omitted events are counted. The marks, drops and losses of one port
// between two readings are one instant with their number.
//
// # Cost
//
// A world without a recorder pays one comparison for each message, piece and flip, and none for a packet: the
// simulator's own tracer, which is then not set, sees packets, and counters are read between two steps of the
// simulation. With a recorder the run uses one region, and gives the same result.
//
// # Goroutines
//
// A Recorder belongs to the goroutine of its run, except Happened, which any goroutine may call.
package recording
