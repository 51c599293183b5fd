// Package deployment describes how to reach, read, cut and restore an existing fabric, for every world outside
// virtual time.
//
// A [File] names the parts of a fabric, of the live world, Mininet, or a lab. [Open] makes a [Fabric] from the
// controller's own configuration of its targets. A [Switch] has the names and numbers of its ports, its gNMI target
// and its program. So an experiment reaches everything that the controller reaches.
package deployment
