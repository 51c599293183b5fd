package pins

import (
	"fmt"
	"slices"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/controller/targets/ethereal"
)

// Kind returns the kind of switch, for [targets.Kind].
type Kind struct{}

// Name returns the kind's name in targets files, for [targets.Kind].
func (Kind) Name() string { return "pins" }

// Program returns the P4 program that the switch runs, for [targets.Kind].
func (Kind) Program() targets.Program {
	return targets.Program{
		Name: "sai", Files: "p4info of the switch's sai_p4, as {p4info: FILE}",
		MoreRoom: "name the P4Info of an instantiation of sai_p4 with more room, or make the fabric smaller",
	}
}

// Traits returns the limits and abilities of the kind, for [targets.Kind].
func (Kind) Traits() targets.Traits {
	has := []controller.Table{controller.LabelCarrier, controller.ECMP, controller.RouteV4, controller.RouteV6, controller.SourceRoute}
	return targets.Traits{
		Lacks:      slices.DeleteFunc(controller.Tables(), func(t controller.Table) bool { return slices.Contains(has, t) }),
		NeedsPorts: true, SourcePortsOnly: true, NoQuench: true, NoPackets: true,
	}
}

// Pack makes the P4Runtime device config from the compiler's output, for [targets.Kind]. PINS takes no program besides
// its P4Info; switches that execute sai_p4 do.
func (Kind) Pack(c targets.Compiled) ([]byte, error) {
	if len(c.JSON) == 0 {
		return nil, nil
	}
	return targets.PackJSON(c)
}

// Translate returns the translation of the controller's tables to those of the switch's program; nil: they are the
// same, for [targets.Kind].
func (Kind) Translate(info *p4config.P4Info) (targets.Translation, error) {
	program, err := NewProgram(info)
	if err != nil {
		return nil, fmt.Errorf("p4info: %w", err)
	}
	return program, nil
}

// Client returns a P4Runtime client that accepts entries of the controller's tables, for [targets.Translation].
func (p *Program) Client(over p4.P4RuntimeClient, at targets.SwitchPlace, words targets.EntryCodec) p4.P4RuntimeClient {
	return NewClient(over, p, at, words)
}

// Start returns the flag that selects the kind, and what its switches need, for [targets.Starter]. Our own switches
// execute sai_p4.
func (Kind) Start() targets.Start {
	return targets.Start{Value: "P4INFO,JSON", Help: "the live world's switches run sai_p4, as SONiC's PINS does: `P4INFO,JSON` that p4c wrote of it"}
}

// Command returns the command line of a switch process, for [targets.Starter].
func (Kind) Command(b targets.LaunchParams) targets.Command { return ethereal.Kind{}.Command(b) }
