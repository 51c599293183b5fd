package live

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/controller/targets/kinds"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Switches says what the switches of a live fabric are. The zero Switches are ours.
type Switches struct {
	Kind     targets.Starter // nil: ours
	Datapath string          // one of Datapaths; empty: Interpreter
	Binary   string          // to run for a switch; empty: `ethereal switch`
	Program  Program         // that the switches execute; zero: the controller's own
}

// Program is what p4c wrote of a program.
type Program struct{ P4Info, JSON string }

// kind returns what the switches are.
func (s Switches) kind() targets.Starter {
	if s.Kind != nil {
		return s.Kind
	}
	return kinds.Own()
}

// Name returns the name of their kind.
func (s Switches) Name() string { return s.kind().Name() }

// needs returns what they need around them.
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

// describe says in a targets file what a switch is.
func (s Switches) describe(t *daemon.FileTarget, ports int) {
	t.Profile = s.Name()
	if !s.kind().Traits().NeedsPorts {
		return
	}
	for p := fabric.PortNo(1); int(p) <= ports; p++ {
		t.Ports = append(t.Ports, targets.Port{Name: (*targets.PortMap)(nil).Name(p), ID: uint32(p)})
	}
}
