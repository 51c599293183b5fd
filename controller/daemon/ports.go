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
// Uplinks are then in the table that finds their place among the live ones. While
// the switch is not heard, the chip may know better that a port is down.
func (d *Daemon) retellPorts(dev *device) {
	dev.retell = time.Now().Add(retellEvery)
	for _, p := range slices.Sorted(maps.Keys(dev.portsUp)) {
		if up := dev.portsUp[p]; !up || dev.health == linkstate.Fresh {
			d.tellPort(dev, p, up)
		}
	}
}

// retellEvery is how often all ports are told: one that went down and came back
// between two words of the switch shows no change, and the chip has latched that
// it went down. It is seldom, since a port that has just gone down is told to be up
// if the switch's word of it is still on its way.
const retellEvery = 30 * time.Second

// retellDue tells the data planes whose time has come.
func (d *Daemon) retellDue(now time.Time) {
	for _, dev := range d.switches {
		if len(dev.portsUp) > 0 && dev.synced && !now.Before(dev.retell) {
			d.retellPorts(dev)
		}
	}
}

func (d *Daemon) tellPort(dev *device, p fabric.PortNo, up bool) {
	// Epochs only have to differ between a port's events, also after a restart.
	epoch := max(1, uint32(time.Now().UnixMilli()))
	if err := dev.session.TellPort(dev.tenure, p, up, epoch); err != nil {
		d.cfg.Log.Error("the data plane is not told of a port", "switch", dev.name, "port", p, "up", up, "err", err)
	}
}
