package host

import (
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/balance"
)

// scheme is a balancer and its optional parts.
type scheme struct {
	balance.Host
	packets balance.PacketHost   // nil: it labels queue pairs, not packets
	roomy   balance.WindowedHost // nil: it has no windows per path
	lostBy  balance.PathLossHost // nil: it does not use lost packets' labels
	losses  balance.LossHost     // nil: it does not use losses

	holds   func() []balance.Hold
	ends    func() []hostagent.QP
	pending func() bool // whether acknowledgements and marks have caused requests
}

// newScheme returns the scheme of c, or an error in c.
func newScheme(c Config) (scheme, error) {
	spec, err := balance.Find(c.Scheme)
	if err != nil {
		return scheme{}, err
	}
	h, err := spec.New(c.Params, c.Config)
	if err != nil {
		return scheme{}, err
	}
	s := scheme{
		Host: h, holds: func() []balance.Hold { return nil }, ends: func() []hostagent.QP { return nil },
		pending: func() bool { return false },
	}
	s.packets, _ = h.(balance.PacketHost)
	s.roomy, _ = h.(balance.WindowedHost)
	s.lostBy, _ = h.(balance.PathLossHost)
	s.losses, _ = h.(balance.LossHost)
	if spec.Holds {
		s.holds = h.(balance.PausingHost).Holds
	}
	if e, ok := h.(balance.ProbeEnder); ok {
		s.ends = e.Ends
	}
	if p, ok := h.(interface{ Pending() bool }); ok {
		s.pending = p.Pending
	}
	return s, nil
}

// attach registers the core with an endpoint for the callbacks that its scheme needs.
func (s *scheme) attach(e *transport.Config, c *Core) {
	if s.packets != nil {
		e.Balancer = c
	}
	if s.roomy != nil {
		e.Balancer = windowedCore{c, s.roomy}
	}
	if s.lostBy != nil {
		e.Losses = c
	}
	if s.losses != nil {
		e.Watcher = c
	}
}

// windowedCore is the core as the endpoint's balancer if the scheme has windows per path.
type windowedCore struct {
	*Core
	scheme balance.WindowedHost
}

// Room reports whether a path's window has room for another packet of a queue pair, for [transport.WindowedBalancer].
func (c windowedCore) Room(qp transport.QP, onTheWay int32) bool {
	return c.scheme.Room(hostagent.QP(qp), onTheWay)
}
