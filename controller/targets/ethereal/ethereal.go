// Package ethereal supports this project's own switch, `ethereal switch`: see p4switch.
package ethereal

import (
	"fmt"
	"strconv"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"

	"github.com/ethereal-fabric/ethereal/controller/targets"
)

// Kind returns the kind of switch, for [targets.Kind].
type Kind struct{}

// Name returns the kind's name in targets files, for [targets.Kind].
func (Kind) Name() string { return targets.Default }

// Program returns the P4 program that the switch runs, for [targets.Kind].
func (Kind) Program() targets.Program { return targets.OwnProgram() }

// Traits returns the limits and abilities of the kind, for [targets.Kind].
func (Kind) Traits() targets.Traits { return targets.Traits{} }

// Pack makes the P4Runtime device config from the compiler's output, for [targets.Kind].
func (Kind) Pack(c targets.Compiled) ([]byte, error) { return targets.PackJSON(c) }

// Translate returns the translation of the controller's tables to those of the switch's program; nil: they are the
// same, for [targets.Kind].
func (Kind) Translate(*p4config.P4Info) (targets.Translation, error) { return nil, nil }

// sendBuffer is the size of the kernel's buffer below a switch's own queues, in bytes.
const sendBuffer = 64 << 10

// Start returns the flag that selects the kind, and what its switches need, for [targets.Starter].
func (Kind) Start() targets.Start { return targets.Start{} }

// Command returns the command line of a switch process, for [targets.Starter].
func (Kind) Command(b targets.LaunchParams) targets.Command {
	args := []string{"switch", "--no-p4", "--device-id", strconv.FormatUint(b.DeviceID, 10), "--ethernet-names", "--log-console",
		"--log-level", "warn"}
	for i, p := range b.Ports {
		args = append(args, "-i", fmt.Sprintf("%d@%s", i+1, p.Interface))
	}
	args = append(args, "--", "--grpc-server-addr", b.P4Runtime, "--cpu-port", strconv.Itoa(int(b.CPUPort)), "--priority-queues", "2",
		"--send-buffer", strconv.Itoa(sendBuffer))
	if b.QueueDepth > 0 {
		args = append(args, "--queue-depth", strconv.Itoa(b.QueueDepth))
	}
	if b.Datapath != "" {
		args = append(args, "--datapath", b.Datapath)
	}
	return targets.Command{Args: args}
}
