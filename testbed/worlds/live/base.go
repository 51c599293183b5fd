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
	Interpreter = "interpreter"  // in their process; empty means it too
	Kernel      = "kernel"       // as eBPF in the kernel, and in their process what that cannot
	TofinoModel = "tofino-model" // by the program for Tofino, on the chip's functional model; it is slow
)

// Datapaths returns what a live fabric's switches may forward by.
func Datapaths() []string { return []string{Interpreter, Kernel, TofinoModel} }

// CheckDatapath refuses what is not one of [Datapaths], or of more.
func CheckDatapath(where string, more ...string) error {
	if all := append(Datapaths(), more...); !slices.Contains(all, where) {
		return fmt.Errorf("%q is unknown; write one of %s", where, strings.Join(all, ", "))
	}
	return nil
}

// Base is what the fabrics have in common that one world makes, one after the other.
type Base struct {
	Switches
	Dir  string // for sockets and logs
	Page *Page  // what controllers serve the fabric's page at; nil: nothing
	Log  *slog.Logger
	// Lost is called when a process of a fabric has ended that was not to end; the error names it. Nothing starts it
	// again. It may be called from several goroutines at once. May be nil.
	Lost func(error)
}

// QueueDepth is a port's even share of its switch's buffer in a run, in packets.
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
