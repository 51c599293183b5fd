// Package bmv2 is BMv2: simple_switch_grpc by itself, with `ethereal gnmi` beside it, and under Stratum.
package bmv2

import (
	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"

	"github.com/ethereal-fabric/ethereal/controller/targets"
)

// Kind implements [targets.Kind].
type Kind struct{ stratum bool }

// Plain is simple_switch_grpc. PI refuses clone sessions with a class or a length.
// Stratum is stratum_bmv2.
var (
	Plain   = Kind{}
	Stratum = Kind{stratum: true}
)

// Name implements [targets.Kind].
func (k Kind) Name() string {
	if k.stratum {
		return "stratum-bmv2"
	}
	return "bmv2"
}

// Program implements [targets.Kind].
func (Kind) Program() targets.Program { return targets.OwnProgram() }

// Traits implements [targets.Kind].
func (k Kind) Traits() targets.Traits {
	return targets.Traits{NeedsPorts: k.stratum, NoGNMI: !k.stratum}
}

// Pack implements [targets.Kind].
func (Kind) Pack(c targets.Compiled) ([]byte, error) { return targets.PackJSON(c) }

// Translate implements [targets.Kind].
func (Kind) Translate(*p4config.P4Info) (targets.Translation, error) { return nil, nil }
