// Package sweep reads sweeps: YAML files that list scenarios and values for their keys. A scenario multiplies out
// failures, collectives, schemes and seeds; a sweep multiplies out any other key, over several scenarios.
//
// [Load] checks all of it before anything runs. [Sweep.Cases] are independent runs, each with the hash that
// [scenario.Run.Hash] returns. A program that stores results by that hash can stop at any time and continue later.
// Identical runs of two parts are one case.
//
// The package runs nothing. Do not write to its values after Load.
package sweep
