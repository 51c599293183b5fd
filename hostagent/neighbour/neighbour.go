// Package neighbour answers the fabric's cabling checks on a host: it sends back
// an LLDP frame that names the host to the switch that asked, and says whether the
// host is cabled as planned.
//
// The frames are an EtherType of their own on a packet socket of their own, so that
// it works beside whatever sends and receives on the interface, an RNIC's kernel
// driver included. It says nothing unless asked, and answers at a bounded rate.
package neighbour

import (
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/lldp"
)

// gap is the least time between two answers: a check asks every 250 ms.
const gap = 50 * time.Millisecond

// Answerer decides what to answer. It has no socket and no clock, and is not safe
// for concurrent use.
type Answerer struct {
	f    *fabric.Fabric
	host fabric.NodeID
	last time.Time
}

// New returns an answerer for a host.
func New(f *fabric.Fabric, host fabric.NodeID) *Answerer { return &Answerer{f: f, host: host} }

// Answer takes a frame. ok is false when it is not a check's, or comes too soon
// after another; else from is the switch's end that asked, and reply the answer.
func (a *Answerer) Answer(now time.Time, frame []byte) (reply []byte, from fabric.End, ok bool) {
	w, err := lldp.Parse(frame)
	if err != nil || !w.Ours || !a.last.IsZero() && now.Sub(a.last) < gap {
		return nil, from, false
	}
	from, ok = w.Sender(a.f)
	if !ok {
		return nil, from, false
	}
	reply, err = lldp.Append(nil, a.f, fabric.End{Node: a.host, Port: 1}, w.Token)
	if err != nil {
		return nil, from, false
	}
	a.last = now
	return reply, from, true
}

// Planned reports whether the host should be cabled to an end.
func (a *Answerer) Planned(from fabric.End) bool {
	l, ok := a.f.LinkAt(a.host, 1)
	return ok && a.f.Link(l).Peer(a.host) == from
}
