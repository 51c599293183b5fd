package transport

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// TestDCQCN follows one QP's rate through what the paper's figures of the
// algorithm prescribe. Times in microseconds after the start, rates in Mb/s.
func TestDCQCN(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Control = DCQCN })
	e := w.hosts[0].e
	q := &qp{rate: rateState{e.cfg.LineRate, e.fullPacketTime}}
	e.control.pacer.open(q)
	d := e.control.pacer.(*dcqcn).qps.at(q)
	at := func(us, want int64) {
		t.Helper()
		e.control.departs.sent(fabric.Time(us)*fabric.Microsecond, q, 0, 0)
		if got := int64(q.rate.now / fabric.Mbps); got < want-1 || got > want+1 {
			t.Fatalf("at %d us: %d Mb/s, want %d", us, got, want)
		}
		if q.rate.gap != q.rate.now.TimeFor(int64(e.fullPacketBytes)) {
			t.Fatalf("at %d us: gap %v", us, q.rate.gap)
		}
	}
	at(100, 400_000)
	e.control.pacer.cnpReceived(100*fabric.Microsecond, q, nil) // alpha is 1
	at(101, 200_000)
	at(154, 200_000)
	at(155, 300_000) // half of the way back, each 55 us
	at(210, 350_000)
	at(265, 375_000)
	// Alpha has decayed three times by 1/256 of it: 0.98833. The rate is cut by
	// half of that, and goes back to 375.
	e.control.pacer.cnpReceived(266*fabric.Microsecond, q, nil)
	at(266, 189_688)
	at(321, 282_344)
	// A second CNP before the rate is back lowers the target.
	e.control.pacer.cnpReceived(322*fabric.Microsecond, q, nil)
	cut := int64(q.rate.now / fabric.Mbps)
	at(377, (cut+282_344)/2)
	// Steps 2 to 4 of fast recovery, then 40 Mb/s a step.
	at(377+3*55, 282_344-(282_344-cut)/16)
	before := d.target
	at(377+4*55, 282_344+20-(282_344-cut)/32)
	if d.target != before+40*fabric.Mbps {
		t.Errorf("target %v after %v", d.target, before)
	}
	// The byte counter counts as well; with both above F the steps grow.
	for range 6 {
		e.control.departs.sent(600*fabric.Microsecond, q, 0, dcqcnByteCounter)
	}
	before = d.target
	e.control.departs.sent((377+6*55)*fabric.Microsecond, q, 0, 0) // 7 by time, 6 by bytes
	if got := d.target - before; got != 2*400*fabric.Mbps {
		t.Errorf("two steps of hyper increase add %v", got)
	}
	e.control.departs.sent(200*fabric.Millisecond, q, 0, 0)
	if q.rate.now != e.cfg.LineRate || d.slowed {
		t.Errorf("%v in the end", q.rate.now)
	}
	if e.Stats().RateCuts != 3 {
		t.Errorf("%d cuts", e.Stats().RateCuts)
	}
}

// Marks on the way make the receiver send CNPs, each QP's 50 us apart, and the
// sender slow down. ACKs carry BECN all the same.
func TestCNP(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		w := newWorld(t, 2, func(c *Config) { c.Control, c.IPv6 = DCQCN, ipv6 })
		w.fate = func(fabric.Time, []byte, bool) fate { return fate{copies: []fabric.Time{0}, mark: true} }
		var at []fabric.Time
		w.tap = func(now fabric.Time, src int, hdr []byte, f Frame) {
			raw, err := frame.Parse(append(append([]byte(nil), hdr...), make([]byte, f.Tail)...))
			if err != nil {
				t.Fatal(err)
			}
			if raw.BTH().Opcode() != frame.CNP {
				return
			}
			at = append(at, now)
			if b := raw.BTH(); src != 1 || !b.BECN() || b.DestQP() != reservedQPs || raw.PayloadLen() != 0 || !f.Control {
				t.Errorf("CNP of host %d: BECN %v, QP %d, %d bytes of payload", src, b.BECN(), b.DestQP(), raw.PayloadLen())
			}
		}
		w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 600 * 9000, Label: 2})
		w.run(never)
		s, r := w.hosts[0].e.Stats(), w.hosts[1].e.Stats()
		if s.CNPsTaken != r.CNPsSent || s.RateCuts != r.CNPsSent || int(r.CNPsSent) != len(at) || s.Marked != 600 {
			t.Fatalf("%+v\n%+v", s, r)
		}
		if len(at) < 5 {
			t.Fatalf("%d CNPs", len(at))
		}
		for i := range len(at) - 1 {
			if d := at[i+1] - at[i]; d < dcqcnCNPInterval {
				t.Errorf("CNPs %v apart", d)
			}
		}
		// At another control CNPs are counted only.
		w = newWorld(t, 2, nil)
		w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 9000, Label: 2})
		w.hosts[1].e.ports[0].queue.push(controlPacket{dst: 0, kind: congestionNotification, becn: true})
		w.run(never)
		if s := w.hosts[0].e.Stats(); s.CNPsTaken != 1 || s.RateCuts != 0 {
			t.Errorf("%+v", s)
		}
	}
}
