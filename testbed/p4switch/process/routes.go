package process

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/testbed/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/routes"
	"github.com/ethereal-fabric/ethereal/testbed/port"
)

// mirrored makes the kernel forward by routes that equal the tables. The device's mu guards it.
type mirrored struct {
	d      *Device
	mirror *routes.Mirror
	failed error // why they differ from the tables
}

// openRoutes makes the kernel forward, while the calling thread is in the ports' network namespace. Only group
// addresses come here: messages between switches and controllers.
func openRoutes(d *Device) (router, error) {
	var cfg routes.Config
	for i, e := range d.ports {
		p, ok := e.port.(*port.Interface)
		if !ok || e.index == 0 {
			return nil, fmt.Errorf("switch: port %s: routes take network interfaces only", e.name)
		}
		if err := p.OnlyGroups(); err != nil {
			return nil, err
		}
		cfg.Ports = append(cfg.Ports, routes.Port{
			Number: e.number, Interface: p.Name(), Index: e.index, Neighbour: d.cfg.Ports[i].Neighbour,
		})
	}
	mirror, err := routes.Open(cfg)
	if err != nil {
		return nil, fmt.Errorf("switch: %w", err)
	}
	for _, e := range d.ports {
		mirror.SetPort(e.number, e.up)
	}
	m := &mirrored{d: d, mirror: mirror}
	d.mu.leaving = m.sync
	return m, d.countInterfaces()
}

func (m *mirrored) close() error {
	m.d.mu.leaving = nil
	return m.mirror.Close()
}

func (m *mirrored) use(sw *interp.Switch) {
	m.mirror.Use(sw)
	m.sync()
}

// sync makes the routes equal to the tables and ports.
func (m *mirrored) sync() {
	err := m.mirror.Sync()
	if err != nil && (m.failed == nil || m.failed.Error() != err.Error()) {
		m.d.log.Error("routes", "err", err)
	}
	m.failed = err
}

func (m *mirrored) round(e *egress) {
	m.mirror.SetPort(e.number, e.up)
	m.sync()
}

func (m *mirrored) stats() *RoutesStats {
	s := &RoutesStats{Routes: m.mirror.Routes()}
	if m.failed != nil {
		s.Err = m.failed.Error()
	}
	return s
}
