// Package flow carries out the runs of a scenario without packets: every
// queue pair is a fluid that gets its max-min fair share of the links on its
// path. It is for fabrics beyond the packet level (package virtual), up to tens
// of thousands of hosts, and gives the same kind of result.
//
// # What is real
//
// The collective's state machines, the host's core (package host: its splits, labels and flips), the
// controller's (rollout, by package controlplane), the fabric's paths, the switches' tables and their ECMP hash,
// batching windows, start jitter, headers, the order of messages to one peer, failures and all delays with which
// they are noticed. Agents are notified, and tables written, when the virtual world does.
//
// # What is not
//
// There are no queues, drops, marks and rate control: rates are max-min fair at
// once. Acknowledgements take their share of every link's capacity. A scheme's
// [balance.Spec] says what its queue pairs do: those of balance.Spread, which choose
// a path per packet, are taken for ideal, their bytes spread evenly over all paths;
// those of balance.NoFlowModel move with queues, and are refused with [ErrScheme].
//
// # Planes
//
// Of several planes a queue pair takes one, by a port of its host, as its label says, and each has a controller
// of its own. Where planes are larger than tables can be, one controller knows the links of all: agents learn of
// them, nothing is written.
//
// # Failures
//
// A cut swallows what is on the link and what is sent into it. Of the queue pair's packets the receiver has those
// that had crossed the link, the sender knows of those whose answers had crossed it. The sender sends on, at the
// rate that it had, as it is not notified; its bytes take their share of the links before the dead one. It goes back to
// the first packet that it does not know to have arrived, and sends all from there:
//
//   - when its agent moves it, by a notice of the data plane, a controller's update, or what package endpoint does
//     about last packets that are not answered: the probe behind them, the silence of one queue pair among others,
//     the round trips that say how long is late;
//   - one round trip after something sent behind the gap arrives, as the receiver asks for what is missing: the
//     tables were repaired, or the data plane goes round the port, while it still sends;
//   - when its retransmission timer runs, which every packet starts anew.
//
// Agents lay losses to congestion where switches have marked recently. What marks would be is estimated, from by how
// much the hosts' equal shares exceed a port, for how long.
//
// What hangs on single packets, or on queues, is refused with [ErrFailure]: gray and slow links, pauses, failures under
// schemes with a path per packet, receivers other than go-back-n, controls other than dctcp and none, and what was more than
// 15 % off packets: see [Check] and docs/results/performance.md.
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
