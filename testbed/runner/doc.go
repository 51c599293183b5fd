// Package runner carries out the runs of scenarios: one at a time in a [World], which
// is the virtual one, the model of flows, processes on this machine ([NewLive]), or a
// fabric that somebody else has made ([Attach]: Mininet, a lab).
//
// [Timed] makes the healthy run that the times of a run's events may be shares of, and
// says in each result when the first failure came. A [Record] keeps what happens during
// a run, and [Judge] compares what was measured with what the scenario expects.
package runner
