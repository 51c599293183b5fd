package flow

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/usid"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/balance"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Events within a window of simulated time are taken together: Quantum, or, when
// a run has gone on for long, a share of that time.
const (
	Quantum       = 50 * fabric.Nanosecond
	QuantumShares = 500
)

// ErrScheme is wrapped by the error about a scheme that has no flow-level model.
var ErrScheme = errors.New("flow: no flow-level model")

// Bytes on the wire beside the payload: Ethernet with FCS, preamble and gap, UDP,
// BTH and ICRC; RETH on a queue pair's first packet, AETH on acknowledgements.
const (
	headerBytes = 14 + 8 + 12 + 4 + 24
	rethBytes   = 16
	aethBytes   = 4
)

// piece is a queue pair.
type piece struct {
	id       collective.ID
	qp       hostagent.QP
	src, dst fabric.NodeID
	bytes    int64
	label    fabric.Label
	flows    int32 // not finished
	last     fabric.Time
}

// world is one run.
type world struct {
	run    scenario.Run
	f      *fabric.Fabric
	model  balance.FlowModel
	hosts  []*fluidHost // nil until used
	job    *collective.Job
	now    fabric.Time
	events eventHeap
	seq    uint64
	rng    *rand.Rand

	solver  solver
	flows   []flow
	spare   []int32
	pieces  []piece
	free    []int32
	active  []int32
	started []started
	clock   fabric.Time            // of the event in hand; now is the end of its window
	carried []float64              // bytes on the wire, by link direction
	stale   bool                   // rates are to be computed
	paths   [3][]fabric.Label      // under one ToR, in one pod, between pods
	down    map[fabric.LinkID]bool // links that are cut
	known   map[fabric.LinkID]bool // as the tables have them
	epochs  map[fabric.LinkID]uint64
	updates uint64
	update  *statepb.Update // the last; nil: none

	header, ack int64
	arriving    map[collective.ID]int64

	steps, handled uint64
	flips          int
	timeouts       int64
	firstCut       fabric.Time
	lastFlip       fabric.Time
	finished       bool
	fault          error
	end            fabric.Time
	hops           []fabric.Hop
}

type started struct {
	flow int32
	at   fabric.Time
}

func newWorld(run scenario.Run) (*world, error) {
	s := run.Scenario
	w := &world{
		run: run, f: run.Fabric, firstCut: -1, lastFlip: -1,
		rng:  rand.New(rand.NewPCG(run.Seed, 0xF10)),
		down: map[fabric.LinkID]bool{}, known: map[fabric.LinkID]bool{}, epochs: map[fabric.LinkID]uint64{},
		arriving: map[collective.ID]int64{},
	}
	if s.Servers.On() {
		return nil, errors.New("servers are the virtual world's: remove the key, or leave out --world")
	}
	if run.Lateness().Any() {
		return nil, errors.New("start_skew and stragglers are the virtual world's: remove the keys, or leave out --world")
	}
	for _, i := range run.Interventions {
		if i.Do == scenario.Pause || i.Do == scenario.Resume {
			return nil, fmt.Errorf("%s is the virtual world's, since flows are not paused: remove the event, or leave out --world", i.Do)
		}
	}
	spec, err := run.Scheme.Spec()
	if err != nil {
		return nil, err
	}
	if w.model = spec.Flows; w.model == balance.NoFlowModel {
		return nil, fmt.Errorf("%w of %s: what it does depends on queues; use --world virtual", ErrScheme, spec.Name)
	}
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
	for i := range w.f.Links() {
		c := w.full(fabric.LinkID(i))
		w.solver.capacity[2*i], w.solver.capacity[2*i+1] = c, c
	}
	w.hosts = make([]*fluidHost, w.f.Hosts())
	for i, e := range run.Events {
		w.at(e.At, onCut, int32(i), 0)
		w.schedule(i, e)
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
			return nil // nothing will happen any more: the run has stalled
		}
		if next > w.run.Scenario.Deadline {
			w.now = w.run.Scenario.Deadline
			return nil
		}
		until := next + max(Quantum, next/QuantumShares)
		w.advance(until)
		for len(w.events) > 0 && w.events[0].at <= until && !w.finished && w.fault == nil {
			e := heap.Pop(&w.events).(event)
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

// credit gives the flows that started in the last window what they have sent
// since, at the rate they have now.
func (w *world) credit() {
	for _, s := range w.started {
		f := &w.flows[s.flow]
		f.left = max(f.left-f.rate*float64(w.now-s.at), 0)
	}
	w.started = w.started[:0]
}

// nextTime is when the next event is due or the next flow ends.
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

// advance lets all flows run from now until a time, and ends those that are
// through by then.
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

// ended takes note that the last bit of a flow has left its host.
func (w *world) ended(id int32, at fabric.Time) {
	f := &w.flows[id]
	p := &w.pieces[f.piece]
	there, back := w.latency(f, p.bytes)
	f.left = 0
	w.carry(f)
	f.active = false
	w.spare = append(w.spare, id)
	p.last = max(p.last, at+there)
	if p.flows--; p.flows == 0 {
		w.at(p.last, onArrived, f.piece, 0)
		w.at(p.last+back, onSent, f.piece, 0)
	}
}

// latency is what the last packet takes after it has left the host, and its
// acknowledgement.
func (w *world) latency(f *flow, bytes int64) (there, back fabric.Time) {
	full := int64(w.run.Scenario.Host.Payload)
	last := min(bytes, full)
	if r := bytes % full; r != 0 {
		last = r
	}
	for i, d := range f.links[:f.hops] {
		l := w.f.Link(fabric.LinkID(d / 2))
		there += l.Delay
		back += l.Delay + l.Rate.TimeFor(w.ack)
		if i > 0 {
			there += l.Rate.TimeFor(last + w.header)
		}
	}
	return there, back
}

func (w *world) handle(e event) error {
	switch e.kind {
	case onCut:
		w.linkEvent(w.run.Events[e.a])
	case onTold:
		w.told(w.run.Events[e.a], e.b == 1)
	case onAlarm:
		w.hosts[e.a].core.Tick(w.clock)
	case onStart:
		w.start(e.a)
	case onArrived:
		p := &w.pieces[e.a]
		left := w.arriving[p.id] - p.bytes
		if w.arriving[p.id] = left; left > 0 {
			return nil
		}
		delete(w.arriving, p.id)
		if w.run.Scenario.Host.Completion == scenario.OnArrival {
			return w.received(p.id)
		}
	case onSent:
		p := w.pieces[e.a]
		w.pieces[e.a], w.free = piece{}, append(w.free, e.a)
		core := w.hosts[p.src].core
		core.Acked(w.clock, p.qp, p.bytes)
		core.Done(w.clock, p.qp)
	case onTimer:
		w.timer(fabric.NodeID(e.a), hostagent.QP(e.b))
	case onResume:
		w.resume(e.a, hostagent.QP(e.b))
	}
	return nil
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

// received has a rank go on with what waits for a message.
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
