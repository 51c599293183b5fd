// Package targets describes how kinds of switches differ for a controller. The rest of the code knows kinds only
// through this package.
//
// A [Kind] is one package. It says which program the switch runs and how the program is packed, the names of its
// tables and counters, what it lacks, what it can do ([Traits]), and how the controller's tables are translated to
// those of another program ([Translation]). Package kinds has the only list of kinds.
//
// A [Profile] is a kind with its traits; a targets file may change some of them (`like:`). The controller's core
// does not know kinds. It numbers the ports of a switch from 1, as the fabric does, and a [PortMap] translates
// these numbers to the switch's numbers and back.
//
// Profiles and port maps are immutable and safe for concurrent use.
package targets
