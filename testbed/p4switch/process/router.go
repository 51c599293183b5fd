package process

import "github.com/ethereal-fabric/ethereal/testbed/p4switch/interp"

// router has the kernel forward by routes that follow the tables. The device's mu guards it.
type router interface {
	close() error
	// use has the routes follow a program's tables from now on.
	use(sw *interp.Switch)
	// round has no route lead by a port that is down.
	round(e *egress)
	stats() *RoutesStats
}

// RoutesStats says how the kernel's routes are.
type RoutesStats struct {
	Routes int    `json:"routes"`          // prefixes that have one
	Err    string `json:"error,omitempty"` // why they are not as the tables say
}

// noRouter is of a device whose kernel has no routes to follow.
type noRouter struct{}

func (noRouter) close() error        { return nil }
func (noRouter) use(*interp.Switch)  {}
func (noRouter) round(*egress)       {}
func (noRouter) stats() *RoutesStats { return nil }
