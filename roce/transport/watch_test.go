package transport

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// watched is a sender's watcher that writes down what it receives, and does what it was
// asked to when it receives a loss.
type watched struct {
	reports []string
	then    func(QP)
	move    func(QP) // what to do with a QP whose answer is overdue
	overdue []fabric.Time
}

func (w *watched) Lost(_ fabric.Time, qp QP, l Loss) {
	w.reports = append(w.reports, fmt.Sprintf("%d of QP %d, %d ACKs", l.Packets, qp, l.Acks))
	if w.then != nil {
		w.then(qp)
	}
}

func (w *watched) Overdue(now fabric.Time, qp QP, _ Overdue) {
	w.overdue = append(w.overdue, now)
	if w.move != nil {
		w.move(qp)
	}
}

func (w *watched) PathAnswered(_ fabric.Time, peer fabric.NodeID, question uint32) {
	w.reports = append(w.reports, fmt.Sprintf("question %d answered by %d", question, peer))
}

func (w *watched) Congested(_ fabric.Time, peer fabric.NodeID, l fabric.Label, _ bool) {
	if s := fmt.Sprintf("marked by %d to %d", l, peer); len(w.reports) == 0 || w.reports[len(w.reports)-1] != s {
		w.reports = append(w.reports, s)
	}
}

// A watcher is called once for each packet that a path loses and each ACK, for marks
// before a loss that they excuse, and of nothing where nothing is lost.
func TestWatcher(t *testing.T) {
	for _, c := range []struct {
		name       string
		data, acks []int // packets lost, of the data sent and of the ACKs, from 1
		marked     int   // this one of the data comes with CE; 0: none does
		receiver   Receiver
		want       []string
	}{
		{name: "nothing", want: nil},
		{name: "data", data: []int{4}, want: []string{"1 of QP 1, 0 ACKs"}},
		{name: "data twice", data: []int{4, 60}, want: []string{"1 of QP 1, 0 ACKs", "1 of QP 1, 0 ACKs"}},
		{name: "an ACK", acks: []int{7}, want: []string{"0 of QP 1, 1 ACKs"}},
		{name: "two ACKs in a row", acks: []int{7, 8}, want: []string{"0 of QP 1, 2 ACKs"}},
		{name: "data, the NAK for it marked", data: []int{4}, marked: 5, want: []string{"marked by 2 to 1", "1 of QP 1, 0 ACKs", "marked by 2 to 1"}},
		{name: "data, selective repeat", data: []int{4, 5}, receiver: SelectiveRepeat, want: []string{"2 of QP 1, 0 ACKs"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := &watched{}
			w := newWorld(t, 2, func(cfg *Config) {
				cfg.Receiver = c.receiver
				if cfg.Host == 0 {
					cfg.Watcher = seen
				}
			})
			data, acks := 0, 0
			w.fate = func(_ fabric.Time, _ []byte, control bool) fate {
				n, lost := &data, c.data
				if control {
					n, lost = &acks, c.acks
				}
				*n++
				if slices.Contains(lost, *n) {
					return fate{}
				}
				return fate{copies: []fabric.Time{0}, mark: !control && *n == c.marked}
			}
			w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 90 * 9000, Label: 2})
			w.run(never)
			if w.hosts[1].delivered[1] != 90*9000 {
				t.Fatalf("%d bytes arrived", w.hosts[1].delivered[1])
			}
			if d := cmp.Diff(c.want, seen.reports); d != "" {
				t.Errorf("reports (-want +got)\n%s", d)
			}
		})
	}
}

