// Package experiment reads and runs experiments: a scenario's fabric, hosts and
// collective, to which steps are done at times, and of which something is
// expected.
//
// # Use
//
//	e, err := experiment.Load("mininet/experiments/single-link.yaml")
//	outcome, err := experiment.Run(ctx, e, world)
//	outcome.Held() // whether all expectations held
//
// # Worlds
//
// A [World] is where an experiment happens: virtual time, processes on this
// machine, Mininet, a lab. The file is the same for all. What a world cannot do
// at the virtual one's speed is stretched: an experiment says, per world, by how
// much its times are multiplied and how large its messages are there.
//
// # The record
//
// Everything that happens, by steps and by itself, goes into one [Record] on one
// clock: steps, gNMI updates, P4Runtime writes, pushes to agents, flips, losses.
//
// # Goroutines
//
// A Record is safe for concurrent use. An Experiment is not written to once
// loaded.
package experiment
