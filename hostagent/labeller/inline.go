package labeller

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/rocev2"
)

// Carrier is where an IPv6 packet carries its label. In IPv4 it is always the
// UDP source port.
type Carrier uint8

// The carriers.
const (
	// SourcePort is the UDP source port, 0xC000 | label.
	SourcePort Carrier = iota
	// FlowLabel is the IPv6 flow label, 0xFC000 | label.
	FlowLabel
)

// Inline labels frames that a program hands it before sending them. It
// satisfies [Discoverer]. Make one with [NewInline].
type Inline struct {
	carrier Carrier // of IPv6
	qps     int     // at most so many have a label

	mu   sync.RWMutex
	set  map[QP]*labelled
	seen map[QP]*seen

	labels  [1 << fabric.LabelBits]counter
	reasons [Reasons]counter
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

func (c *counter) load() Count { return Count{c.packets.Load(), c.bytes.Load()} }

type seen struct {
	counter
	last atomic.Int64 // ns since the epoch
}

// maxSeen is how many unlabelled queue pairs are remembered: to forget the
// oldest all are looked at.
const maxSeen = 1024

// NewInline returns a labeller of at most qps queue pairs; 0 means 65,536.
func NewInline(ipv6 Carrier, qps int) *Inline {
	if qps <= 0 {
		qps = 1 << 16
	}
	return &Inline{carrier: ipv6, qps: qps, set: map[QP]*labelled{}, seen: map[QP]*seen{}}
}

// Rewrite labels a whole Ethernet frame, in place, and returns what became of
// it. Whatever the bytes, it does not panic.
func (l *Inline) Rewrite(frame []byte) Reason {
	r := l.rewrite(frame)
	l.reasons[r].add(len(frame))
	return r
}

func (l *Inline) rewrite(frame []byte) Reason {
	f, err := rocev2.ParseTransport(frame)
	switch {
	case errors.Is(err, rocev2.ErrMalformed):
		return Malformed
	case errors.Is(err, rocev2.ErrFragment):
		return Fragment
	case err != nil:
		return NotRoCE
	}
	q := QP{f.Destination().Unmap(), f.BTH().DestQP()}
	l.mu.RLock()
	set := l.set[q]
	l.mu.RUnlock()
	if set == nil {
		l.passed(q, len(frame))
		return NoLabel
	}
	label := set.label
	if !set.used.Load() {
		set.used.Store(true)
	}
	if f.IPv6() && l.carrier == FlowLabel {
		f.SetFlowLabel(rocev2.FlowLabel(label))
	} else {
		f.SetSourcePort(rocev2.SourcePort(label))
	}
	l.labels[label].add(len(frame))
	return Labelled
}

// passed remembers that a packet of an unlabelled queue pair went out.
func (l *Inline) passed(q QP, bytes int) {
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
	var oldest QP
	var at *seen
	for q, s := range l.seen {
		if at == nil || s.last.Load() < at.last.Load() {
			oldest, at = q, s
		}
	}
	delete(l.seen, oldest)
}

// Set is of [Labeller].
func (l *Inline) Set(as ...Assignment) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range as {
		if err := a.Validate(); err != nil {
			return err
		}
		a.QP.Dst = a.QP.Dst.Unmap()
		if _, ok := l.set[a.QP]; !ok && len(l.set) >= l.qps {
			return fmt.Errorf("%w: %v: %d have a label", ErrFull, a.QP, len(l.set))
		}
		l.set[a.QP] = &labelled{label: a.Label}
		delete(l.seen, a.QP)
	}
	return nil
}

// Clear is of [Labeller].
func (l *Inline) Clear(qps ...QP) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range qps {
		q.Dst = q.Dst.Unmap()
		delete(l.set, q)
	}
	return nil
}

// Assignments is of [Labeller].
func (l *Inline) Assignments() ([]Assignment, error) {
	l.mu.RLock()
	as := make([]Assignment, 0, len(l.set))
	for q, set := range l.set {
		as = append(as, Assignment{q, set.label})
	}
	l.mu.RUnlock()
	Sort(as)
	return as, nil
}

// Sort puts assignments into the order of addresses and numbers.
func Sort(as []Assignment) {
	slices.SortFunc(as, func(a, b Assignment) int {
		return cmp.Or(a.QP.Dst.Compare(b.QP.Dst), cmp.Compare(a.QP.Num, b.QP.Num))
	})
}

// Counters is of [Labeller].
func (l *Inline) Counters() (Counters, error) {
	c := Counters{Labels: map[fabric.Label]Count{}}
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

// Unlabelled is of [Discoverer].
func (l *Inline) Unlabelled() ([]Seen, error) {
	now := time.Now().UnixNano()
	l.mu.RLock()
	out := make([]Seen, 0, len(l.seen))
	for q, s := range l.seen {
		out = append(out, Seen{QP: q, Count: s.load(), Ago: time.Duration(now - s.last.Load())})
	}
	l.mu.RUnlock()
	SortSeen(out)
	return out, nil
}

// SortSeen puts queue pairs into the order of when they were seen, the last
// first.
func SortSeen(s []Seen) {
	slices.SortFunc(s, func(a, b Seen) int {
		return cmp.Or(cmp.Compare(a.Ago, b.Ago), a.QP.Dst.Compare(b.QP.Dst), cmp.Compare(a.QP.Num, b.QP.Num))
	})
}

// Unused is of [Discoverer].
func (l *Inline) Unused() ([]QP, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var idle []QP
	for q, set := range l.set {
		if !set.used.Swap(false) {
			idle = append(idle, q)
		}
	}
	return idle, nil
}

// Close is of [Labeller]. There is nothing to free.
func (l *Inline) Close() error { return nil }
