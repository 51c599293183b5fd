package daemon

import (
	"maps"
	"slices"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/linkstate"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// tellPorts tells a switch's data plane what its ports do, where nothing on the
// switch tells it all: a chip hears at once that a port went down, and of nobody
// but the controller that it is back. What cannot be told now is told with all
// the rest when the tables are in place.
func (d *Daemon) tellPorts(dev *device, cs []linkstate.Change) {
	if dev.target.Profile == nil || !dev.target.Profile.TellPorts {
		return
	}
	if dev.portsUp == nil {
		dev.portsUp = map[fabric.PortNo]bool{}
	}
	for _, c := range cs {
		if _, ok := d.f.LinkAt(dev.id, c.Port); !ok {
			continue
		}
		dev.portsUp[c.Port] = c.Up
		if dev.synced {
			d.tellPort(dev, c.Port, c.Up)
		}
	}
}

// retellPorts tells of all ports: the data plane may be new, or have missed some.
// Uplinks are then in the table that finds their place among the live ones.
func (d *Daemon) retellPorts(dev *device) {
	for _, p := range slices.Sorted(maps.Keys(dev.portsUp)) {
		d.tellPort(dev, p, dev.portsUp[p])
	}
}

func (d *Daemon) tellPort(dev *device, p fabric.PortNo, up bool) {
	// Epochs only have to differ between a port's events, also after a restart.
	epoch := max(1, uint32(time.Now().UnixMilli()))
	if err := dev.session.TellPort(dev.tenure, p, up, epoch); err != nil {
		d.cfg.Log.Error("the data plane is not told of a port", "switch", dev.name, "port", p, "up", up, "err", err)
	}
}
