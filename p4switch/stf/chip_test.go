package stf_test

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/stf"
	"github.com/ethereal-fabric/ethereal/p4switch/stf/stftest"
)

// TestChip plays what P4Testgen makes of the chips' program by the chip's semantics, packets, entries and what comes out, on
// v1model's program. docs/tofino.md has the command.
func TestChip(t *testing.T) {
	stftest.Chip(t, func(s *stf.Script, prog *program.Program) (*stf.Report, error) { return s.Run(prog) })
}
