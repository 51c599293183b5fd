package daemon

import (
	"time"

	"github.com/ethereal-fabric/ethereal/controller/damping"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// earlyLimit is how long a link that came back waits for the switches at its ends.
// One that cannot be reached may forward all the same.
const earlyLimit = 15 * time.Second

// A switch that starts has its links up before it has its tables: what is sent
// through it by then is lost. So a link that was down and comes back counts as down
// until the tables of the switches at its ends are as desired.

// tooEarly notes a port that is up too early, and reports whether it is.
func (d *Daemon) tooEarly(now time.Time, p damping.Port) bool {
	id, ok := d.f.LinkAt(p.Node, p.Port)
	if !ok {
		return false
	}
	r, l := d.core.LinkReport(id), d.f.Link(id)
	if was := p == l.A && r.DownA || p == l.B && r.DownB; !was || d.haveTables(l) {
		return false
	}
	if _, known := d.early[p]; !known {
		d.early[p] = now.Add(earlyLimit)
	}
	return true
}

// haveTables reports whether the switches at a link's ends have their tables, as
// far as this controller can tell.
func (d *Daemon) haveTables(l *fabric.Link) bool {
	for _, e := range []fabric.End{l.A, l.B} {
		if d.f.Node(e.Node).Tier == fabric.Host {
			continue
		}
		dev := d.switches[int(e.Node)-d.f.Hosts()]
		if (!dev.synced || dev.pending > 0) && dev.phase != p4rt.Backup {
			return false
		}
	}
	return true
}

// releaseEarly believes the ports that need not wait any longer.
func (d *Daemon) releaseEarly(now time.Time) {
	for p, limit := range d.early {
		id, _ := d.f.LinkAt(p.Node, p.Port)
		if d.haveTables(d.f.Link(id)) || now.After(limit) {
			delete(d.early, p)
			d.bring(now, p, true)
		}
	}
}
