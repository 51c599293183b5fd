// Package p4rt translates between the controller's table entries and P4Runtime messages, and keeps the sessions to
// switches.
//
// A [Schema] is made once, from a target's P4Info. It checks that the program has every table, action and field
// that the controller writes, with the expected widths, and holds their numbers. It is immutable and safe for
// concurrent use.
//
// Byte strings are written in P4Runtime's canonical form, and read in any form. Entries that are not the
// controller's, such as a program's constant entries, are reported as [ErrForeign]; callers skip them.
//
// # Sessions
//
// A [Session] is the controller's side of one switch. [Session.Run] connects, asks to be primary, pushes the
// pipeline if the switch runs another one, reads the tables and hands them to its owner. The owner answers with the
// updates that repair the tables; from then on updates are sent in the order in which they were queued. Every error
// has the same result: the tables are read again, after a back-off and, if necessary, over a new connection. A
// session that is not primary waits, and one that is demoted cancels the current call. A [Lifecycle] makes these
// decisions; it has no goroutine, socket or clock.
//
// Each reading of the tables begins a tenure. Updates are computed for the tables as read, so a write that names an
// older tenure is refused.
//
// # Traps
//
// A server may carry out the updates of one WriteRequest in any order. [WriteRequests] therefore begins a new
// request where the order matters. The caller sends a request only after the previous one is answered.
package p4rt
