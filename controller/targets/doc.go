// Package targets says how kinds of switches differ for a controller, and is all that the rest of the code knows of them.
//
// A [Kind] is one package: which program the switch runs and how that is packed, what its tables and counters are called,
// what it lacks, what it is able to do ([Traits]), and how the controller's tables are said in those of another program
// ([Translation]). Package kinds has the one list of them.
//
// A [Profile] is a kind with its traits, some of which a targets file may change (`like:`). The controller's core knows
// none of this: it numbers the ports of a switch from 1, as the fabric does, and a [PortMap] turns them into the numbers
// of the switch on the way out and back on the way in.
//
// Profiles and port maps are immutable and safe for concurrent use.
package targets
