// Package ethereal is this project's own switch, `ethereal switch`: see testbed/p4switch.
package ethereal

import (
	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"

	"github.com/ethereal-fabric/ethereal/controller/targets"
)

// Kind implements [targets.Kind].
type Kind struct{}

// Name implements [targets.Kind].
func (Kind) Name() string { return targets.Default }

// Program implements [targets.Kind].
func (Kind) Program() targets.Program { return targets.OwnProgram() }

// Traits implements [targets.Kind].
func (Kind) Traits() targets.Traits { return targets.Traits{} }

// Pack implements [targets.Kind].
func (Kind) Pack(c targets.Compiled) ([]byte, error) { return targets.PackJSON(c) }

// Translate implements [targets.Kind].
func (Kind) Translate(*p4config.P4Info) (targets.Translation, error) { return nil, nil }
