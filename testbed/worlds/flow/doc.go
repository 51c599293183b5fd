// Package flow carries out the runs of a scenario without packets: every
// queue pair is a fluid that gets its max-min fair share of the links on its
// path. It is for fabrics beyond the packet level (package virtual), up to tens
// of thousands of hosts, and gives the same kind of result.
//
// # What is real
//
// The collective's state machines, the host agents (their splits, labels and
// flips are those of package hostagent), the fabric's paths, batching windows,
// start jitter, headers, failures, and the delays with which failures are told.
//
// # What is not
//
// There are no queues, drops, marks and rate control: rates are max-min fair at
// once. Acknowledgements take their share of every link's capacity. ECMP draws a
// path per source port at random, without the switches' hash. Schemes that choose
// a path per packet (spray, drb, reps and those of switches, save flowlet) are
// taken for ideal: a queue pair's bytes spread evenly over all paths. hopper,
// flowcut and flowlet move with queues, and are refused with [ErrScheme].
//
// # Planes
//
// Of several planes a queue pair takes one, by a port of its host, as its label says; where switches
// hash, the port is drawn with the path, and kept; what is spread is spread over the ports too. A port
// that is cut is told as any link is, to all hosts.
//
// # Failures
//
// A queue pair whose path has a dead link stands still until its host acts: an
// ethereal agent when it is told, by [hostagent.Core.Timeout] or
// [hostagent.Core.Update]; the others when the controller has repaired the
// tables (gnmi), the data plane reroutes (quench, upward links alone), or never.
// A source quench is told as an update about the link, half a round trip after
// detection.
//
// # Steps
//
// Rates are computed anew when a queue pair starts, ends, or changes its path.
// What happens within [Quantum] of simulated time is taken together, so results
// are exact but for that much in each step of a collective. The same run gives
// the same result, bit for bit, on one kind of processor.
//
// # Goroutines
//
// Runs are independent and may go on side by side; a [Runner]'s function is safe
// for concurrent use.
package flow
