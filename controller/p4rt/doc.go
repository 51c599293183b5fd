// Package p4rt translates between the controller's table entries and P4Runtime
// messages, and keeps the sessions to switches.
//
// A [Schema] is made from a target's P4Info, once: it checks that the program
// has every table, action and field the controller writes, with the widths it
// expects, and holds their numbers. It is immutable and safe for concurrent use.
//
// Byte strings are written in P4Runtime's canonical form, and read in any.
// Entries that are not the controller's, such as a program's constant ones, are
// reported as [ErrForeign], to be passed over.
//
// # Sessions
//
// A [Session] is the controller's side of one switch. [Session.Run] connects,
// bids for being primary, pushes the pipeline if the switch runs another, reads
// the tables back and hands them to its owner, who answers with the updates that
// repair them; from then on updates go out in the order in which they were
// queued. What goes wrong ends in the same way: the tables are read again, after
// a back-off and, if need be, a new connection. A session that is not primary
// waits, and one that is demoted breaks off the call under way. The decisions are
// a [Lifecycle]'s, which has no goroutine, socket or clock.
//
// Each read-back begins a tenure. Updates are computed for what was read, so a
// write that names an older tenure is turned away.
//
// # Traps
//
// A server may carry out the updates of one WriteRequest in any order.
// [WriteRequests] therefore begins a new request where the order matters; the
// caller sends one only when the one before is answered.
package p4rt
