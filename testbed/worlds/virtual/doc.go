// Package virtual is the virtual world: it assembles one run of a scenario from the shipped parts and carries it
// out in virtual time.
//
// Every switch of the fabric is an [interp.Switch] that executes the compiled P4 program, behind a [p4runtime.Core]
// and a [gnmi.Core] that take the same P4Runtime and gNMI messages as over TCP. Every host is an
// [transport.Endpoint] whose queue pairs a [balance.Host] opens and labels. The controller is a [controller.Core].
// Instead of over a connection, a message arrives by a function call after the scenario's delay. Everything runs on
// one goroutine and one clock, so a run is a function of the scenario and the seed.
//
// # What a run measures
//
// The collective completion time (CCT) ends when the last rank has received all its messages and holds the last
// acknowledgement of its own. Uplink loads are the counters of the P4 program, read over P4Runtime at the end. A
// packet counts as lost to the failure if a cut link lost it, or a switch dropped it because no live port was left;
// all other losses are drops.
package virtual
