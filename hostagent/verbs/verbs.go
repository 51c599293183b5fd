package verbs

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// Config selects the header field in which packets carry labels.
type Config struct {
	// IPv6 is the field that carries the label in IPv6 packets.
	IPv6 labeller.Carrier
}

// FlowLabel returns the IPv6 flow label with which a queue pair towards q must go to RTR so that its packets carry
// label l. If the UDP source port is the carrier, it is a flow label from which drivers compute source port 0xC000 + l;
// it is never 0.
func (c Config) FlowLabel(q labeller.QP, l fabric.Label) uint32 {
	if c.flowLabel(q) {
		return frame.FlowLabel(l)
	}
	// Drivers fold the upper six bits into the lower fourteen by exclusive or.
	return frame.FlowLabel(l ^ 0x3f)
}

// flowLabel reports whether the packets of q carry the label in IPv6's flow
// label.
func (c Config) flowLabel(q labeller.QP) bool {
	return c.IPv6 == labeller.FlowLabel && !q.Dst.Unmap().Is4()
}

// state of a queue pair, as far as labels care.
type state uint8

const (
	receiving state = iota // queue pair state RTR: ready to receive
	sending                // queue pair state RTS: ready to send
)

// pair is a queue pair that this labeller has created.
type pair struct {
	handle Handle
	state  state
	label  fabric.Label // of its packets
	want   fabric.Label // from RTS on, set while in RTR
	known  bool         // label is
}

// Labeller sets the labels of an RNIC's queue pairs, as a [labeller.Labeller]. It is safe for concurrent use.
type Labeller struct {
	p Provider
	c Config

	mu    sync.Mutex
	pairs map[labeller.QP]*pair
	of    map[Handle]labeller.QP
}

var _ labeller.Labeller = (*Labeller)(nil)

// New returns a labeller without queue pairs; add them by Connect or Bind.
func New(p Provider, c Config) *Labeller {
	return &Labeller{p: p, c: c, pairs: map[labeller.QP]*pair{}, of: map[Handle]labeller.QP{}}
}

// Connect moves a queue pair from state INIT to RTR, connected to q, with a label.
func (l *Labeller) Connect(h Handle, q labeller.QP, label fabric.Label, r Receive) error {
	q.Dst = q.Dst.Unmap()
	if err := (labeller.Assignment{QP: q, Label: label}).Validate(); err != nil {
		return err
	}
	if err := r.validate(q); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.free(h, q); err != nil {
		return err
	}
	if err := l.p.ReadyToReceive(h, q.Num, l.c.FlowLabel(q, label), r); err != nil {
		return fmt.Errorf("verbs: %v: to ready-to-receive: %w", q, err)
	}
	l.pairs[q] = &pair{handle: h, state: receiving, label: label, want: label, known: true}
	l.of[h] = q
	return nil
}

func (r *Receive) validate(q labeller.QP) error {
	switch r.MTU {
	case 256, 512, 1024, 2048, 4096:
	default:
		return fmt.Errorf("%w: verbs: %v: MTU %d: InfiniBand has 256, 512, 1024, 2048 and 4096", labeller.ErrInvalid, q, r.MTU)
	}
	if r.PSN >= 1<<24 {
		return fmt.Errorf("%w: verbs: %v: PSN %#x has more than 24 bits", labeller.ErrInvalid, q, r.PSN)
	}
	if r.Path.GID != q.Dst.As16() {
		return fmt.Errorf("%w: verbs: %v: the path's GID %x is of another address", labeller.ErrInvalid, q, r.Path.GID)
	}
	return nil
}

// free returns an error if the handle or the name is taken.
func (l *Labeller) free(h Handle, q labeller.QP) error {
	if h == nil {
		return fmt.Errorf("%w: verbs: %v: no handle", labeller.ErrInvalid, q)
	}
	if other, ok := l.of[h]; ok {
		return fmt.Errorf("%w: verbs: %v: its handle is already that of %v: unbind that first", labeller.ErrInvalid, q, other)
	}
	if _, ok := l.pairs[q]; ok {
		return fmt.Errorf("%w: verbs: %v is already known by another handle: unbind that first", labeller.ErrInvalid, q)
	}
	return nil
}

