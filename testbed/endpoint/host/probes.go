package host

import (
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
)

// firstAsked is the first queue pair number of the probes that controllers ask for;
// those of the scheme are below.
const firstAsked endpoint.QP = 1 << 31

// Asked reports whether a queue pair is a controller's probe.
func Asked(qp endpoint.QP) bool { return qp >= firstAsked }

// Bounds of what controllers can have a host do.
const (
	maxAsked        = 64 // at a time
	maxAskedPackets = 64 // each
	maxAskedTime    = 10 * fabric.Second
)

// ProbeRequest asks for zero-length writes to a host down a path, although the
// scheme may avoid that path.
type ProbeRequest struct {
	ID      uint64
	Dst     fabric.NodeID
	Label   fabric.Label
	Packets int
	Timeout fabric.Time // what is not answered by then is lost
	Early   bool        `json:",omitempty"` // the result is reported when all are answered, and not at the end of that time
}

// ProbeResult says what became of a [ProbeRequest].
type ProbeResult struct {
	ID         uint64
	Sent, Lost int // packets; none sent: nothing is known
	// Trip is the mean round trip of those answered, Least the shortest; 0: none was.
	Trip, Least fabric.Time
}

// asked is the controllers' probes under way.
type asked struct {
	probes []*probe // by when they end
	open   map[endpoint.QP]*probe
	last   endpoint.QP // number given, less firstAsked
}

// probe is one request, each packet on a queue pair of its own.
type probe struct {
	id    uint64
	qps   []endpoint.QP
	lost  int // not answered
	left  int // still to be answered
	early bool
	begun fabric.Time
	trips fabric.Time // the sum of those answered
	least fabric.Time
	until fabric.Time
}

func (a *asked) next() fabric.Time {
	if len(a.probes) == 0 {
		return never
	}
	return a.probes[0].until
}

// answer takes the word that a probe's packet was answered, and reports whether that
// ended its probe.
func (a *asked) answer(now fabric.Time, qp endpoint.QP) (ended bool) {
	p := a.open[qp]
	if p == nil {
		return false
	}
	delete(a.open, qp)
	trip := now - p.begun
	if p.trips += trip; p.least == 0 || trip < p.least {
		p.least = trip
	}
	if p.left--; p.left > 0 || !p.early {
		return false
	}
	p.until = now
	i := slices.Index(a.probes, p)
	a.probes = slices.Insert(slices.Delete(a.probes, i, i+1), 0, p)
	return true
}

// Probe sends what a controller asks for. Beyond the bounds, and to hosts that do not
// exist, nothing is sent, and the result says so. While the agent is away nobody
// receives.
func (c *Core) Probe(now fabric.Time, r ProbeRequest) {
	if c.log != nil {
		c.log.add(Record{At: now, Call: "probe", Probe: &r})
	}
	if c.away {
		return
	}
	r.Timeout = min(r.Timeout, maxAskedTime)
	f := c.cfg.Fabric
	if len(c.asked.probes) >= maxAsked || r.Packets < 1 || r.Packets > maxAskedPackets || r.Timeout <= 0 ||
		r.Dst < 0 || int(r.Dst) >= f.Hosts() || r.Dst == c.cfg.Host || r.Label >= f.LabelSpan() {
		c.shell.Probed(now, ProbeResult{ID: r.ID})
		return
	}
	p := &probe{id: r.ID, begun: now, until: now + r.Timeout, early: r.Early}
	for range r.Packets {
		qp := firstAsked + c.asked.last
		c.asked.last = (c.asked.last + 1) % firstAsked
		if err := c.endpoint.Open(now, endpoint.Message{QP: qp, Dst: r.Dst, Label: r.Label, Start: now, Once: true}); err != nil {
			c.shell.Fault(now, fmt.Errorf("probe: %w", err))
			break
		}
		p.qps = append(p.qps, qp)
		p.left++
		c.asked.open[qp] = p
	}
	at, _ := slices.BinarySearchFunc(c.asked.probes, p.until, func(q *probe, t fabric.Time) int {
		if q.until <= t {
			return -1
		}
		return 1
	})
	c.asked.probes = slices.Insert(c.asked.probes, at, p)
	c.shell.Wake(now)
	c.shell.Alarm(p.until)
}

// endProbes reports the probes whose time is over.
func (c *Core) endProbes(now fabric.Time) {
	for len(c.asked.probes) > 0 && c.asked.probes[0].until <= now {
		p := c.asked.probes[0]
		c.asked.probes = c.asked.probes[1:]
		for _, qp := range p.qps {
			if c.asked.open[qp] != nil {
				p.lost++
				delete(c.asked.open, qp)
			}
			_ = c.endpoint.Close(qp) // unknown when it was answered
		}
		r := ProbeResult{ID: p.id, Sent: len(p.qps), Lost: p.lost, Least: p.least}
		if n := r.Sent - r.Lost; n > 0 {
			r.Trip = p.trips / fabric.Time(n)
		}
		c.shell.Probed(now, r)
	}
}
