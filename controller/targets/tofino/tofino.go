// Package tofino supports switches with Intel's Tofino chips: under Stratum, and under the P4Runtime server of the
// chip's SDE. They run p4src/tna/ethereal.p4.
//
// Sources: Stratum's p4_device_config formats (BfPipelineConfig, and the packing of p4lang/PI), its chassis config,
// TNA's device ports. docs/lab.md marks what has not been tried on hardware.
package tofino

import (
	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/targets"
)

// The cells of the packet buffer, in bytes.
const (
	tofino1Cell = 80
	tofino2Cell = 176
)

// quenchClone is the number of bytes that a chip's mirror must keep of a packet: Ethernet, VLAN, IPv6, UDP, BTH and
// the mirror's own header.
const quenchClone = 14 + 4 + 40 + 8 + 12 + 14

// t2naSession is the mirror session of quenches on Tofino 2, whose session numbers have 8 bits: see mirror_quench
// in tna/ingress.p4.
const t2naSession = 1

// Kind is a Tofino with one of its P4Runtime servers.
type Kind struct {
	name    string
	program string // the architecture for which p4src/tna/ethereal.p4 is compiled
	chip    string // its name in context.json
	pack    func(targets.Compiled) []byte
	cell    int
	session uint32
	noGNMI  bool
}

// Stratum is Tofino 1 under Stratum, Stratum2 Tofino 2, and SDE Tofino 1 under the P4Runtime server of the chip's
// own SDE, which takes PI's packing and has no gNMI.
var (
	Stratum  = Kind{name: "stratum-tofino", program: "tna", chip: "tofino", pack: packStratum, cell: tofino1Cell}
	Stratum2 = Kind{name: "stratum-tofino2", program: "t2na", chip: "tofino2", pack: packStratum, cell: tofino2Cell, session: t2naSession}
	SDE      = Kind{name: "tofino-sde", program: "tna", chip: "tofino", pack: packPI, cell: tofino1Cell, noGNMI: true}
)

// Name returns the kind's name in targets files, for [targets.Kind].
func (k Kind) Name() string { return k.name }

// Program returns the P4 program that the switch runs, for [targets.Kind].
func (k Kind) Program() targets.Program {
	return targets.Program{
		Name: k.program, Files: "p4info, bf_rt, context and binary that the compiler wrote of p4src/tna/ethereal.p4",
		MoreRoom: "compile the program with more room (docs/tofino.md: -DROUTES, -DLABELS, -DECMP_MEMBERS), " +
			"name it under programs in the targets file, or make the fabric smaller",
	}
}

// Traits returns the limits and abilities of the kind, for [targets.Kind].
func (k Kind) Traits() targets.Traits {
	return targets.Traits{
		BatchSize: 256, Lacks: []controller.Table{controller.PortOfUplink}, CloneBytes: quenchClone, CloneSession: k.session,
		QueueUnit: k.cell, NeedsPorts: true, NotifyPorts: true, NoGNMI: k.noGNMI,
	}
}

// Pack makes the P4Runtime device config from the compiler's output, for [targets.Kind].
func (k Kind) Pack(c targets.Compiled) ([]byte, error) {
	if err := checkCompiled(c, k.chip); err != nil {
		return nil, err
	}
	return k.pack(c), nil
}

// Translate returns the translation of the controller's tables to those of the switch's program; nil: they are the
// same, for [targets.Kind].
func (Kind) Translate(*p4config.P4Info) (targets.Translation, error) { return nil, nil }