// Start moves a queue pair of [Labeller.Connect] from state RTR to RTS. If it returns nil, a label that was set in
// between is in force. An error that wraps [labeller.ErrUnsupported] says that the queue pair is in RTS with the label
// of Connect, because the device cannot change it.
func (l *Labeller) Start(h Handle, s Send) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	q, ok := l.of[h]
	if !ok {
		return fmt.Errorf("%w: verbs: start: connect it first", labeller.ErrUnknownQP)
	}
	p := l.pairs[q]
	switch {
	case p.state != receiving:
		return fmt.Errorf("%w: verbs: %v: start: it was started", labeller.ErrInvalid, q)
	case s.PSN >= 1<<24:
		return fmt.Errorf("%w: verbs: %v: PSN %#x has more than 24 bits", labeller.ErrInvalid, q, s.PSN)
	}
	if err := l.p.ReadyToSend(h, s); err != nil {
		return fmt.Errorf("verbs: %v: to ready-to-send: %w", q, err)
	}
	p.state = sending
	want := p.want
	p.want = p.label
	return l.apply(q, p, want)
}

// Bind adds a queue pair that the caller has brought to state RTS. Its label counts as unknown.
func (l *Labeller) Bind(h Handle, q labeller.QP) error {
	q.Dst = q.Dst.Unmap()
	if err := q.Validate(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.free(h, q); err != nil {
		return err
	}
	l.pairs[q] = &pair{handle: h, state: sending}
	l.of[h] = q
	return nil
}

// Unbind removes a queue pair. Call it before the queue pair is destroyed.
func (l *Labeller) Unbind(h Handle) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q, ok := l.of[h]; ok {
		delete(l.pairs, q)
		delete(l.of, h)
	}
}

// Set labels queue pairs from their next packet on, for [labeller.Labeller]. The error wraps labeller.ErrUnknownQP for
// a queue pair that was neither connected nor bound, and labeller.ErrUnsupported if the device cannot change the label
// of a queue pair in use.
func (l *Labeller) Set(as ...labeller.Assignment) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range as {
		if err := a.Validate(); err != nil {
			return err
		}
		a.QP.Dst = a.QP.Dst.Unmap()
		p, ok := l.pairs[a.QP]
		if !ok {
			return fmt.Errorf("%w: verbs: %v: connect or bind it first", labeller.ErrUnknownQP, a.QP)
		}
		if p.state == receiving {
			p.want = a.Label
			continue
		}
		if err := l.apply(a.QP, p, a.Label); err != nil {
			return err
		}
	}
	return nil
}

// apply labels a queue pair in RTS.
func (l *Labeller) apply(q labeller.QP, p *pair, label fabric.Label) error {
	if p.known && p.label == label {
		return nil
	}
	if l.c.flowLabel(q) {
		return fmt.Errorf("%w: verbs: %v: no call changes the flow label of a queue pair in use: open another with the label",
			labeller.ErrUnsupported, q)
	}
	err := l.p.SetSourcePort(p.handle, frame.SourcePort(label))
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return fmt.Errorf("%w: verbs: %v: the device cannot change the source port of a queue pair in use: open another with the label: %w",
			labeller.ErrUnsupported, q, err)
	}
	if err != nil {
		return fmt.Errorf("verbs: %v: source port: %w", q, err)
	}
	p.label, p.want, p.known = label, label, true
	return nil
}

// Clear forgets the labels of queue pairs, for [labeller.Labeller]. Hardware always sends some source port, so a queue
// pair keeps its last label; Clear only forgets that it was set.
func (l *Labeller) Clear(qps ...labeller.QP) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range qps {
		q.Dst = q.Dst.Unmap()
		if p, ok := l.pairs[q]; ok && p.state == sending {
			p.known = false
		}
	}
	return nil
}

// Assignments returns the labels in force, for [labeller.Labeller].
func (l *Labeller) Assignments() ([]labeller.Assignment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var as []labeller.Assignment
	for q, p := range l.pairs {
		if p.known {
			as = append(as, labeller.Assignment{QP: q, Label: p.want})
		}
	}
	labeller.Sort(as)
	return as, nil
}

// Counters always fails, with an error that wraps labeller.ErrUnsupported.
func (l *Labeller) Counters() (labeller.Counters, error) {
	return labeller.Counters{}, fmt.Errorf("%w: verbs: an RNIC does not count packets per label: its ports' counters are in /sys/class/infiniband", labeller.ErrUnsupported)
}

// Close frees the labeller's resources, for [labeller.Labeller]. Queue pairs keep their labels and stay their owners'.
func (l *Labeller) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.pairs)
	clear(l.of)
	return nil
}
