// Package neighbour answers the fabric's cabling checks on a host: it returns an LLDP frame that names the host to
// the switch that asked, and logs whether the host is cabled as planned.
//
// The frames have their own EtherType and packet socket, so it works beside any other program on the interface,
// including an RNIC's kernel driver. It sends nothing unless asked, and answers at a limited rate.
package neighbour

import (
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/lldp"
)

// minAnswerGap is the minimum time between two answers: a check asks every 250 ms.
const minAnswerGap = 50 * time.Millisecond

// Answerer answers the LLDP frames by which a controller checks the cabling. It has no socket and no clock, and is not
// safe for concurrent use.
type Answerer struct {
	f    *fabric.Fabric
	host fabric.NodeID
	last time.Time
}

// New returns the answerer of a host.
func New(f *fabric.Fabric, host fabric.NodeID) *Answerer { return &Answerer{f: f, host: host} }

// Answer processes an LLDP frame. ok is false if the frame does not belong to a cabling check, or comes too soon after
// another. Otherwise from is the switch port that sent it, and reply the frame to send back.
func (a *Answerer) Answer(now time.Time, frame []byte) (reply []byte, from fabric.End, ok bool) {
	w, err := lldp.Parse(frame)
	if err != nil || !w.FromCheck || !a.last.IsZero() && now.Sub(a.last) < minAnswerGap {
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

// Planned reports whether the fabric file connects the host to a switch port.
func (a *Answerer) Planned(from fabric.End) bool {
	l, ok := a.f.LinkAt(a.host, 1)
	return ok && a.f.Link(l).Peer(a.host) == from
}
