package flow

import (
	"container/heap"
	"context"
	"errors"
	"math"
	"math/rand/v2"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/usid"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/balance"
	"github.com/ethereal-fabric/ethereal/testbed/report"
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
	qp       hostagent.QP
	src, dst fabric.NodeID
	bytes    int64
	label    fabric.Label
	turn     uint32      // of its events: events of earlier turns are void
	flows    int32       // number of unfinished flows
	place    int32       // index in its host's open
	waits    bool        // it has not started
	once     bool        // a probe that is not retransmitted
	unsent   bool        // it has bytes that were never sent
	last     fabric.Time // when its last byte arrives, or, while it waits, when it may start
	reported int64       // acknowledged bytes reported to the agent
	track    *track      // nil without failures
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
	clock   fabric.Time       // time of the present event; now is the end of its window
	carried []float64         // bytes on the wire, by link direction
	stale   bool              // rates must be computed
	paths   [3][]fabric.Label // under one ToR, in one pod, between pods

	fails     bool // the run has events: queue pairs are tracked
	suspects  bool // agents share their time-outs
	planes    []*planeControl
	switches  []aSwitch
	cut       map[int32]bool // directions of links
	touched   map[fabric.NodeID]bool
	notices   []notice
	queues    *queues // nil: marks are not needed
	calls     []func(now fabric.Time)
	freeCalls []int32 // free indices of calls
	hashed    []byte  // scratch

	header, ack int64
	arriving    map[collective.ID]int64

	steps, handled uint64
	flips          int
	timeouts       int64
	firstCut       fabric.Time
	lastFlip       fabric.Time
	finished       bool
	timeline       []report.Event // of the controllers
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
		run: run, f: run.Fabric, firstCut: -1, lastFlip: -1, rng: rand.New(rand.NewPCG(run.Seed, 0xF10)),
		switches: make([]aSwitch, run.Fabric.Switches()), cut: map[int32]bool{}, touched: map[fabric.NodeID]bool{},
		arriving: map[collective.ID]int64{},
	}
	spec, err := check(run)
	if err != nil {
		return nil, err
	}
	w.model, w.suspects = spec.Flows, spec.SharesSuspicion(run.Scheme.Params)
	w.fails = len(run.Events)+len(run.Interventions) > 0
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
		w.at(e.At+e.Detection, onDetect, int32(i), 0)
	}
	for i, x := range run.Interventions {
		w.at(x.At, onIntervene, int32(i), 0)
	}
	w.queues = newQueues(w)
	if w.fails {
		return w, w.startControl()
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
			w.limit()
			if w.queues != nil {
				w.queues.advance(w.now)
				w.queues.take(w.flows, w.active)
			}
			w.stale = false
			w.credit()
		}
		next := w.nextTime()
		if next == math.MaxInt64 {
			return nil // no events are left: the run has stalled
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
			if len(w.events) == 0 || w.events[0].at > e.at {
				w.reroute()
			}
		}
	}
	return w.fault
}

func (w *world) fail(err error) { w.fault = errors.Join(w.fault, err) }

// credit gives the flows that started in the last window the bytes that they have sent since, at their present
// rate.
func (w *world) credit() {
	for _, s := range w.started {
		f := &w.flows[s.flow]
		f.left = max(f.left-f.rate*float64(w.now-s.at), 0)
	}
	w.started = w.started[:0]
}

// limit keeps flows on dead paths at their old rates: no answer makes their senders faster.
func (w *world) limit() {
	if len(w.cut) == 0 {
		return
	}
	for _, id := range w.active {
		if f := &w.flows[id]; f.most > 0 {
			f.rate = min(f.rate, f.most)
		}
	}
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
	f.left = 0
	w.carry(f)
	f.active = false
	w.spare = append(w.spare, id)
	if p.track != nil || p.flows == 1 {
		w.hosts[p.src].leave(at, p)
	}
	if p.track != nil {
		w.sentAll(f.piece, f, at)
		return
	}
	there, back := w.latency(f.links[:f.hops], f.links[:f.hops], p.bytes)
	p.last = max(p.last, at+there)
	if p.flows--; p.flows == 0 {
		w.at(p.last, onArrived, f.piece, p.turn)
		w.at(p.last+back, onSent, f.piece, p.turn)
	}
}

// latency returns the delay of the last packet after it has left the host, and of its acknowledgement.
func (w *world) latency(way, answers []int32, bytes int64) (there, back fabric.Time) {
	last := w.lastBytes(bytes)
	for i, d := range way {
		l := w.f.Link(fabric.LinkID(d / 2))
		there += l.Delay
		if i > 0 {
			there += l.Rate.TimeFor(last)
		}
	}
	for _, d := range answers {
		l := w.f.Link(fabric.LinkID(d / 2))
		back += l.Delay + l.Rate.TimeFor(w.ack)
	}
	return there, back
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
	if e.kind >= onStart && w.pieces[e.a].turn != e.b {
		return nil
	}
	switch e.kind {
	case onCut:
		w.linkEvent(w.run.Events[e.a])
	case onDetect:
		w.detect(w.clock, w.run.Events[e.a])
	case onIntervene:
		return w.intervene(w.clock, w.run.Interventions[e.a])
	case onCall:
		w.called(e.a)
	case onAlarm:
		w.hosts[e.a].core.Tick(w.clock)
	case onStart:
		w.start(e.a)
	case onArrived:
		return w.arrived(&w.pieces[e.a])
	case onSent:
		w.finish(e.a)
	case onExpire:
		w.expired(e.a)
	case onLate:
		w.late(e.a)
	case onAnswered:
		w.receiveAnswer(e.a)
	}
	return nil
}

// arrived records that a receiver has all of a queue pair.
func (w *world) arrived(p *piece) error {
	if t := p.track; t != nil {
		if t.done {
			return nil
		}
		t.done, t.lost = true, false
	}
	if p.bytes == 0 {
		return nil
	}
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
	h := w.hosts[p.src]
	if p.track != nil {
		h.tailAnswered(w.clock, &p)
	}
	w.forget(k)
	if left := p.bytes - p.reported; left > 0 {
		h.core.Acked(w.clock, p.qp, left)
	}
	h.core.Done(w.clock, p.qp)
}

// forget frees a queue pair's index.
func (w *world) forget(k int32) {
	p := w.pieces[k]
	h := w.hosts[p.src]
	if w.fails {
		last := len(h.open) - 1
		h.open[p.place] = h.open[last]
		w.pieces[h.open[p.place]].place = p.place
		h.open = h.open[:last]
	}
	w.pieces[k], w.free = piece{turn: p.turn + 1}, append(w.free, k)
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
