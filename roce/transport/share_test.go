package transport

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// TestShares: shares take turns, a packet each, whatever the number of their QPs, also to one peer, to which the
// messages of one share go one after the other. A share that has nothing more to send leaves its turns to the others.
func TestShares(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{Fabric: f, Host: 0, MTU: 1000, LineRate: 400 * fabric.Gbps}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const greedy, packets = 100, 20
	open := func(id QP, share uint16, packets int64) {
		t.Helper()
		if err := e.Open(0, Message{QP: id, ID: uint64(id), Dst: 1, Bytes: packets * 1000, Share: share}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range QP(greedy) {
		open(1+i, 7, packets)
	}
	open(1000, 2, packets)
	open(2000, 0, packets/2)
	var buf [MaxHeader]byte
	sent := map[QP]int{}
	for n, now := 0, fabric.Time(0); sent[1000] < packets; now += fabric.Microsecond {
		frame, ok := e.Next(now, buf[:])
		if !ok {
			t.Fatalf("after %d packets nothing is to be sent", n)
		}
		sent[frame.QP]++
		n++
		switch one, half := sent[1000], sent[2000]; {
		case half < packets/2 && n > 3*(one+1), half == packets/2 && n > 3*half+2*(one-half+1):
			t.Fatalf("%d packets: %d of the share with one QP, %d of that with half as many", n, one, half)
		}
	}
}

// TestUnanswered: a message begins when those before it to the same peer are sent, and no more than two round trips of
// them are unacknowledged: because they were acknowledged, closed or refused.
func TestUnanswered(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	ack := func(e *Endpoint, q *qp, packets int32, s frame.Syndrome) {
		e.transport.answered(0, q, &packet{src: q.dst, psn: q.firstPSN + uint32(packets-1)}, s)
	}
	for name, enough := range map[string]func(e *Endpoint, q *qp){
		"acknowledged": func(e *Endpoint, q *qp) { ack(e, q, q.sent, 0) },
		"closed":       func(e *Endpoint, q *qp) { e.release(q) },
		"refused": func(e *Endpoint, q *qp) {
			ack(e, q, q.sndUna+20, frame.NAKRemoteAccess)
			ack(e, q, q.sent, 0) // of copies that were accepted after all
		},
		"in part": func(e *Endpoint, q *qp) { ack(e, q, q.sent-int32(e.mostUnanswered/1000), 0) },
	} {
		e, err := New(Config{
			Fabric: f, MTU: 1000, LineRate: 400 * fabric.Gbps, Trip: 5 * fabric.Microsecond, RTO: fabric.Second,
		}, handsOff{})
		if err != nil {
			t.Fatal(err)
		}
		most := e.mostUnanswered / 1000
		for i, share := range []uint16{0, 0, 0, 3, 3} {
			if err := e.Open(0, Message{QP: QP(i), ID: uint64(i), Dst: 1, Bytes: 3 * most * 1000, Share: share}); err != nil {
				t.Fatal(err)
			}
		}
		var buf [MaxHeader]byte
		now, sent := fabric.Time(0), map[QP]int64{}
		sendAll := func() {
			for range 20 * most {
				now += fabric.Microsecond
				if frame, ok := e.Next(now, buf[:]); ok && frame.Tail >= 1000 { // no probe
					sent[frame.QP]++
				}
			}
		}
		sendAll()
		if sent[0] != 3*most || sent[3] != 3*most || sent[1]+sent[2]+sent[4] > 0 {
			t.Fatalf("%s: %v packets sent before any was acknowledged", name, sent)
		}
		ack(e, e.qps[e.byID.get(0)], int32(most), 0)
		if sendAll(); sent[1] != 0 {
			t.Fatalf("%s: with %d packets unacknowledged the next message has sent %d", name, 2*most, sent[1])
		}
		enough(e, e.qps[e.byID.get(0)])
		if sendAll(); sent[1] != 3*most || sent[2] != 0 || sent[4] != 0 {
			t.Fatalf("%s: %v packets sent", name, sent)
		}
		enough(e, e.qps[e.byID.get(3)])
		if err := e.Close(1); err != nil {
			t.Fatal(err)
		}
		if sendAll(); sent[2] != 3*most || sent[4] != 3*most {
			t.Fatalf("%s, then closed: %v packets sent", name, sent)
		}
		for id := range QP(5) {
			_ = e.Close(id)
		}
		if p := &e.peers[0]; p.unanswered != 0 || p.first != nil || len(p.others) != 0 {
			t.Errorf("%s: %+v is left, %v", name, p.messageOrder, p.others)
		}
	}
}

// TestUnansweredOnce: what is sent once and lost does not hold back the next message.
func TestUnansweredOnce(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Trip = 5 * fabric.Microsecond })
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 2_000_000, Once: true})
	w.open(0, Message{QP: 2, ID: 2, Dst: 1, Bytes: 5000})
	e := w.hosts[0].e
	lost := e.qps[0].qpn
	w.fate = func(_ fabric.Time, hdr []byte, control bool) fate {
		if b := frame.BTH(hdr[e.stack.bth:]); !control && b.DestQP() == lost {
			return fate{}
		}
		return fate{copies: []fabric.Time{0}}
	}
	w.run(fabric.Second)
	if len(w.hosts[0].done) != 1 || w.hosts[0].done[2] != 1 {
		t.Errorf("done: %v", w.hosts[0].done)
	}
}

// handsOff ignores what happens to queue pairs.
type handsOff struct{ Handler }

func (handsOff) Acked(fabric.Time, QP, int64)           {}
func (handsOff) Done(fabric.Time, QP)                   {}
func (handsOff) Failed(fabric.Time, QP, frame.Syndrome) {}
func (handsOff) Timeout(fabric.Time, QP)                {}
