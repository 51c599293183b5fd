package endpoint

import (
	"errors"
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
		{name: "the last packet", data: []int{10}, probes: 1, within: 30 * fabric.Microsecond, reports: []string{"1 of QP 1, 0 ACKs"}},
		{name: "the last three", data: []int{8, 9, 10}, probes: 1, within: 30 * fabric.Microsecond, reports: []string{"1 of QP 1, 0 ACKs"}},
		{name: "the last ACK", acks: []int{10}, probes: 1, within: 30 * fabric.Microsecond, reports: []string{"0 of QP 1, 1 ACKs"}},
		{name: "the last packet, selective repeat", data: []int{10}, receiver: SelectiveRepeat, probes: 1, within: 30 * fabric.Microsecond, reports: []string{"1 of QP 1, 0 ACKs"}},
		// Nobody else is answered by that peer, so that only the timer tells.
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

// A QP on a path that swallows all is silent while others are answered, be it by the same peer or by another: it is
// moved, and nothing is sent again by the path that it leaves. Where nobody is answered there is no evidence.
func TestUnanswered(t *testing.T) {
	const trip = 5 * fabric.Microsecond
	for _, c := range []struct {
		name     string
		receiver Receiver
		peer     fabric.NodeID // of the other QP
		all      bool          // paths swallow all
		packets  int64
		control  bool // only answers are lost
	}{
		{name: "the peer answers the other", peer: 1, packets: 1},
		{name: "only another peer answers", peer: 2, packets: 1},
		{name: "selective repeat", peer: 2, packets: 3, receiver: SelectiveRepeat},
		{name: "in the middle of a message", peer: 2, packets: 400},
		{name: "the NAK is lost", peer: 2, packets: 3, control: true},
		{name: "nobody answers", peer: 2, packets: 1, all: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := &watched{}
			w := newWorld(t, 3, func(cfg *Config) {
				cfg.Trip, cfg.Receiver = trip, c.receiver
				if cfg.Host == 0 {
					cfg.Watcher = seen
				}
			})
			var moved fabric.Time
			seen.move = func(qp QP) {
				moved = w.now
				if err := errors.Join(w.hosts[0].e.Resend(qp), w.hosts[0].e.Relabel(qp, 3)); err != nil {
					t.Error(err)
				}
			}
			stray := 0 // data by the path that was left
			w.fate = func(_ fabric.Time, hdr []byte, control bool) fate {
				label := hdr[35] & 3
				if label == 1 && moved > 0 && !control {
					stray++
				}
				if (c.all || label == 1) && (!c.control || control) {
					return fate{}
				}
				return fate{copies: []fabric.Time{0}}
			}
			w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: c.packets * 9000, Label: 1})
			w.open(0, Message{QP: 2, ID: 2, Dst: c.peer, Bytes: c.packets * 9000, Label: 2})
			w.run(500 * fabric.Microsecond)
			want := []string{"QP 1 unanswered"}
			switch {
			case c.all:
				want = nil
			case c.control: // what is sent again is answered again, when the QP is done
				want = append(want, "late by 3 from 1", "late by 3 from 1")
			}
			if d := cmp.Diff(want, seen.reports); d != "" {
				t.Errorf("reports (-want +got)\n%s", d)
			}
			if moved > 4*trip || stray > 0 {
				t.Errorf("moved at %v, want by %v; %d packets by the path that it left", moved, 4*trip, stray)
			}
			if s := w.hosts[0].e.Stats(); s.Timeouts > 0 || !c.all && s.QPsDone == 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// A receiver asks once. If that is lost, no path gets an answer: a QP is moved a few times, then its timer helps. What it
// sends on other paths behind its message gives it no more time.
func TestMovesEnd(t *testing.T) {
	seen := &watched{}
	w := newWorld(t, 3, func(cfg *Config) {
		cfg.Trip = 5 * fabric.Microsecond
		if cfg.Host == 0 {
			cfg.Watcher = seen
		}
	})
	label := fabric.Label(1)
	seen.move = func(qp QP) {
		label = 4 - label // 1 or 3
		if err := w.hosts[0].e.Relabel(qp, label); err != nil {
			t.Error(err)
		}
	}
	expired := false
	w.hosts[0].onTimeout = func(QP) {
		expired = true
		// The QPs take turns: the last of three packets is sent after six.
		if last := 6 * w.hosts[0].e.fullGap; w.now > last+DefaultRTO {
			t.Errorf("a time-out at %v", w.now)
		}
	}
	w.fate = func(_ fabric.Time, hdr []byte, control bool) fate {
		if control && hdr[35]&1 == 1 && !expired {
			return fate{}
		}
		return fate{copies: []fabric.Time{0}}
	}
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 3 * 9000, Label: 1})
	w.open(0, Message{QP: 2, ID: 2, Dst: 2, Bytes: 20_000 * 9000, Label: 2})
	w.run(2 * DefaultRTO)
	asked := 0
	for _, r := range seen.reports {
		if r == "QP 1 unanswered" {
			asked++
		}
	}
	if s := w.hosts[0].e.Stats(); asked != maxMoves || s.Timeouts != 1 || s.QPsDone != 1 {
		t.Errorf("asked %d times, %+v", asked, s)
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
