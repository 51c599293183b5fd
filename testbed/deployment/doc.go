// Package deployment says how a fabric that is there is reached, read, cut and healed: the one answer for every world
// outside virtual time.
//
// A [File] names the parts of a fabric, however it was made: the live world, Mininet, or people with a lab. [Open]
// makes a [Fabric] of the controller's own configuration of its targets: a [Switch] has the names and numbers of its
// ports, its gNMI target and its program, so that what the controller reaches, an experiment reaches, too.
package deployment
