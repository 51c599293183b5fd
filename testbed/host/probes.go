package host

import (
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// firstAsked is the first queue pair number of controllers' probes; the scheme's queue pairs have smaller numbers.
const firstAsked transport.QP = 1 << 31

// IsRequestedProbe reports whether a queue pair is a probe that a controller requested.
func IsRequestedProbe(qp transport.QP) bool { return qp >= firstAsked }

// Limits of controllers' probes.
const (
	maxAsked        = 64 // maximum number of a controller's probe requests open at a time
	maxAskedPackets = 64 // maximum number of packets of one probe request
	maxAskedTime    = 10 * fabric.Second
)

// ProbeRequest requests zero-length RDMA WRITEs to a host on a path, even if the load balancer avoids that path.
type ProbeRequest struct {
	ID      uint64
	Dst     fabric.NodeID
	Label   fabric.Label
	Packets int
	Timeout fabric.Time // packets without answer by then are lost
	Early   bool        `json:",omitempty"` // report the result once all are answered, instead of at the end of Timeout
}

// ProbeResult is the result of a [ProbeRequest].
type ProbeResult struct {
	ID         uint64
	Sent, Lost int // packets sent, and of these lost; Sent 0: nothing is known
	// Trip is the mean round-trip time of the answered packets, Least the shortest; 0: none was answered.
	Trip, Least fabric.Time
}

// openProbes are the open probes that controllers have requested.
type openProbes struct {
	probes []*probe // by end time
	open   map[transport.QP]*probe
	last   transport.QP // last number given, minus firstAsked
}

// probe is one request; each packet has its own queue pair.
type probe struct {
	id    uint64
	qps   []transport.QP
	lost  int // unanswered
	left  int // still to be answered
	early bool
	begun fabric.Time
	trips fabric.Time // sum over the answered packets
	least fabric.Time
	until fabric.Time
}

func (a *openProbes) nextDeadline() fabric.Time {
	if len(a.probes) == 0 {
		return never
	}
	return a.probes[0].until
}

// answer records the answer to a probe's packet, and reports whether the probe is thereby complete.
func (a *openProbes) answer(now fabric.Time, qp transport.QP) (ended bool) {
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

func (c *logic) Probe(now fabric.Time, r ProbeRequest) {
	if c.agentAbsent {
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
		if err := c.endpoint.Open(now, transport.Message{QP: qp, Dst: r.Dst, Label: r.Label, Start: now, Once: true}); err != nil {
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

// endProbes reports the probes whose time has passed.
func (c *logic) endProbes(now fabric.Time) {
	for len(c.asked.probes) > 0 && c.asked.probes[0].until <= now {
		p := c.asked.probes[0]
		c.asked.probes = c.asked.probes[1:]
		for _, qp := range p.qps {
			if c.asked.open[qp] != nil {
				p.lost++
				delete(c.asked.open, qp)
			}
			_ = c.endpoint.Close(qp) // unknown if it was answered
		}
		r := ProbeResult{ID: p.id, Sent: len(p.qps), Lost: p.lost, Least: p.least}
		if n := r.Sent - r.Lost; n > 0 {
			r.Trip = p.trips / fabric.Time(n)
		}
		c.shell.Probed(now, r)
	}
}
