package virtual

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// In a fabric of planes a host has one port per plane, and a label names a plane; every plane has its own
// controller.

// checkPlanes refuses what a run on several planes does not support.
func checkPlanes(run scenario.Run) error {
	if run.Fabric.Planes() == 1 {
		return nil
	}
	refuse := func(what, remedy string) error { return refusePlanes(run, what, remedy) }
	spec, err := run.Scheme.Spec()
	if err != nil {
		return err
	}
	s := run.Scenario
	control, err := s.Host.ControlFor(run.Scheme.Name).Spec()
	switch {
	case err != nil:
		return err
	case spec.SharesSuspicion(run.Scheme.Params):
		return refuse("suspicion", "leave out the scheme's parameter, or the planes")
	case s.FlowControl().Enabled():
		return refuse("lossless switches", "leave out switch.pfc, or the planes")
	case s.Host.Carrier == scenario.SRv6USID:
		return refuse("host.carrier: srv6-usid", "use another carrier, or leave out the planes")
	case control.Needs.OneLink:
		return refuse("receivers that grant what their one link takes", "use another host.congestion_control, or leave out the planes")
	case s.Servers.Grouped():
		return refuse("servers", "leave out one of both")
	}
	return nil
}

func refusePlanes(run scenario.Run, what, remedy string) error {
	return fmt.Errorf("fabric.planes: %d; the virtual world has no %s with planes; %s", run.Fabric.Planes(), what, remedy)
}

// hostPort is a host's port into a plane.
type hostPort struct {
	h      *hostShell
	number int
}

var (
	_ sim.MultiPort = (*hostShell)(nil)
	_ sim.Endpoint  = hostPort{}
)

// Port returns the endpoint of one port, numbered from 0, for [sim.MultiPort].
func (h *hostShell) Port(number int) sim.Endpoint {
	if h.w.f.Planes() == 1 {
		return h
	}
	return hostPort{h, number}
}

// Next writes the headers of the next packet to send, for [sim.Endpoint].
func (p hostPort) Next(now fabric.Time, buf []byte) (sim.Frame, fabric.Time, bool) {
	return p.h.next(p.number, now, buf)
}

// Receive processes a packet that has arrived, for [sim.Endpoint].
func (p hostPort) Receive(now fabric.Time, header []byte, tail int) {
	p.h.port = p.number
	p.h.Receive(now, header, tail)
}
