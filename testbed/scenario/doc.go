// Package scenario reads experiments: fabric, switches, hosts and control plane, collectives and schemes, failures
// and their times, and the notifiers of failures.
//
// A [Scenario] is read from YAML by [Load], checked as a whole, and expanded to an ordered list of independent runs
// by [Scenario.Expand]. Other packages decide what the runs do: this package knows names, units and limits only.
//
// # Errors
//
// An invalid scenario gives strictyaml.Errors, all that one reading can find, each in the form
//
//	file:line:column: key path: what is wrong; what would be right
//
// Unknown keys are refused, and the nearest known key is named. Every error of this package that is about the input
// matches strictyaml.ErrContent.
//
// # Units
//
// Quantities carry their unit: 20us, 400Gb/s, 64MB. Megabytes are decimal, as in the literature; MiB are binary.
// Times are [fabric.Time] in memory.
//
// # Lifetime
//
// A Scenario is plain data. After Expand all runs share it, and may execute concurrently, so it must not be written
// to any more.
package scenario
