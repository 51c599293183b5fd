// Package hostproto is what a coordinator and the hosts of a live fabric say to
// each other: JSON objects, one a line, over a UNIX stream socket, which the
// file system carries across network namespaces.
//
// A coordinator sends a [Request] with exactly one of its fields set beside Seq.
// The host answers each with a [Reply] that has the same Seq, and says what
// happens by replies whose Seq is 0 and whose Event is set. Times are nanoseconds
// of the host's CLOCK_MONOTONIC, which all processes of a machine share. Machines'
// clocks differ by days: who leads hosts on several asks each for its Clock.
//
// A socket takes one coordinator at a time: a new one ends the one before.
package hostproto
