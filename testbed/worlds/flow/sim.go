package flow

import (
	"context"
	"errors"
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/usid"
	"github.com/ethereal-fabric/ethereal/internal/heap"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/balance"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Events within a window of simulated time are processed together: Quantum, or, in a long run, a share of the
// elapsed time.
const (
	Quantum       = 50 * fabric.Nanosecond
	QuantumShares = 500
)

// ErrScheme is wrapped by the error about a scheme that has no flow-level model.
var ErrScheme = errors.New("flow: no flow-level model")

// Bytes on the wire besides the payload: Ethernet with FCS, preamble and gap, UDP, BTH and ICRC; RETH on a queue
// pair's first packet, AETH on acknowledgements.
const (
	headerBytes = 14 + 8 + 12 + 4 + 24
	rethBytes   = 16
	aethBytes   = 4
)

// piece is a queue pair.
type piece struct {
	id       collective.ID
	qp       transport.QP
	src, dst fabric.NodeID
	bytes    int64
	label    fabric.Label
	flows    int32       // number of unfinished flows
	last     fabric.Time // when its last byte arrives, or, while it waits, when it may start
}

// world is one run.
type world struct {
	run    scenario.Run
	f      *fabric.Fabric
	model  balance.FlowModel
	hosts  []*fluidHost // nil until used
	job    *collective.Job
	now    fabric.Time
	events heap.Heap[event]
	seq    uint64

	solver     solver
	flows      []flow
	freeFlows  []int32
	pieces     []piece
	freePieces []int32
	active     []int32
	started    []startedFlow
	clock      fabric.Time       // time of the present event; now is the end of its window
	carried    []float64         // bytes on the wire, by link direction
	stale      bool              // rates must be computed
	paths      [3][]fabric.Label // under one ToR, in one pod, between pods

	given    bool // some links are dead or slow
	switches []switchTables
	cut      map[int32]bool        // directions of dead links
	slow     map[int32]fabric.Rate // of directions of slow links
	known    []*statepb.Update     // agents' first updates
	severed  bool                  // a queue pair has no way to its receiver
	hashed   []byte                // scratch

	header, ack int64
	arriving    map[collective.ID]int64

	steps, handled uint64
	finished       bool
	fault          error
	end            fabric.Time
	hops           []fabric.Hop
}

type startedFlow struct {
	flow int32
	at   fabric.Time
}

func newWorld(run scenario.Run) (*world, error) {
	s := run.Scenario
	w := &world{
		run: run, f: run.Fabric,
		switches: make([]switchTables, run.Fabric.Switches()), cut: map[int32]bool{}, slow: map[int32]fabric.Rate{},
		arriving: map[collective.ID]int64{},
	}
	spec, err := check(run)
	if err != nil {
		return nil, err
	}
	w.model = spec.Flows
	ip := int64(20)
	if s.Host.IPv6 {
		ip = 40
	}
	if s.Host.Carrier == scenario.SRv6USID {
		ip += usid.HeaderSize
	}
	w.header, w.ack = headerBytes+ip, headerBytes+ip+aethBytes
	if w.job, err = collective.New(run.CollectiveSpec()); err != nil {
		return nil, err
	}
	w.solver.capacity, w.carried = make([]float64, 2*w.f.Links()), make([]float64, 2*w.f.Links())
	w.hosts = make([]*fluidHost, w.f.Hosts())
	if err := w.takeLinks(); err != nil {
		return nil, err
	}
	for d := range w.solver.capacity {
		w.solver.capacity[d] = w.capacity(w.rate(int32(d)))
	}
	return w, nil
}

// simulate runs to the collective's end or the scenario's deadline.
func (w *world) simulate(ctx context.Context) error {
	w.job.Start(w.post)
	for !w.finished && w.fault == nil {
		w.steps++
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if w.stale {
			w.solver.solve(w.flows, w.active)
			w.stale = false
			w.credit()
		}
		next := w.nextTime()
		if next == math.MaxInt64 {
			if w.severed { // its sender retransmits for ever
				w.now = w.run.Scenario.Deadline
			}
			return nil // no events are left: otherwise the run has stalled
		}
		if next > w.run.Scenario.Deadline {
			w.now = w.run.Scenario.Deadline
			return nil
		}
		until := next + max(Quantum, next/QuantumShares)
		w.advance(until)
		for len(w.events) > 0 && w.events[0].at <= until && !w.finished && w.fault == nil {
			e := w.events.Pop()
			w.clock = e.at
			w.handled++
			if err := w.handle(e); err != nil {
				w.fail(err)
			}
		}
	}
	return w.fault
}

func (w *world) fail(err error) { w.fault = errors.Join(w.fault, err) }

// credit adds to the flows that started in the last window the bytes sent since, at their present rate.
func (w *world) credit() {
	for _, s := range w.started {
		f := &w.flows[s.flow]
		f.left = max(f.left-f.rate*float64(w.now-s.at), 0)
	}
	w.started = w.started[:0]
}

// nextTime returns the time of the next event or of the next flow's end.
func (w *world) nextTime() fabric.Time {
	next := float64(math.MaxInt64)
	for _, id := range w.active {
		if f := &w.flows[id]; f.rate > 0 {
			next = min(next, f.left/f.rate)
		}
	}
	t := fabric.Time(math.MaxInt64)
	if next < float64(math.MaxInt64)/2 {
		t = w.now + fabric.Time(next)
	}
	if len(w.events) > 0 {
		t = min(t, w.events[0].at)
	}
	return max(t, w.now)
}

// advance runs all flows from now until a time, and ends those that finish by then.
func (w *world) advance(until fabric.Time) {
	span := float64(until - w.now)
	kept := w.active[:0]
	for _, id := range w.active {
		f := &w.flows[id]
		sent := f.rate * span
		if sent < f.left {
			f.left -= sent
			kept = append(kept, id)
			continue
		}
		w.ended(id, w.now+fabric.Time(f.left/f.rate))
		w.stale = true
	}
	w.active = kept
	w.now = until
}

// ended records that the last bit of a flow has left its host.
func (w *world) ended(id int32, at fabric.Time) {
	f := &w.flows[id]
	p := &w.pieces[f.piece]
	for _, d := range f.links[:f.hops] {
		w.carried[d] += f.bytes
	}
	w.freeFlows = append(w.freeFlows, id)
	there, back := w.latency(f.links[:f.hops], p.bytes)
	p.last = max(p.last, at+there)
	if p.flows--; p.flows == 0 {
		w.hosts[p.src].leave(at, p)
		w.at(p.last, onArrived, f.piece)
		w.at(p.last+back, onSent, f.piece)
	}
}

// latency returns the delay of the last packet after it has left the host, and of its acknowledgement, which takes
// the same way back.
func (w *world) latency(links []int32, bytes int64) (there, back fabric.Time) {
	last := w.lastBytes(bytes)
	for i, d := range links {
		l := w.f.Link(fabric.LinkID(d / 2))
		there += l.Delay
		if i > 0 {
			there += w.rate(d).TimeFor(last)
		}
		back += l.Delay + w.rate(d^1).TimeFor(w.ack)
	}
	return there, back
}

// rate returns the rate of a link's direction.
func (w *world) rate(d int32) fabric.Rate {
	if r, slow := w.slow[d]; slow {
		return r
	}
	return w.f.Link(fabric.LinkID(d / 2)).Rate
}

// lastBytes returns the length of the last packet of a message on the wire.
func (w *world) lastBytes(bytes int64) int64 {
	full := int64(w.run.Scenario.Host.Payload)
	last := min(bytes, full)
	if r := bytes % full; r != 0 {
		last = r
	}
	return last + w.header
}

func (w *world) handle(e event) error {
	switch e.kind {
	case onAlarm:
		w.hosts[e.a].core.Tick(w.clock)
	case onStart:
		w.start(e.a)
	case onArrived:
		return w.arrived(&w.pieces[e.a])
	case onSent:
		w.finish(e.a)
	}
	return nil
}

// arrived records that a receiver has all of a queue pair.
func (w *world) arrived(p *piece) error {
	left := w.arriving[p.id] - p.bytes
	if w.arriving[p.id] = left; left > 0 {
		return nil
	}
	delete(w.arriving, p.id)
	if w.run.Scenario.Host.Completion == scenario.OnArrival {
		return w.received(p.id)
	}
	return nil
}

// finish ends a queue pair of which everything is acknowledged.
func (w *world) finish(k int32) {
	p := w.pieces[k]
	w.pieces[k], w.freePieces = piece{}, append(w.freePieces, k)
	h := w.hosts[p.src]
	h.core.Acked(w.clock, p.qp, p.bytes)
	h.core.Done(w.clock, p.qp)
}

// post carries a send of the collective.
func (w *world) post(s collective.Send) {
	h, err := w.host(fabric.NodeID(s.Src))
	if err != nil {
		w.fail(err)
		return
	}
	w.arriving[s.ID] = s.Bytes
	h.core.Post(w.clock, hostagent.Flow{ID: uint64(s.ID), Dst: fabric.NodeID(s.Dst), Bytes: s.Bytes})
}

// received lets a rank continue with the operations that wait for a message.
func (w *world) received(id collective.ID) error {
	err := w.job.Received(id, w.post)
	w.checkFinished()
	return err
}

func (w *world) checkFinished() {
	if w.job.Finished() {
		w.finished, w.end = true, w.clock
	}
}
