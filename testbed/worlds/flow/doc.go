// Package flow carries out the runs of a scenario without packets: every queue pair is a fluid that gets its
// max-min fair share of the links on its path. It is for fabrics that are too large for the packet level (package
// virtual), up to tens of thousands of hosts, and gives the same kind of result.
//
// # What is real
//
// The collective's state machines, the host's core (package host: its splits, labels and flips), the controller's
// (rollout, by package controlplane), the fabric's paths, the switches' tables and their ECMP hash, batching
// windows, start jitter, headers, the order of messages to one peer, failures and all their detection delays.
// Agents are notified, and tables written, at the same times as in the virtual world.
//
// # What is not
//
// There are no queues, drops, marks and rate control: rates are max-min fair at once. Acknowledgements take their
// share of every link's capacity. A scheme's [balance.Spec] says what its queue pairs do. With balance.Spread,
// which chooses a path per packet, bytes spread evenly over all paths, as an ideal. Schemes with
// balance.NoFlowModel move with queues, and are refused with [ErrScheme].
//
// # Planes
//
// A queue pair uses one plane, by a port of its host, as its label says. Each plane has its own controller. Where
// planes are larger than tables can be, one controller knows the links of all planes: it notifies agents and writes
// no tables.
//
// # Failures
//
// A cut loses all packets on the link and all packets sent into it. The receiver has the queue pair's packets that
// had crossed the link; the sender knows of those whose acknowledgements had crossed it. The sender is not notified
// and continues at its rate; its bytes take their share of the links before the dead one. It returns to the first
// packet without acknowledgement, and sends everything from there again, when one of these happens:
//
//   - its agent moves it, because of a notice of the data plane, a controller's update, or the means of package endpoint
//     for unanswered last packets: the probe behind them, the silence of one queue pair among others, the round trips
//     that say how long is too late;
//   - one round trip after a packet behind the gap arrives, as the receiver asks for the missing one: the tables were
//     repaired, or the data plane goes around the port, while it still sends;
//   - its retransmission timer expires, which every packet restarts.
//
// Agents attribute losses to congestion where switches have marked recently. Marks are estimated from how far, and
// for how long, the hosts' equal shares exceed a port's rate.
//
// Effects that depend on single packets, or on queues, are refused with [ErrFailure]: gray and slow links, pauses,
// failures under schemes with a path per packet, receivers other than go-back-n, controls other than dctcp and
// none, and cases that differed by more than 15 % from packets: see [Check] and docs/results/performance.md.
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
