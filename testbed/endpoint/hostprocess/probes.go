package hostprocess

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/soft"
)

// firstAsked is the first queue pair number of the probes that controllers ask
// for; those of the balancer are below.
const firstAsked endpoint.QP = 1 << 31

// Bounds of what controllers can have a host do.
const (
	maxAsked       = 64 // at a time
	maxAskedPacket = 64 // each
	maxAskedTime   = 10 * fabric.Second
)

// asked is a probe under way: zero-length writes, each on a queue pair of its own.
type asked struct {
	id    uint64
	qps   []endpoint.QP
	lost  int // not answered yet
	until fabric.Time
	done  func(*statepb.ProbeResult)
}

// Probe sends what a controller asks for, down the label it names although the
// balancer may avoid it, and tells done what became of it, in the shell's
// goroutine. Beyond the bounds, and to hosts that do not exist, nothing is sent.
func (r *Rank) Probe(now fabric.Time, p *statepb.ProbeRequest, done func(*statepb.ProbeResult)) {
	none := &statepb.ProbeResult{Id: p.GetId()}
	dst, timeout := fabric.NodeID(min(p.GetDst(), 1<<31-1)), min(fabric.Time(p.GetTimeoutNs()), maxAskedTime/fabric.Nanosecond)*fabric.Nanosecond
	if len(r.asked) >= maxAsked || p.GetPackets() < 1 || p.GetPackets() > maxAskedPacket || timeout <= 0 ||
		int(dst) >= r.cfg.Fabric.Hosts() || dst == r.cfg.Host || p.GetLabel() >= uint32(r.cfg.Fabric.LabelSpan()) {
		done(none)
		return
	}
	a := &asked{id: p.GetId(), until: now + timeout, done: done}
	for range p.GetPackets() {
		qp := firstAsked + r.nextAsked
		r.nextAsked = (r.nextAsked + 1) % firstAsked
		err := r.engine.Write(now, soft.Message{QP: qp, Dst: dst, Label: fabric.Label(p.GetLabel()), Start: now})
		if err != nil {
			r.fault(now, err)
			break
		}
		a.qps = append(a.qps, qp)
		r.answers[qp] = a
	}
	a.lost = len(a.qps)
	at, _ := slices.BinarySearchFunc(r.asked, a.until, func(b *asked, t fabric.Time) int {
		if b.until <= t {
			return -1
		}
		return 1
	})
	r.asked = slices.Insert(r.asked, at, a)
}

// endProbes tells of the probes whose time is over.
func (r *Rank) endProbes(now fabric.Time) {
	for len(r.asked) > 0 && r.asked[0].until <= now {
		a := r.asked[0]
		r.asked = r.asked[1:]
		for _, qp := range a.qps {
			if r.answers[qp] == a {
				delete(r.answers, qp)
				r.engine.Close(qp)
			}
		}
		a.done(&statepb.ProbeResult{Id: a.id, Sent: uint32(len(a.qps)), Lost: uint32(a.lost)})
	}
}
