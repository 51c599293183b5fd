// Package virtual is the virtual world: it assembles one run of a scenario out
// of the shipped parts and carries it out in virtual time.
//
// Every switch of the fabric is a [interp.Switch] that executes the compiled P4
// program, behind a [p4runtime.Core] and [gnmi.Core] that take the same
// P4Runtime and gNMI messages as over TCP; every host is a [endpoint.Endpoint] whose
// queue pairs a [balance.Host] opens and labels; the controller is a
// [controller.Core]. What would be a connection is a function call after the
// delay the scenario states. All of it is one goroutine and one clock, so a run
// is a function of the scenario and the seed.
//
// # What a run measures
//
// The collective completion time (CCT) is when the last rank has received all
// its messages and holds the last acknowledgement of its own. Uplink loads are
// the counters of the P4 program, read over P4Runtime at the end. A packet is
// lost to the failure when a cut link swallowed it, or a switch dropped it for
// want of a live port; drops are all others.
package virtual
