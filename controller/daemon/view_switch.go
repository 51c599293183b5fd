package daemon

import (
	"context"
	"fmt"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/observe"
	"github.com/ethereal-fabric/ethereal/controller/view"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// viewSwitch returns the page's data of a switch: its ports and its tables, as written and acknowledged.
func (d *Daemon) viewSwitch(ctx context.Context, _ int, name string, _ float64) (*view.Switch, error) {
	id, err := d.f.NodeByName(name)
	if err != nil || int(id) < d.f.Hosts() {
		return nil, nil //nolint:nilerr // there is no such switch
	}
	var entries []controller.Entry
	s := &view.Switch{}
	states := map[fabric.LinkID]string{}
	if err := d.runInLoop(ctx, func() {
		dev := d.device(id)
		entries = d.core.Tables().Written(id)
		s.Facts = [][2]string{{"session", dev.phase.String()}, {"ports", dev.health.String()}, {"verdict", dev.verdict.String()}}
		if dev.unfitReason != "" {
			s.Facts = append(s.Facts, [2]string{"unfit", dev.unfitReason})
		}
		for p := range d.f.Node(id).Ports() {
			l := d.f.Node(id).Link(fabric.PortNo(p + 1))
			states[l] = d.linkState(l)
		}
	}); err != nil {
		return nil, err
	}
	s.Tables = view.TablesOf(entries, func(e controller.Entry) (table, key, does string) {
		key, does = e.Named(d.f, id)
		return e.Table.String(), key, does
	})
	var rates []float64
	var unknown []bool
	if d.loads != nil {
		rates, _, unknown = d.loads.Rates()
	}
	for i := range d.f.Node(id).Ports() {
		p := fabric.PortNo(i + 1)
		l := d.f.Node(id).Link(p)
		port := view.Port{Name: d.device(id).target.Ports.Name(p), To: d.f.Name(d.f.Link(l).Peer(id).Node), State: states[l]}
		switch {
		case rates == nil:
		case unknown[observe.SendDirection(d.f, id, p)]:
			port.Sends = "not known"
		default:
			port.Sends = fmt.Sprint(fabric.Rate(8 * rates[observe.SendDirection(d.f, id, p)]))
		}
		s.Ports = append(s.Ports, port)
	}
	return s, nil
}

// linkState returns the page's text about a link, empty if it is simply up. It is called on the daemon's goroutine.
func (d *Daemon) linkState(id fabric.LinkID) string {
	switch r := d.core.Tables().LinkReport(id); {
	case r.DownA || r.DownB:
		return "down"
	case r.Drained:
		return "drained"
	case d.core.Damped(id):
		return "flapping"
	case r.Suspected:
		return "suspected"
	}
	return ""
}
