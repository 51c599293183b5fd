// Package kinds has the only list of the kinds of switches.
package kinds

import (
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/controller/targets/bmv2"
	"github.com/ethereal-fabric/ethereal/controller/targets/ethereal"
	"github.com/ethereal-fabric/ethereal/controller/targets/pins"
	"github.com/ethereal-fabric/ethereal/controller/targets/tofino"
)

// All returns every kind of switch.
func All() targets.Kinds {
	return targets.Kinds{
		bmv2.Kind{}, Own(), bmv2.Stratum{}, tofino.Stratum, tofino.Stratum2, tofino.SDE, pins.Kind{},
	}
}

// Default returns the profile of a switch without profile.
func Default() *targets.Profile { return targets.NewProfile(Own()) }

// Own returns our own switch.
func Own() targets.Starter { return ethereal.Kind{} }

// Starters returns the kinds whose switches the live world starts.
func Starters() []targets.Starter {
	var out []targets.Starter
	for _, k := range All() {
		if s, ok := k.(targets.Starter); ok {
			out = append(out, s)
		}
	}
	return out
}
