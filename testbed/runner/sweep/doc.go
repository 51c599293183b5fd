// Package sweep reads sweeps: YAML files that say which scenarios to run, with
// which of their keys set to what. A scenario multiplies out failures,
// collectives, schemes and seeds; a sweep multiplies out anything else, several
// scenarios at once.
//
// [Load] checks all of it before anything runs. [Sweep.Cases] are independent
// runs, each with the hash that [scenario.Run.Hash] gives it: a program that keeps
// results by that hash can stop at any time and go on later. A run that two
// parts ask for is one case.
//
// Nothing here runs anything, and nothing is safe to write to after Load.
package sweep
