package cabling

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/lldp"
)

// carry makes senders of all switches whose frames go along the cables. Hosts
// answer. Cables carry frames of up to so many bytes.
func (p *plugged) carry(t testing.TB, r *Round, mtu int) map[fabric.NodeID]Sender {
	senders := map[fabric.NodeID]Sender{}
	for i := range p.f.Switches() {
		id := fabric.NodeID(p.f.Hosts() + i)
		senders[id] = func(port fabric.PortNo, frame []byte) error {
			here := Place{Node: id, Port: port}
			far, ok := p.other[here]
			if !ok || len(frame) > mtu {
				return nil
			}
			if p.f.Node(far.Node).Tier != fabric.Host {
				r.In(far.Node, p4rt.PacketIn{Port: far.Port, ID: far.ID, Frame: frame})
				return nil
			}
			w, err := lldp.Parse(frame)
			if err != nil {
				t.Error(err)
			}
			reply, err := lldp.Append(nil, p.f, fabric.End{Node: far.Node, Port: 1}, w.Token)
			if err != nil {
				t.Error(err)
			}
			r.In(id, p4rt.PacketIn{Port: port, Frame: reply})
			return nil
		}
	}
	return senders
}

func TestConduct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plug(t, leafSpine)
		began := time.Now()
		r := NewRound(p.f, lldp.Token{1}, 0)
		failed, err := r.Conduct(context.Background(), time.Minute, p.carry(t, r, 1500))
		if err != nil || len(failed) > 0 || !Compare(p.f, r.Evidence(), nil).OK() {
			t.Errorf("%v, %v, %+v", failed, err, Compare(p.f, r.Evidence(), nil).Faults)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("a healthy fabric took %v; all is received at once", took)
		}

		// A switch that cannot send, and cables that take short frames only.
		for _, frame := range []int{0, 4000} {
			r = NewRound(p.f, lldp.Token{2}, frame)
			senders := p.carry(t, r, 1500)
			spine := p.at("spine0", 1).Node
			senders[spine] = func(fabric.PortNo, []byte) error { return errors.New("no CPU port") }
			failed, err = r.Conduct(context.Background(), 3*time.Second, senders)
			if err != nil || len(failed) != 1 || failed[spine] == nil {
				t.Errorf("%v, %v", failed, err)
			}
			received := len(r.Evidence().Received)
			if (received == 0) != (frame > 1500) {
				t.Errorf("frames of %d bytes: %d received", frame, received)
			}
		}
	})
}

// TestTokens: frames of another check, and bytes that are none, are not evidence.
func TestTokens(t *testing.T) {
	p := plug(t, leafSpine)
	old := NewRound(p.f, lldp.Token{1}, 0)
	r := NewRound(p.f, lldp.Token{2}, 0)
	var frame []byte
	if err := old.sendAll(p.at("tor0", 1).Node, func(_ fabric.PortNo, b []byte) error { frame = b; return nil }); err != nil {
		t.Fatal(err)
	}
	tor := p.at("tor0", 1).Node
	r.In(tor, p4rt.PacketIn{Port: 1, Frame: frame})
	r.In(tor, p4rt.PacketIn{Port: 1, Frame: frame[:20]})
	if ev := r.Evidence(); len(ev.Received)+len(ev.Strangers) > 0 {
		t.Errorf("%+v", ev)
	}
}

// TestForgedFrames: a host that makes up senders takes the memory of its own port
// only, and what is as planned is received there all the same.
func TestForgedFrames(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	token := lldp.Token{1}
	r := NewRound(f, token, 0)
	tor, err := f.NodeByName("tor0")
	if err != nil {
		t.Fatal(err)
	}
	hear := func(from fabric.End) {
		frame, err := lldp.Append(nil, f, from, token)
		if err != nil {
			t.Fatal(err)
		}
		r.In(tor, p4rt.PacketIn{Port: 1, Frame: frame})
	}
	for i := range f.Switches() {
		id := fabric.NodeID(f.Hosts() + i)
		for p := 1; p <= f.Node(id).Ports(); p++ {
			hear(fabric.End{Node: id, Port: fabric.PortNo(p)})
		}
	}
	hear(fabric.End{Node: 0, Port: 1})
	ev := r.Evidence()
	planned := Arrival{At: Place{Node: tor, Port: 1}, From: Place{Node: 0, Port: 1}}
	if len(ev.Received) != maxAstray+1 || !slices.Contains(ev.Received, planned) {
		t.Errorf("%d received: %v", len(ev.Received), ev.Received)
	}
}
