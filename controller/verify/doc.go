// Package verify proves, from the tables of the switches alone, that packets reach their destinations.
//
// It knows the wiring, which links carry packets, the contents of the tables, and how the P4 program uses them. It
// does not know how the controller computes the tables, so it can detect the controller's errors.
//
// # What is proved
//
// [Check] follows every packet class, from every ToR to every host, with every label and without one:
//
//   - a label whose path is alive leads along exactly that path to the host;
//   - without a label, every choice of the ECMP hashes leads to the host, if any path is alive;
//   - no ToR takes a host's own addresses for forged (table source_guard);
//   - nothing ever loops. A packet is lost only where a link on its way is dead and the switch has no other way; the
//     switch can then notify the source;
//   - without a label, no packet crosses a link that is named as drained. Labels follow as hosts change them.
//
// All but the last is then proved with each single further link failed, before the controller has reacted: a switch
// sends packets for a dead uplink by any other live uplink, and answers; it drops packets for a dead down port.
//
// # Trust
//
// The proof takes the P4 program as given, and assumes that the reroute may pick any live uplink. It does not
// consider queues, rates and congestion. It is not symbolic: its cost grows with the square of the number of ToRs
// times the number of labels.
package verify
