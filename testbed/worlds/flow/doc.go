// Package flow carries out the runs of a scenario without packets: every queue pair is a fluid that gets its
// max-min fair share of the links on its path. It is for fabrics that are too large for the packet level (package
// virtual), up to tens of thousands of hosts, and gives the same kind of result.
//
// # What is real
//
// The collective's state machines, the host's core (package host: its splits and labels), the tables that a controller
// would write, the fabric's paths, the switches' ECMP hash, batching windows, start jitter, headers, and the order of
// messages to one peer.
//
// # What is not
//
// There are no queues, drops, marks and rate control: rates are max-min fair at once. Acknowledgements take their
// share of every link's capacity. A scheme's [balance.Spec] says what its queue pairs do. With balance.Spread,
// which chooses a path per packet, bytes spread evenly over all paths, as an ideal. Schemes with
// balance.NoFlowModel move with queues, and are refused with [ErrScheme].
//
// # Dead and slow links
//
// Links may be dead or slow before the collective begins ([scenario.Run.KnownBefore]), under Ethereal and schemes that
// switches hash: the controller's tables and the agents know the links, as in the virtual world. A queue pair without a
// way to its receiver never ends.
//
// Whatever changes while a collective runs is refused with [ErrFailure]: what hosts do about it depends on single
// packets, time-outs and queues. [Check] has all refusals; docs/results/performance.md has the errors.
//
// # Planes
//
// A queue pair uses one plane, by a port of its host, as its label says. Each plane has its own controller. Where
// planes are larger than tables can be, one controller knows the links of all planes, for agents alone.
//
// # Steps
//
// Rates are computed anew when a queue pair starts, ends, or changes its path. Events within [Quantum] of simulated
// time are processed together, so each step of a collective has an error of at most that length. The same run gives
// the same result, bit for bit, on one kind of processor.
//
// # Goroutines
//
// Runs are independent and may run side by side; a [Runner]'s function is safe for concurrent use.
package flow
