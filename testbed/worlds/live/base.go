package live

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Where a live fabric's switches carry their program out: see `ethereal switch
// --datapath`.
const (
	Interpreter = "interpreter"  // the P4 interpreter in the switch's process; the default
	Kernel      = "kernel"       // eBPF in the kernel, and the interpreter for what that cannot do
	TofinoModel = "tofino-model" // the program for Tofino, on the chip's functional model, which is slow
)

// Datapaths returns the names of the data paths of a live fabric's switches.
func Datapaths() []string { return []string{Interpreter, Kernel, TofinoModel} }

// CheckDatapath returns an error unless name is one of [Datapaths], or of more.
func CheckDatapath(where string, more ...string) error {
	if all := append(Datapaths(), more...); !slices.Contains(all, where) {
		return fmt.Errorf("%q is unknown; write one of %s", where, strings.Join(all, ", "))
	}
	return nil
}

// Base is what all fabrics that one live world starts, one after the other, have in common.
type Base struct {
	Switches
	Dir  string // folder for sockets and logs
	Page *Page  // where controllers serve the web page of the fabric; nil: nowhere
	Log  *slog.Logger
	// Lost is called when a process of a fabric has ended unexpectedly; the error names it. It is not started again.
	// Calls may be concurrent. May be nil.
	Lost func(error)
}

// QueueDepth returns the length of a port's queue, in packets, that is an equal share of its switch's buffer in a run.
func QueueDepth(run scenario.Run) int {
	s, ports := run.Scenario, 1
	for i := range run.Fabric.Switches() {
		ports = max(ports, run.Fabric.Node(fabric.NodeID(run.Fabric.Hosts()+i)).Ports())
	}
	return int(min(math.MaxInt16, max(64, int64(s.Switch.Buffer)/int64(ports)/int64(s.Host.Payload+headroom))))
}

// headroom is what frames have besides the payload of a packet, at most:
// Ethernet, IPv6, UDP, BTH, RETH, pad and ICRC.
const headroom = 14 + 40 + 8 + 12 + 16 + 3 + 4