// A watcher may close the QP that it learns of.
func TestWatcherCloses(t *testing.T) {
	seen := &watched{}
	w := newWorld(t, 2, func(c *Config) {
		if c.Host == 0 {
			c.Watcher = seen
		}
	})
	seen.then = func(qp QP) {
		if err := w.hosts[0].e.Close(qp); err != nil {
			t.Error(err)
		}
	}
	data := 0
	w.fate = func(_ fabric.Time, _ []byte, control bool) fate {
		if !control {
			if data++; data == 3 {
				return fate{}
			}
		}
		return fate{copies: []fabric.Time{0}}
	}
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 90_000})
	w.run(never)
	if s := w.hosts[0].e.Stats(); s.ActiveQPs != 0 || s.QPsDone != 0 || len(seen.reports) != 1 {
		t.Errorf("%+v, reports %v", s, seen.reports)
	}
}

// A QP that waits for its turn behind a packet that asks for no ACK has lost nothing: nobody answers that packet.
func TestNoTimeoutBeforeAsking(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) {
		if c.AckEvery = 4; c.Host == 0 {
			c.Watcher = &watched{}
		}
	})
	sent := 0
	w.fate = func(now fabric.Time, _ []byte, control bool) fate {
		if !control {
			if sent++; sent == 1 {
				if err := w.hosts[0].e.Hold(1, now+5*DefaultRTO); err != nil {
					t.Error(err)
				}
			}
		}
		return fate{copies: []fabric.Time{0}}
	}
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 9 * 9000, Label: 2})
	w.run(never)
	if s := w.hosts[0].e.Stats(); s.Timeouts > 0 || s.Retransmissions > 0 || w.hosts[1].delivered[1] != 9*9000 {
		t.Errorf("%d time-outs, %d retransmissions, %d bytes arrived; want 0, 0 and all", s.Timeouts, s.Retransmissions, w.hosts[1].delivered[1])
	}
}

// shutting is a rate control whose window each ACK cuts to one packet.
type shutting struct{ lineRate }

func (shutting) open(q *qp)                                                { q.cwnd = 40 }
func (shutting) acked(_ fabric.Time, q *qp, _ *packet, _, _ int32, _ bool) { q.cwnd = 1 }

// A QP whose window is cut below what is in flight, where no packet asks for an ACK, sends one more, which does.
func TestShutWindow(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) {
		if c.AckEvery = 16; c.Host == 0 {
			c.Watcher = &watched{}
		}
	})
	w.hosts[0].e.control.pacer = shutting{}
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 60 * 9000, Label: 2})
	w.run(never)
	if got := w.hosts[1].delivered[1]; got != 60*9000 {
		t.Errorf("%d bytes arrived, want all", got)
	}
	if s := w.hosts[0].e.Stats(); s.Timeouts > 0 {
		t.Errorf("%d time-outs", s.Timeouts)
	}
}

// TestLostWindow: all packets of a window are lost, and no answer opens it. The QP sends one more beyond it, which
// shows the receiver what is missing.
func TestLostWindow(t *testing.T) {
	for _, receiver := range []Receiver{GoBackN, SelectiveRepeat} {
		w := newWorld(t, 2, func(c *Config) {
			if c.Trip, c.Receiver = 5*fabric.Microsecond, receiver; c.Host == 0 {
				c.Watcher = &watched{}
			}
		})
		w.hosts[0].e.control.pacer = fixedWindow(8)
		w.fate = losing([]int{1, 2, 3, 4, 5, 6, 7, 8}, nil)
		w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 60 * 9000, Label: 2})
		w.run(never)
		if got := w.hosts[1].delivered[1]; got != 60*9000 {
			t.Errorf("%s: %d bytes arrived, want all", receiver, got)
		}
		if s := w.hosts[0].e.Stats(); s.Timeouts > 0 {
			t.Errorf("%s: %d time-outs", receiver, s.Timeouts)
		}
	}
}

// fixedWindow lets a QP have that many packets in flight.
type fixedWindow int32

func (w fixedWindow) open(q *qp)                                          { q.cwnd = int32(w) }
func (w fixedWindow) acked(fabric.Time, *qp, *packet, int32, int32, bool) {}
func (w fixedWindow) wentBack(*qp)                                        {}
func (w fixedWindow) cnpReceived(fabric.Time, *qp, *packet)               {}
