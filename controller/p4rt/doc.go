// Package p4rt translates between the controller's table entries and P4Runtime
// messages.
//
// A [Schema] is made from a target's P4Info, once: it checks that the program
// has every table, action and field the controller writes, with the widths it
// expects, and holds their numbers. It is immutable and safe for concurrent use.
//
// Byte strings are written in P4Runtime's canonical form, and read in any.
// Entries that are not the controller's, such as a program's constant ones, are
// reported as [ErrForeign], to be passed over.
//
// # Traps
//
// A server may carry out the updates of one WriteRequest in any order.
// [WriteRequests] therefore begins a new request where the order matters; the
// caller sends one only when the one before is answered.
package p4rt
