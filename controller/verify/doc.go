// Package verify proves, from the tables of the switches alone, that packets go
// where they should.
//
// It knows the wiring, which links carry packets, what the tables hold, and how
// the P4 program uses them. It knows nothing of how the controller arrives at
// them, so that it can find the controller wrong.
//
// # What is proved
//
// [Check] follows every packet class, from every ToR to every host with every
// label, and without one:
//
//   - a label whose path is alive leads along exactly that path to the host;
//   - without a label, every choice of the ECMP hashes leads to the host, if any
//     path is alive;
//   - nothing ever loops, and nothing is lost but where a link on its way is dead
//     and there is no way round at that switch; then the switch can notify the
//     source.
//
// The same is then proved with each single further link failed, before the
// controller has reacted: a switch sends what it would send up the dead port by
// any other live uplink, and answers, and drops what it would send down.
//
// # Trust
//
// The walk takes the P4 program as given, and the reroute as free to pick any
// live uplink. Queues, rates and congestion are not its business. It is not
// symbolic: its cost grows with ToRs squared times labels.
package verify
