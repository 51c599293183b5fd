// Package labellertest has a labeller in Go. Agents' tests label with it, and the eBPF program is compared with it
// byte by byte.
package labellertest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// Inline is a labeller for tests: a program passes it each frame before sending it. It implements
// [labeller.Discoverer]. Make one with [NewInline].
type Inline struct {
	carrier labeller.Carrier // for IPv6
	qps     int              // largest number of labelled queue pairs

	mu   sync.RWMutex
	set  map[labeller.QP]*labelled
	seen map[labeller.QP]*seen

	labels  [1 << fabric.LabelBits]counter
	reasons [labeller.Reasons]counter
}

// labelled is a queue pair's label. It is replaced, not changed.
type labelled struct {
	label fabric.Label
	used  atomic.Bool
}

type counter struct{ packets, bytes atomic.Uint64 }

func (c *counter) add(bytes int) {
	c.packets.Add(1)
	c.bytes.Add(uint64(bytes))
}

func (c *counter) load() labeller.Count {
	return labeller.Count{Packets: c.packets.Load(), Bytes: c.bytes.Load()}
}

type seen struct {
	counter
	last atomic.Int64 // ns since the epoch
}

// maxSeen bounds the unlabelled queue pairs that are remembered: forgetting the oldest looks at all.
const maxSeen = 1024

// NewInline returns a labeller for at most qps queue pairs; 0 means 65,536.
func NewInline(ipv6 labeller.Carrier, qps int) *Inline {
	if qps <= 0 {
		qps = 1 << 16
	}
	return &Inline{carrier: ipv6, qps: qps, set: map[labeller.QP]*labelled{}, seen: map[labeller.QP]*seen{}}
}

// Rewrite sets the label in a whole Ethernet frame, in place, and returns what it did. It does not panic, whatever the
// bytes.
func (l *Inline) Rewrite(raw []byte) labeller.Reason {
	r := l.rewrite(raw)
	l.reasons[r].add(len(raw))
	return r
}

func (l *Inline) rewrite(raw []byte) labeller.Reason {
	f, err := frame.ParseTransport(raw)
	switch {
	case errors.Is(err, frame.ErrMalformed):
		return labeller.Malformed
	case errors.Is(err, frame.ErrFragment):
		return labeller.Fragment
	case err != nil:
		return labeller.NotRoCE
	}
	q := labeller.QP{Dst: f.Destination().Unmap(), Num: f.BTH().DestQP()}
	l.mu.RLock()
	set := l.set[q]
	l.mu.RUnlock()
	if set == nil {
		l.passed(q, len(raw))
		return labeller.NoLabel
	}
	label := set.label
	if !set.used.Load() {
		set.used.Store(true)
	}
	if f.IPv6() && l.carrier == labeller.FlowLabel {
		f.SetFlowLabel(frame.FlowLabel(label))
	} else {
		f.SetSourcePort(frame.SourcePort(label))
	}
	l.labels[label].add(len(raw))
	return labeller.Labelled
}

// passed records a packet of an unlabelled queue pair.
func (l *Inline) passed(q labeller.QP, bytes int) {
	l.mu.RLock()
	s := l.seen[q]
	l.mu.RUnlock()
	if s == nil {
		l.mu.Lock()
		if s = l.seen[q]; s == nil {
			s = &seen{}
			if len(l.seen) >= maxSeen {
				l.forgetOldest()
			}
			l.seen[q] = s
		}
		l.mu.Unlock()
	}
	s.add(bytes)
	s.last.Store(time.Now().UnixNano())
}

func (l *Inline) forgetOldest() {
	var oldest labeller.QP
	var at *seen
	for q, s := range l.seen {
		if at == nil || s.last.Load() < at.last.Load() {
			oldest, at = q, s
		}
	}
	delete(l.seen, oldest)
}

// Set labels queue pairs from their next packet on, for [labeller.Labeller].
func (l *Inline) Set(as ...labeller.Assignment) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range as {
		if err := a.Validate(); err != nil {
			return err
		}
		a.QP.Dst = a.QP.Dst.Unmap()
		if _, ok := l.set[a.QP]; !ok && len(l.set) >= l.qps {
			return fmt.Errorf("%w: %v: %d have a label", labeller.ErrFull, a.QP, len(l.set))
		}
		l.set[a.QP] = &labelled{label: a.Label}
		delete(l.seen, a.QP)
	}
	return nil
}

// Clear removes the labels of queue pairs, for [labeller.Labeller].
func (l *Inline) Clear(qps ...labeller.QP) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range qps {
		q.Dst = q.Dst.Unmap()
		delete(l.set, q)
	}
	return nil
}

// Assignments returns the labels in force, for [labeller.Labeller].
func (l *Inline) Assignments() ([]labeller.Assignment, error) {
	l.mu.RLock()
	as := make([]labeller.Assignment, 0, len(l.set))
	for q, set := range l.set {
		as = append(as, labeller.Assignment{QP: q, Label: set.label})
	}
	l.mu.RUnlock()
	labeller.Sort(as)
	return as, nil
}

// Counters returns how many packets were labelled, by label and by reason, for [labeller.Labeller].
func (l *Inline) Counters() (labeller.Counters, error) {
	c := labeller.Counters{Labels: map[fabric.Label]labeller.Count{}}
	for i := range l.labels {
		if n := l.labels[i].load(); n.Packets > 0 {
			c.Labels[fabric.Label(i)] = n
		}
	}
	for i := range c.Reasons {
		c.Reasons[i] = l.reasons[i].load()
	}
	return c, nil
}

// Unlabelled returns queue pairs whose packets were seen without a label, for [labeller.Discoverer].
func (l *Inline) Unlabelled() ([]labeller.Seen, error) {
	now := time.Now().UnixNano()
	l.mu.RLock()
	out := make([]labeller.Seen, 0, len(l.seen))
	for q, s := range l.seen {
		out = append(out, labeller.Seen{QP: q, Count: s.load(), Ago: time.Duration(now - s.last.Load())})
	}
	l.mu.RUnlock()
	labeller.SortSeen(out)
	return out, nil
}

// Unused returns labelled queue pairs without packets since the last call, for [labeller.Discoverer].
func (l *Inline) Unused() ([]labeller.QP, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var idle []labeller.QP
	for q, set := range l.set {
		if !set.used.Swap(false) {
			idle = append(idle, q)
		}
	}
	return idle, nil
}

// Close does nothing: there is nothing to free.
func (l *Inline) Close() error { return nil }
