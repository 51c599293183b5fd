package process

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/testbed/p4switch/ebpf"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/routes"
	"github.com/ethereal-fabric/ethereal/testbed/port"
)

// asRoutes is the tables as the kernel's routes, where they are wanted. The device's mu guards it.
type asRoutes struct {
	mirror *routes.Mirror // nil: not wanted
	failed error          // why they are not as the tables are
}

// RoutesStats says how the kernel's routes are.
type RoutesStats struct {
	Routes int    `json:"routes"`          // prefixes that have one
	Err    string `json:"error,omitempty"` // why they are not as the tables say
}

// openRoutes has the kernel forward, while the calling thread is in the ports' network namespace. Here come group
// addresses only: what switches and controllers say to each other.
func (d *Device) openRoutes() error {
	var cfg routes.Config
	for i, e := range d.ports {
		p, ok := e.port.(*port.Interface)
		if !ok || e.index == 0 {
			return fmt.Errorf("switch: port %s: routes take network interfaces only", e.name)
		}
		if err := p.OnlyGroups(); err != nil {
			return err
		}
		cfg.Ports = append(cfg.Ports, routes.Port{
			Number: e.number, Interface: p.Name(), Index: e.index, Neighbour: d.cfg.Ports[i].Neighbour,
		})
	}
	var err error
	if d.routes.mirror, err = routes.Open(cfg); err != nil {
		return fmt.Errorf("switch: %w", err)
	}
	for _, e := range d.ports {
		d.routes.mirror.SetPort(e.number, e.up)
	}
	d.mu.leaving = d.syncRoutes
	return d.countInterfaces()
}

// countInterfaces has the ports' counters be those of their interfaces from now on.
func (d *Device) countInterfaces() (err error) {
	if d.kernel.queues, err = ebpf.OpenQueues(); err != nil {
		return fmt.Errorf("switch: %w", err)
	}
	d.kernel.began = map[int]port.Counters{}
	for _, e := range d.ports {
		if d.kernel.began[e.index], err = d.kernel.queues.Counters(e.index); err != nil {
			return fmt.Errorf("switch: port %s: %w", e.name, err)
		}
	}
	return nil
}

func (d *Device) closeRoutes() error {
	if d.routes.mirror == nil {
		return nil
	}
	err := d.routes.mirror.Close()
	d.routes.mirror = nil
	return err
}

// routeBy has the routes follow a program's tables from now on.
func (d *Device) routeBy(sw *interp.Switch) {
	if d.routes.mirror != nil {
		d.routes.mirror.Use(sw)
		d.syncRoutes()
	}
}

// syncRoutes makes the routes as the tables and ports are.
func (d *Device) syncRoutes() {
	if d.routes.mirror == nil {
		return
	}
	err := d.routes.mirror.Sync()
	if err != nil && (d.routes.failed == nil || d.routes.failed.Error() != err.Error()) {
		d.log.Error("routes", "err", err)
	}
	d.routes.failed = err
}

// routeRound has no route lead by a port that is down.
func (d *Device) routeRound(e *egress) {
	if d.routes.mirror == nil {
		return
	}
	d.routes.mirror.SetPort(e.number, e.up)
	d.syncRoutes()
}

// stats returns what there is to say; nil: nothing.
func (r *asRoutes) stats() *RoutesStats {
	if r.mirror == nil {
		return nil
	}
	s := &RoutesStats{Routes: r.mirror.Routes()}
	if r.failed != nil {
		s.Err = r.failed.Error()
	}
	return s
}
