package endpoint

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// A message whose last packets are lost, or the ACK for them, costs a few round trips
// and no time-out; one that loses nothing sends no probe.
func TestTail(t *testing.T) {
	const trip = 5 * fabric.Microsecond // 2 us each way in this network, and the packet
	for _, c := range []struct {
		name     string
		data     []int // packets lost, of those sent, from 1
		acks     []int
		receiver Receiver
		probes   uint64
		within   fabric.Time
		reports  []string
	}{
		{name: "nothing", within: 10 * fabric.Microsecond},
		{name: "the last packet", data: []int{10}, probes: 1, within: 30 * fabric.Microsecond, reports: []string{"1 of QP 1"}},
		{name: "the last three", data: []int{8, 9, 10}, probes: 1, within: 30 * fabric.Microsecond, reports: []string{"1 of QP 1"}},
		{name: "the last ACK", acks: []int{10}, probes: 1, within: 30 * fabric.Microsecond, reports: []string{"1 of QP 1"}},
		{name: "the last packet, selective repeat", data: []int{10}, receiver: SelectiveRepeat, probes: 1, within: 30 * fabric.Microsecond, reports: []string{"1 of QP 1"}},
		// Nobody else is answered by that peer, so that only the timer reveals it.
		{name: "the probe as well", data: []int{10, 11}, probes: 1, within: DefaultRTO + 50*fabric.Microsecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := &watched{}
			w := newWorld(t, 2, func(cfg *Config) {
				cfg.Receiver, cfg.Trip = c.receiver, trip
				if cfg.Host == 0 {
					cfg.Watcher = seen
				}
			})
			w.fate = losing(c.data, c.acks)
			var done fabric.Time
			w.hosts[0].onDone = func(QP) { done = w.now }
			w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 10 * 9000})
			w.run(never)
			s := w.hosts[0].e.Stats()
			if done == 0 || done > c.within || s.TailProbes != c.probes || (s.Timeouts > 0) != (c.within > DefaultRTO) {
				t.Errorf("done at %v, want by %v; %+v", done, c.within, s)
			}
			if d := cmp.Diff(c.reports, seen.reports); d != "" {
				t.Errorf("reports (-want +got)\n%s", d)
			}
		})
	}
}

// losing loses some packets and ACKs, counted from 1.
func losing(data, acks []int) func(fabric.Time, []byte, bool) fate {
	n := map[bool]int{}
	return func(_ fabric.Time, _ []byte, control bool) fate {
		lost := data
		if control {
			lost = acks
		}
		n[control]++
		if slices.Contains(lost, n[control]) {
			return fate{}
		}
		return fate{copies: []fabric.Time{0}}
	}
}

// A QP on a path that swallows all is found out by another to the same peer, and not
// where that peer answers nobody.
func TestUnanswered(t *testing.T) {
	for _, all := range []bool{false, true} {
		seen := &watched{}
		w := newWorld(t, 2, func(cfg *Config) {
			cfg.Trip = 5 * fabric.Microsecond
			if cfg.Host == 0 {
				cfg.Watcher = seen
			}
		})
		w.fate = func(_ fabric.Time, hdr []byte, control bool) fate {
			if label := hdr[35] & 3; !control && (all || label == 1) {
				return fate{}
			}
			return fate{copies: []fabric.Time{0}}
		}
		w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 9000, Label: 1})
		w.open(0, Message{QP: 2, ID: 2, Dst: 1, Bytes: 9000, Label: 2})
		w.run(500 * fabric.Microsecond)
		var want []string
		if !all {
			want = []string{"QP 1 unanswered, others true"}
		}
		if d := cmp.Diff(want, seen.reports); d != "" {
			t.Errorf("all %v: reports (-want +got)\n%s", all, d)
		}
		if s := w.hosts[0].e.Stats(); s.Timeouts > 0 {
			t.Errorf("all %v: %+v", all, s)
		}
	}
}

// A receiver asks for a packet once. When that NAK is lost, and no other QP to that peer
// reveals it, the watcher learns of it as soon as another peer has answered, and may have the
// packets retransmitted: no timer runs.
func TestLostNAK(t *testing.T) {
	seen := &watched{}
	w := newWorld(t, 3, func(cfg *Config) {
		cfg.Trip = 5 * fabric.Microsecond
		if cfg.Host == 0 {
			cfg.Watcher = seen
		}
	})
	seen.alone = func(qp QP) {
		if err := w.hosts[0].e.Resend(qp); err != nil {
			t.Error(err)
		}
	}
	first, naks := true, 0
	w.fate = func(_ fabric.Time, hdr []byte, control bool) fate {
		switch label := hdr[35] & 3; {
		case label != 1:
		case !control && first: // the first packet of QP 1
			first = false
			return fate{}
		case control && naks == 0: // what asks for it
			naks++
			return fate{}
		}
		return fate{copies: []fabric.Time{0}}
	}
	var done fabric.Time
	w.hosts[0].onDone = func(qp QP) {
		if qp == 1 {
			done = w.now
		}
	}
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 2 * 9000, Label: 1})
	w.open(0, Message{QP: 2, ID: 2, Dst: 2, Bytes: 4 * 9000, Label: 2})
	w.run(never)
	if s := w.hosts[0].e.Stats(); done == 0 || done > 60*fabric.Microsecond || s.Timeouts > 0 {
		t.Errorf("done at %v, want by 60us; %+v", done, s)
	}
	if d := cmp.Diff([]string{"QP 1 unanswered, others false"}, seen.reports); d != "" {
		t.Errorf("reports (-want +got)\n%s", d)
	}
}

// What is retransmitted goes before what was never sent.
func TestRepeatsFirst(t *testing.T) {
	w := newWorld(t, 40, func(cfg *Config) { cfg.Trip = 5 * fabric.Microsecond })
	n := 0
	w.fate = func(_ fabric.Time, hdr []byte, control bool) fate {
		if n++; !control && n == 1 {
			return fate{}
		}
		return fate{copies: []fabric.Time{0}}
	}
	done := map[QP]fabric.Time{}
	w.hosts[0].onDone = func(qp QP) { done[qp] = w.now }
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 4 * 9000, Label: 1})
	for qp := QP(2); qp < 40; qp++ {
		w.open(0, Message{QP: qp, ID: uint64(qp), Dst: fabric.NodeID(qp), Bytes: 40 * 9000, Label: 2})
	}
	w.run(never)
	if d := done[1]; d == 0 || d > 30*fabric.Microsecond {
		t.Errorf("QP 1 done at %v, the last one at %v; want 1 by 30us", d, done[39])
	}
}
