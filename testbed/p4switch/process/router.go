package process

import "github.com/ethereal-fabric/ethereal/testbed/p4switch/interp"

// router makes the kernel forward by routes that follow the tables. The device's mu guards it.
type router interface {
	close() error
	// use makes the routes follow a program's tables from now on.
	use(sw *interp.Switch)
	// round removes a port that is down from all routes.
	round(e *egress)
	stats() *RoutesStats
}

// RoutesStats is the state of the kernel's routes.
type RoutesStats struct {
	Routes int    `json:"routes"`          // number of prefixes with a route
	Err    string `json:"error,omitempty"` // why they differ from the tables
}

// noRouter is the router of a device without routes.
type noRouter struct{}

func (noRouter) close() error        { return nil }
func (noRouter) use(*interp.Switch)  {}
func (noRouter) round(*egress)       {}
func (noRouter) stats() *RoutesStats { return nil }
