// Package bmv2 supports BMv2: simple_switch_grpc with `ethereal gnmi` beside it, and BMv2 under Stratum.
package bmv2

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"

	"github.com/ethereal-fabric/ethereal/controller/targets"
)

// Stratum is stratum_bmv2. It implements [targets.Kind].
type Stratum struct{}

// Name returns the kind's name in targets files, for [targets.Kind].
func (Stratum) Name() string { return "stratum-bmv2" }

// Program returns the P4 program that the switch runs, for [targets.Kind].
func (Stratum) Program() targets.Program { return targets.OwnProgram() }

// Traits returns the limits and abilities of the kind, for [targets.Kind].
func (Stratum) Traits() targets.Traits { return targets.Traits{NeedsPorts: true} }

// Pack makes the P4Runtime device config from the compiler's output, for [targets.Kind].
func (Stratum) Pack(c targets.Compiled) ([]byte, error) { return targets.PackJSON(c) }

// Translate returns the translation of the controller's tables to those of the switch's program; nil: they are the
// same, for [targets.Kind].
func (Stratum) Translate(*p4config.P4Info) (targets.Translation, error) { return nil, nil }

// Kind is BMv2's simple_switch_grpc. It implements [targets.Starter].
type Kind struct{ Stratum }

// Name returns the kind's name in targets files, for [targets.Kind].
func (Kind) Name() string { return "bmv2" }

// Traits returns the limits and abilities of the kind, for [targets.Kind]. PI refuses clone sessions with a class or a
// length.
func (Kind) Traits() targets.Traits { return targets.Traits{NoGNMI: true} }

// Start returns the flag that selects the kind, and what its switches need, for [targets.Starter].
func (Kind) Start() targets.Start {
	return targets.Start{
		Value: "PROGRAM", Help: "run BMv2's `PROGRAM` simple_switch_grpc as switches, with ethereal gnmi beside each", Binary: true, Shadows: true,
	}
}

// thriftBase is the first port of the Thrift servers that BMv2 always starts, in the fabric's own namespace.
const thriftBase = 20000

// ThriftOptions returns the command-line options by which a BMv2 program serves Thrift at a port; none if it is built
// without Thrift, as it would refuse them.
func ThriftOptions(program string, port int) []string {
	if usage, err := exec.Command(program, "--help").Output(); err == nil && !bytes.Contains(usage, []byte("--thrift-port")) {
		return nil
	}
	return []string{"--thrift-port", strconv.Itoa(port)}
}

// Command returns the command line of a switch process, for [targets.Starter]. Port events come from the gNMI server
// beside it.
func (Kind) Command(b targets.LaunchParams) targets.Command {
	args := []string{"--no-p4", "--device-id", strconv.FormatUint(b.DeviceID, 10), "--log-console", "-L", "warn"}
	args = append(args, ThriftOptions(b.Binary, thriftBase+b.Number)...)
	beside := []string{"gnmi", "--ethernet-names", "--listen-gnmi", b.GNMI}
	for i, p := range b.Ports {
		args = append(args, "-i", fmt.Sprintf("%d@%s", i+1, p.Shadow))
		beside = append(beside, "-i", fmt.Sprintf("%d@%s", i+1, p.Interface))
	}
	return targets.Command{
		Args: append(args, "-i", fmt.Sprintf("%d@%s", b.EventPort, b.Events[1]),
			"--", "--grpc-server-addr", b.P4Runtime, "--cpu-port", strconv.Itoa(int(b.CPUPort)), "--priority-queues", "2"),
		Beside: append(beside, "--event-interface", b.Events[0]),
	}
}
