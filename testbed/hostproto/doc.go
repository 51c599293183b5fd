// Package hostproto is the protocol between a coordinator and the hosts of a live fabric: JSON objects, one per
// line, over a UNIX stream socket, which works across network namespaces.
//
// A coordinator sends a [Request] with Seq and exactly one other field set. The host answers each with a [Reply]
// that has the same Seq, and reports events by replies with Seq 0 and Event set. Times are nanoseconds of the
// host's CLOCK_MONOTONIC, which all processes of a machine share. Clocks of different machines differ by days, so a
// coordinator of several machines asks each host for its Clock.
//
// A socket serves one coordinator at a time: a new one ends the previous one.
package hostproto
