package transport

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/google/go-cmp/cmp"
)

// turns labels packets in turn and keeps what it receives.
type turns struct {
	labels fabric.Label
	asked  int
	qps    map[QP]bool
	echoes []Echo
}

func (b *turns) Label(_ fabric.Time, qp QP) fabric.Label {
	if b.qps == nil {
		b.qps = map[QP]bool{}
	}
	b.qps[qp] = true
	b.asked++
	return fabric.Label(b.asked-1) % b.labels
}

func (b *turns) Echo(_ fabric.Time, _ QP, e Echo) { b.echoes = append(b.echoes, e) }

// Every data packet of a balanced QP goes by the label that the balancer names,
// and its ACK says which that was and whether it was marked. Other QPs are not
// the balancer's business.
func TestBalancer(t *testing.T) {
	b := &turns{labels: 3}
	w := newWorld(t, 2, func(c *Config) {
		if c.Host == 0 {
			c.Balancer = b
		}
		c.Control = NoControl
	})
	marked := func(hdr []byte) bool { return hdr[35]&3 == 1 }
	w.fate = func(_ fabric.Time, hdr []byte, control bool) fate {
		return fate{copies: []fabric.Time{0}, mark: !control && marked(hdr)}
	}
	labels := map[int]int{}
	w.tap = func(_ fabric.Time, src int, hdr []byte, f Frame) {
		if !f.Control {
			labels[int(hdr[35]&3)]++
		}
	}
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 30 * 9000, Label: 3, Balanced: true})
	w.run(never)
	if diff := cmp.Diff(map[int]int{0: 10, 1: 10, 2: 10}, labels); diff != "" {
		t.Errorf("packets by label (-want +got):\n%s", diff)
	}
	if len(b.echoes) != 30 || b.asked != 30 {
		t.Fatalf("%d echoes, asked %d times, want 30", len(b.echoes), b.asked)
	}
	rtt := 2*w.delay + w.rate.TimeFor(54+16+9000+4) + w.rate.TimeFor(54+4+4)
	for i, e := range b.echoes {
		want := Echo{Label: fabric.Label(i % 3), Marked: i%3 == 1, RTT: e.RTT}
		if i == 0 {
			want.RTT = rtt
		}
		if diff := cmp.Diff(want, e); diff != "" {
			t.Errorf("echo %d (-want +got):\n%s", i, diff)
		}
	}
	w.open(0, Message{QP: 2, ID: 2, Dst: 1, Bytes: 9000, Label: 3})
	w.run(never)
	if labels[3] != 1 || b.asked != 30 || len(b.echoes) != 30 {
		t.Errorf("a QP with a path of its own: %v, asked %d times", labels, b.asked)
	}
}

// A probe goes by its own label, is acknowledged, and is no message at the
// receiver. What is sent twice has no round trip.
func TestProbe(t *testing.T) {
	b := &turns{labels: 4}
	w := newWorld(t, 2, func(c *Config) { c.Balancer = b })
	lost := 0
	w.fate = func(_ fabric.Time, _ []byte, control bool) fate {
		if lost == 0 {
			lost++
			return fate{}
		}
		return fate{copies: []fabric.Time{0}}
	}
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Balanced: true})
	w.run(never)
	w.open(0, Message{QP: 2, ID: 2, Dst: 1, Balanced: true})
	w.run(never)
	probe := w.rate.TimeFor(54+16+4) + w.rate.TimeFor(54+4+4) + 2*w.delay
	if diff := cmp.Diff([]Echo{{Label: 1}, {Label: 2, RTT: probe}}, b.echoes); diff != "" {
		t.Errorf("echoes (-want +got):\n%s", diff)
	}
	h := w.hosts[0]
	if h.done[1] != 1 || h.done[2] != 1 || len(h.acked) != 0 || len(w.hosts[1].delivered) != 0 {
		t.Errorf("done %v, acknowledged %v, delivered %v", h.done, h.acked, w.hosts[1].delivered)
	}
	if s := w.hosts[1].e.Stats(); s.Malformed != 0 || s.Delivered != 0 || s.DataReceived != 2 {
		t.Errorf("%+v", s)
	}
}
