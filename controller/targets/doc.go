// Package targets says how kinds of switches differ for a controller: how the
// compiled program is packed for them, what batches they accept, how they number
// and name ports, which tables their program has no need of, how a clone is set
// up, and what they answer over gNMI.
//
// A [Profile] is data, plus a function that packs the program; the targets file may have more of them, each like one of
// these. The controller's
// core knows none of this: it numbers the ports of a switch from 1, as the fabric
// does, and a [PortMap] turns them into the numbers of the switch on the way out
// and back on the way in.
//
// Profiles are immutable and safe for concurrent use.
//
// Sources: Stratum's p4_device_config formats (BfPipelineConfig, and the packing
// of p4lang/PI), its chassis config, TNA's device ports. What has not met the
// hardware is marked so in docs/lab.md.
package targets
