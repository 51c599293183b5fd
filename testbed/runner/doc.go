// Package runner carries out the runs of scenarios, one at a time, in a [World]: the virtual one, the model of
// flows, processes on this machine ([NewLive]), or an existing fabric ([Attach]: Mininet, a lab).
//
// [Timed] makes the healthy run that serves as the unit for event times given as shares of a run, and writes the
// time of the first failure into each result. A [Record] keeps the events of a run, and [Judge] compares the
// measurements with the scenario's expectations.
package runner
