package transport

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
		window   int
		probes   uint64
		within   fabric.Time
		reports  []string
	}{
		{name: "nothing", within: 10 * fabric.Microsecond},
		{name: "the last packet", data: []int{10}, probes: 1, within: 30 * fabric.Microsecond, reports: []string{"1 of QP 1, 0 ACKs"}},
		{name: "the last three", data: []int{8, 9, 10}, probes: 1, within: 30 * fabric.Microsecond, reports: []string{"1 of QP 1, 0 ACKs"}},
		{name: "the last ACK", acks: []int{10}, probes: 1, within: 30 * fabric.Microsecond, reports: []string{"0 of QP 1, 1 ACKs"}},
		{name: "the last packet, selective repeat", data: []int{10}, receiver: SelectiveRepeat, probes: 1, within: 30 * fabric.Microsecond, reports: []string{"1 of QP 1, 0 ACKs"}},
		{name: "all that the receiver has room for", data: []int{1, 2, 3, 4}, receiver: SelectiveRepeat, window: 4, probes: 1, within: 40 * fabric.Microsecond, reports: []string{"3 of QP 1, 0 ACKs"}},
		{name: "the probe as well", data: []int{10, 11}, probes: 2, within: 100 * fabric.Microsecond, reports: []string{"1 of QP 1, 0 ACKs"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := &watched{}
			w := newWorld(t, 2, func(cfg *Config) {
				cfg.Receiver, cfg.ReorderWindow, cfg.Trip = c.receiver, c.window, trip
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

// checkTails fails the test if a QP's wait for an answer breaks an invariant of [tailProbe].
func (e *Endpoint) checkTails(t testing.TB) {
	t.Helper()
	listed := map[*qp]bool{}
	for _, x := range e.overdueQueue.waiting {
		if listed[x.qp] {
			t.Fatalf("QP %d is listed twice", x.qp.id)
		}
		listed[x.qp] = true
	}
	for _, q := range e.qps {
		x := &q.tail
		if listed[q] != x.listed || q.live && !x.idle() && !x.listed {
			t.Fatalf("QP %d: listed %v, %+v", q.id, listed[q], *x)
		}
		if !q.live {
			continue
		}
		if x.probes < 0 || x.probes > maxTailProbes || x.doublings < 0 || x.doublings > maxTries || x.ackAskedBy > q.sent || x.trip.packet >= q.sent ||
			e.cfg.Watcher != nil && !x.idle() && x.from > x.due {
			t.Fatalf("QP %d, %d sent: %+v", q.id, q.sent, *x)
		}
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

// TestOverdue: the watcher is notified of a QP whose answer is overdue, at doubling intervals, and can move it.
func TestOverdue(t *testing.T) {
	const trip = 5 * fabric.Microsecond
	for _, c := range []struct {
		name     string
		receiver Receiver
		packets  int64
	}{
		{name: "one packet", packets: 1},
		{name: "selective repeat", packets: 3, receiver: SelectiveRepeat},
		{name: "in the middle of a message", packets: 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := &watched{}
			w := newWorld(t, 3, func(cfg *Config) {
				cfg.Trip, cfg.Receiver = trip, c.receiver
				if cfg.Host == 0 {
					cfg.Watcher = seen
				}
			})
			seen.move = func(qp QP) {
				if len(seen.overdue) < 3 {
					return
				}
				if err := errors.Join(w.hosts[0].e.Resend(qp), w.hosts[0].e.Relabel(qp, 3)); err != nil {
					t.Error(err)
				}
			}
			w.fate = func(_ fabric.Time, hdr []byte, control bool) fate {
				if hdr[35]&3 == 1 {
					return fate{}
				}
				return fate{copies: []fabric.Time{0}}
			}
			w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: c.packets * 9000, Label: 1})
			w.run(500 * fabric.Microsecond)
			if n := len(seen.overdue); n < 3 || seen.overdue[0] > 2*trip || seen.overdue[2] > 8*trip {
				t.Errorf("overdue at %v", seen.overdue)
			}
			if s := w.hosts[0].e.Stats(); s.Timeouts > 0 || s.QPsDone != 1 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestAsk: a path probe is answered by its path, without a queue pair.
func TestAsk(t *testing.T) {
	seen := &watched{}
	w := newWorld(t, 2, func(cfg *Config) {
		if cfg.Host == 0 {
			cfg.Watcher = seen
		}
	})
	labels := map[fabric.Label]int{}
	w.fate = func(_ fabric.Time, hdr []byte, control bool) fate {
		labels[fabric.Label(hdr[35]&3)]++
		return fate{copies: []fabric.Time{0}}
	}
	if err := w.hosts[0].e.Ask(1, 3, 77); err != nil {
		t.Fatal(err)
	}
	w.run(100 * fabric.Microsecond)
	if d := cmp.Diff([]string{"question 77 answered by 1"}, seen.reports); d != "" {
		t.Errorf("reports (-want +got)\n%s", d)
	}
	if s := w.hosts[1].e.Stats(); s.PathProbesTaken != 1 || s.ResponderQPs != 0 || labels[3] != 2 {
		t.Errorf("%+v, labels %v", s, labels)
	}
	if err := w.hosts[0].e.Ask(0, 3, 1); err == nil {
		t.Error("a host asks itself")
	}
}

// TestProbesDoNotHideLosses: a path that is dead while probes are sent, and the probes behind a message do not restart
// the retransmission timer.
func TestProbesDoNotHideLosses(t *testing.T) {
	seen := &watched{}
	w := newWorld(t, 2, func(cfg *Config) {
		cfg.Trip = 5 * fabric.Microsecond
		if cfg.Host == 0 {
			cfg.Watcher = seen
		}
	})
	w.fate = func(_ fabric.Time, _ []byte, control bool) fate {
		if w.now < 1500*fabric.Microsecond {
			return fate{}
		}
		return fate{copies: []fabric.Time{0}}
	}
	var expired fabric.Time
	w.hosts[0].onTimeout = func(QP) {
		if expired == 0 {
			expired = w.now
		}
	}
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 3 * 9000, Label: 1})
	w.run(3 * DefaultRTO)
	if s := w.hosts[0].e.Stats(); expired == 0 || expired > DefaultRTO+10*fabric.Microsecond || s.QPsDone != 1 || s.Timeouts != 1 || s.TailProbes < 3 {
		t.Errorf("time-out at %v, %+v", expired, s)
	}
}

// A packet that is lost twice is asked for even if acknowledgements of packets that were taken for lost come meanwhile.
func TestLostTwice(t *testing.T) {
	w := newWorld(t, 2, func(cfg *Config) {
		cfg.Receiver, cfg.Trip = SelectiveRepeat, 5*fabric.Microsecond
		if cfg.Host == 0 {
			cfg.Watcher = &watched{}
		}
	})
	w.fate = losing([]int{1, 5}, nil)
	var done fabric.Time
	w.hosts[0].onDone = func(QP) { done = w.now }
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 4 * 9000})
	w.run(4300 * fabric.Nanosecond)
	w.now = 4300 * fabric.Nanosecond // just before the first answer
	if err := w.hosts[0].e.Resend(1); err != nil {
		t.Fatal(err)
	}
	w.run(never)
	if s := w.hosts[0].e.Stats(); s.Timeouts > 0 || done == 0 || done > 40*fabric.Microsecond {
		t.Errorf("done at %v, %+v", done, s)
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
