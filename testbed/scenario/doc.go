// Package scenario reads experiments: which fabric, switches, hosts and control
// plane, which collectives under which schemes, what fails when, and who notifies
// the hosts.
//
// A [Scenario] is read from YAML by [Load], checked as a whole, and turned into
// an ordered list of independent runs by [Scenario.Expand]. What the runs do is
// decided elsewhere: this package knows names, units and limits only.
//
// # Errors
//
// Input that is not a valid scenario gives strictyaml.Errors, all that could be found in
// one reading, each in the form
//
//	file:line:column: key path: what is wrong; what would be right
//
// Unknown keys are refused, and the nearest known key is named. Every error of
// this package that is about the input matches strictyaml.ErrContent.
//
// # Units
//
// Quantities carry their unit: 20us, 400Gb/s, 64MB. Megabytes are decimal, as
// in the literature; MiB are binary. Times are [fabric.Time] in memory.
//
// # Lifetime
//
// A Scenario is plain data. Once expanded it is shared by all its runs, which
// may execute concurrently, so nothing may write to it any more.
package scenario
