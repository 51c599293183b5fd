package transport

import (
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// lostLabels keeps by which labels packets were lost.
type lostLabels struct{ labels []fabric.Label }

func (l *lostLabels) LostBy(_ fabric.Time, _ QP, label fabric.Label) {
	l.labels = append(l.labels, label)
}

// Losses of a QP whose packets take several paths are found by time: what is lost is sent again, once, without a
// time-out, and nothing else is.
func TestLateLoss(t *testing.T) {
	const (
		trip    = 5 * fabric.Microsecond // 2 us each way in this network, and the packet
		packets = 40
	)
	for _, c := range []struct {
		name   string
		data   []int // packets lost, of those sent, from 1
		slow   int   // this packet takes a round trip longer than others
		again  uint64
		probes uint64
		labels []fabric.Label
		within fabric.Time
	}{
		{name: "nothing", within: 20 * fabric.Microsecond},
		{name: "reordered", slow: 7, within: 25 * fabric.Microsecond},
		{name: "one in the middle", data: []int{7}, again: 1, labels: []fabric.Label{2}, within: 40 * fabric.Microsecond},
		{name: "three in the middle", data: []int{7, 8, 12}, again: 3, labels: []fabric.Label{2, 3, 3}, within: 40 * fabric.Microsecond},
		{name: "it, and what was sent again", data: []int{7, 41}, again: 2, probes: 1, labels: []fabric.Label{2, 0}, within: 70 * fabric.Microsecond},
		{name: "the last packet", data: []int{40}, again: 1, probes: 1, labels: []fabric.Label{3}, within: 60 * fabric.Microsecond},
		{name: "it and the probe", data: []int{40, 41}, again: 2, probes: 1, labels: []fabric.Label{3, 0}, within: 80 * fabric.Microsecond},
	} {
		for _, receiver := range []Receiver{Ideal, SelectiveRepeat} {
			t.Run(c.name+", "+string(receiver), func(t *testing.T) {
				lost := &lostLabels{}
				w := newWorld(t, 2, func(cfg *Config) {
					cfg.Receiver, cfg.Trip, cfg.LateLoss = receiver, trip, true
					if cfg.Host == 0 {
						cfg.Balancer, cfg.Losses = &turns{labels: 4}, lost
					}
				})
				n := 0
				w.fate = func(_ fabric.Time, _ []byte, control bool) fate {
					if control {
						return fate{copies: []fabric.Time{0}}
					}
					n++
					switch {
					case slices.Contains(c.data, n):
						return fate{}
					case n == c.slow:
						return fate{copies: []fabric.Time{trip}}
					}
					return fate{copies: []fabric.Time{0}}
				}
				var done fabric.Time
				w.hosts[0].onDone = func(QP) { done = w.now }
				w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: packets * 9000, Balanced: true})
				w.run(never)
				s := w.hosts[0].e.Stats()
				if done == 0 || done > c.within || s.Timeouts != 0 || s.Retransmissions != c.again || s.TailProbes != c.probes {
					t.Errorf("done at %v, want by %v; %d time-outs, %d packets again, %d probes; want 0, %d, %d",
						done, c.within, s.Timeouts, s.Retransmissions, s.TailProbes, c.again, c.probes)
				}
				if !slices.Equal(lost.labels, c.labels) {
					t.Errorf("lost by %v, want %v", lost.labels, c.labels)
				}
				if w.hosts[1].delivered[1] != packets*9000 {
					t.Errorf("%d bytes arrived", w.hosts[1].delivered[1])
				}
			})
		}
	}
}

// It is for QPs with several paths alone, and needs receivers that keep packets.
func TestLateLossNeeds(t *testing.T) {
	w := newWorld(t, 2, nil)
	for _, c := range []Config{
		{Receiver: GoBackN, Trip: 1}, {Receiver: Ideal},
	} {
		c.Fabric, c.LateLoss = w.f, true
		if _, err := New(c, w.hosts[0]); err == nil {
			t.Errorf("receiver %v and round trip %v are taken", c.Receiver, c.Trip)
		}
	}
}
