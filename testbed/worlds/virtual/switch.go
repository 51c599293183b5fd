package virtual

import (
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/controller/linkstate"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/gnmi"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/p4runtime"
	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
	netp4 "github.com/ethereal-fabric/ethereal/testbed/sim/p4"
)

// node is a switch: data plane, P4Runtime and gNMI.
type node struct {
	w          *world
	id         fabric.NodeID
	pipeline   *netp4.Switch
	source     *source // nil: the P4 program alone processes packets
	ports      *portstate.Ports
	core       *p4runtime.Core
	gnmi       *gnmi.Core
	notifiedUp []bool   // by port number - 1: the state last sent to the data plane
	epochs     []uint32 // by port number - 1: port events so far
}

// name returns what the fabric calls the switch.
func (n *node) name() string { return n.w.f.Name(n.id) }

// deviceID is the P4Runtime device id of a switch; the specification forbids 0.
func deviceID(id fabric.NodeID) uint64 { return uint64(id) + 1 }

func (w *world) newNode(id fabric.NodeID) (*node, error) {
	n := &node{w: w, id: id, pipeline: netp4.New(nil)}
	count := w.f.Node(id).Ports()
	n.epochs = make([]uint32, count)
	configs := make([]portstate.Config, count)
	for i := range configs {
		n.notifiedUp = append(n.notifiedUp, true)
		configs[i] = portstate.Config{Name: linkstate.PortName(fabric.PortNo(i + 1)), Number: uint32(i + 1)}
		if link, ok := w.f.LinkAt(id, fabric.PortNo(i+1)); ok {
			configs[i].Speed = fabric.SpeedName(w.initialRate(link))
		}
	}
	var traces *interp.Traces
	if w.traces != nil {
		traces = w.traces[w.net.Region(id)]
	}
	var err error
	if n.ports, err = portstate.New(configs); err != nil {
		return nil, err
	}
	n.core, err = p4runtime.New(p4runtime.Config{
		DeviceID: deviceID(id), Ports: n.ports, Now: w.nanoseconds,
		Switch:      interp.Config{Seed: w.run.Seed<<16 ^ uint64(id), QueuesPerPort: 8, MaxPasses: 256, Traces: traces},
		Load:        func([]byte) (*program.Program, error) { return w.lab.program, nil },
		OnSwitch:    n.pipeline.Use,
		OnPortEvent: n.portEvent,
		PortTables:  p4src.PortTables(), OnPortTables: n.repeatPortEvents,
	})
	if err != nil {
		return nil, err
	}
	if n.gnmi, err = gnmi.New(gnmi.Config{Ports: n.ports, Now: w.nanoseconds}); err != nil {
		return nil, err
	}
	if s := w.spec.Source(w.run.Scheme.Params); s.Adaptive && w.f.Node(id).Tier == fabric.ToR {
		n.source = newSource(n, s.ByFlow)
		w.net.SetSwitch(id, n.source)
		return n, nil
	}
	w.net.SetSwitch(id, n.pipeline)
	return n, nil
}

// nanoseconds returns the control plane's wall clock, which starts with the run.
func (w *world) nanoseconds() int64 { return int64(w.net.Now() / fabric.Nanosecond) }

// portChanged notifies the switch of its own port's change: gNMI subscribers and the data plane learn of it.
func (n *node) portChanged(now fabric.Time, port fabric.PortNo, up bool) {
	if n.source != nil {
		n.source.dead[port-1] = !up
	}
	if err := n.ports.SetOper(uint32(port), up, int64(now/fabric.Nanosecond)); err != nil {
		n.w.fail(fmt.Errorf("%s: port %d: %w", n.w.f.Name(n.id), port, err))
	}
}

// speedChanged notifies the switch of its own port's rate, and through it the gNMI subscribers.
func (n *node) speedChanged(now fabric.Time, port fabric.PortNo, rate fabric.Rate) {
	if err := n.ports.SetSpeed(uint32(port), fabric.SpeedName(rate), int64(now/fabric.Nanosecond)); err != nil {
		n.w.fail(fmt.Errorf("%s: port %d: %w", n.w.f.Name(n.id), port, err))
	}
}

// portEvent makes the packet that notifies the data plane of a port, as a packet generator would, if the run
// notifies the data plane.
func (n *node) portEvent(number uint32, up bool) {
	if _, routed := n.w.run.Routing(); !routed && !n.w.run.Notifier.Quench() || n.notifiedUp[number-1] == up {
		return
	}
	n.notifiedUp[number-1] = up
	n.epochs[number-1]++
	n.injectPortEvent(number, up)
}

// repeatPortEvents sends the data plane the last port events again, because it has only now learned which ports are
// uplinks. Ports that are up come first, since an uplink's index may have moved from a dead port to a live one.
func (n *node) repeatPortEvents() {
	if slices.Max(n.epochs) == 0 {
		return
	}
	for _, state := range []bool{true, false} {
		for i, up := range n.notifiedUp {
			if up == state {
				n.injectPortEvent(uint32(i+1), up)
			}
		}
	}
}

// injectPortEvent injects a port-event packet.
func (n *node) injectPortEvent(number uint32, up bool) {
	packet := p4src.AppendPortEvent(nil, uint16(number), up, n.epochs[number-1])
	if err := n.w.net.Inject(n.id, p4src.PortEventPort, packet, len(packet)); err != nil {
		n.w.fail(fmt.Errorf("%s: port event: %w", n.w.f.Name(n.id), err))
	}
}
