// Package linux supports Linux machines as switches: `ethereal switch --datapath routes` on each takes the
// controller's tables over P4Runtime, and the kernel's routes follow them (testbed/p4switch/routes). Package
// [export] writes a static configuration without a controller.
//
// Routes read labels in outer headers alone. A packet whose uplink is dead loses its outer header and continues by
// the routes. It is not answered: sources learn of a dead port by the notices that the process sends.
//
// [export]: https://pkg.go.dev/github.com/ethereal-fabric/ethereal/fabric/export
package linux

import (
	"fmt"
	"net"
	"slices"

	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/controller/targets/ethereal"
)

// Kind implements [targets.Kind]. The process on the machine is our switch, and runs its program.
type Kind struct{ ethereal.Kind }

// Name implements [targets.Kind].
func (Kind) Name() string { return "linux" }

// Traits implements [targets.Kind].
func (Kind) Traits() targets.Traits { return targets.Traits{SegmentsOnly: true, NoticesOnly: true} }

// datapath is the kind's value of `ethereal switch --datapath`.
const datapath = "routes"

// Start implements [targets.Starter]: a router's routes belong to its network namespace.
func (Kind) Start() targets.Start { return targets.Start{Datapath: datapath, Namespace: true} }

// Command implements [targets.Starter].
func (k Kind) Command(b targets.Bench) targets.Command {
	b.Datapath = datapath
	c := k.Kind.Command(b)
	for i, p := range b.Ports {
		c.Args = slices.Insert(c.Args, 1, "--neighbour", fmt.Sprintf("%d@%v", i+1, net.HardwareAddr(p.Neighbour[:])))
	}
	return c
}
