package live

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/controller/targets/kinds"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Switches is the kind of switches of a live fabric, and their program. The zero value is `ethereal switch`.
type Switches struct {
	Kind     targets.Starter // nil: `ethereal switch`
	Datapath string          // one of Datapaths; empty: Interpreter
	Binary   string          // program to run for a switch; empty: `ethereal switch`
	Program  Program         // P4 program of the switches; zero: the controller's own
}

// Program is p4c's output for a P4 program.
type Program struct{ P4Info, JSON string }

// kind returns the kind of the switches.
func (s Switches) kind() targets.Starter {
	if s.Kind != nil {
		return s.Kind
	}
	return kinds.Own()
}

// Name returns the name of the kind of switches.
func (s Switches) Name() string { return s.kind().Name() }

// needs returns what the live world must prepare for the switches.
func (s Switches) needs() targets.Start { return s.kind().Start() }

// reads refuses labels that the switches cannot read.
func (s Switches) reads(c scenario.Carrier) error {
	traits := s.kind().Traits()
	if problem, _, ok := traits.ReadsLabels(c.Tables()); !ok {
		return fmt.Errorf("live: %s %s; write host.carrier: %s, or --carrier %[3]s", s.Name(), problem, scenario.UDPSourcePort)
	}
	return nil
}

// programs returns the programs of a targets file; nil: none need be named.
func (s Switches) programs() map[string]daemon.FileProgram {
	if s.Program == (Program{}) {
		return nil
	}
	return map[string]daemon.FileProgram{s.kind().Program().Name: {P4Info: s.Program.P4Info, JSON: s.Program.JSON}}
}

// describe writes a switch's entry of a targets file.
func (s Switches) describe(t *daemon.FileTarget, ports int) {
	t.Profile = s.Name()
	if !s.kind().Traits().NeedsPorts {
		return
	}
	for p := fabric.PortNo(1); int(p) <= ports; p++ {
		t.Ports = append(t.Ports, targets.Port{Name: (*targets.PortMap)(nil).Name(p), ID: uint32(p)})
	}
}
