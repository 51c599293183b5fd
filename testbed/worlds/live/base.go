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
	Interpreter = "interpreter" // in their process; empty means it too
	Kernel      = "kernel"      // as eBPF in the kernel, and in their process what that cannot
	Routes      = "routes"      // not at all: the kernel's routes follow the tables, as a Linux router's
)

// Datapaths returns what a live fabric's switches may forward by.
func Datapaths() []string { return []string{Interpreter, Kernel, Routes} }

// CheckDatapath refuses what is not one of [Datapaths], or of more.
func CheckDatapath(where string, more ...string) error {
	if all := append(Datapaths(), more...); !slices.Contains(all, where) {
		return fmt.Errorf("%q is unknown; write one of %s", where, strings.Join(all, ", "))
	}
	return nil
}

// routable refuses labels that Linux routers cannot read.
func routable(c scenario.Carrier) error {
	if c == scenario.SRv6USID {
		return nil
	}
	return fmt.Errorf("live: Linux routers read labels in outer headers alone; write host.carrier: %s, or --carrier %[1]s", scenario.SRv6USID)
}

// PINS is sai_p4, of which p4c wrote the two files.
type PINS struct{ P4Info, JSON string }

// readsSourcePorts refuses labels that sai_p4 cannot read.
func readsSourcePorts(c scenario.Carrier) error {
	if c == "" || c == scenario.UDPSourcePort {
		return nil
	}
	return fmt.Errorf("live: sai_p4 reads labels in UDP source ports alone; write host.carrier: %s", scenario.UDPSourcePort)
}

// Base is what the fabrics have in common that one world makes, one after the other.
type Base struct {
	Dir      string // for sockets and logs
	Page     *Page  // what controllers serve the fabric's page at; nil: nothing
	Datapath string // Interpreter, Kernel or Routes
	PINS     PINS   // what switches run in place of the program; zero: the program
	Log      *slog.Logger
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
