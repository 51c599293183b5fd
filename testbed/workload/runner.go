package workload

import (
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/heap"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Runner is the state of a running program.
type Runner struct {
	program    *Program
	instances  []*collectiveInstance
	instanceOf [][]int   // instance of each operation
	waits      [][]int   // per operation: number of operations that it still waits for
	waiters    [][][]int // per operation: those that wait for it
	ended      [][]bool
	unfinished []int              // per rank: number of unfinished operations
	open       int                // number of unfinished ranks
	queued     map[unit][]int     // of busy units: computations that wait for them, in the order in which they could begin
	raised     map[string]int     // how often events were raised
	awaits     map[string][]await // of each event
	timers     heap.Heap[timer]
	order      uint64
	parts      []Span // by [Op].Part - 1

	// See [Runner.FastForward].
	calm   *NetworkState // nil: all collectives are carried out
	waves  []*wave       // by instance; nil: inside a server
	list   []*wave
	active []*wave // that have begun and not ended
	// overlap: different waves have been active together.
	overlap bool

	// See [Runner.CountArrivals].
	received [][]int64  // by instance and local rank; nil: of an instance inside a server
	expected []expected // by rank; nil: it is not counted
	steps    int
}

// await is an operation that waits for an event to have been raised so often.
type await struct{ times, rank, op int }

// NewRunner returns the runner of a program, or an error in it. Errors wrap [ErrProgram].
func NewRunner(p *Program) (*Runner, error) {
	all, index, err := p.link()
	if err != nil {
		return nil, err
	}
	r := &Runner{
		program: p, instances: all, instanceOf: index, queued: map[unit][]int{}, raised: map[string]int{}, awaits: map[string][]await{},
		parts: make([]Span, len(p.Parts)),
	}
	for rank, ops := range p.Ranks {
		for _, op := range ops {
			if op.Part > 0 {
				r.parts[op.Part-1].Open++
			}
		}
		waits, next := make([]int, len(ops)), make([][]int, len(ops))
		for o, op := range ops {
			after := slices.Compact(slices.Sorted(slices.Values(op.After)))
			waits[o] = len(after)
			for _, a := range after {
				next[a] = append(next[a], o)
			}
			if op.Awaits != "" {
				waits[o]++
				r.awaits[op.Awaits] = append(r.awaits[op.Awaits], await{op.Times, rank, o})
			}
		}
		r.waits, r.waiters = append(r.waits, waits), append(r.waiters, next)
		r.ended = append(r.ended, make([]bool, len(ops)))
		r.unfinished = append(r.unfinished, len(ops))
		if len(ops) > 0 {
			r.open++
		}
	}
	for _, all := range r.awaits {
		slices.SortStableFunc(all, func(a, b await) int { return a.times - b.times })
	}
	return r, nil
}

// Start begins the program on all ranks.
func (r *Runner) Start(now fabric.Time, emit func(collective.Send)) {
	for rank := range r.waits {
		for o := range r.waits[rank] {
			// The end of an earlier begun operation may have begun it already.
			if op := r.program.Ranks[rank][o]; len(op.After) == 0 && op.Awaits == "" {
				r.begin(now, rank, o, emit)
			}
		}
	}
}

// Received reports that a message has arrived whole; see [collective.Job.Received].
func (r *Runner) Received(now fabric.Time, id collective.ID, emit func(collective.Send)) error {
	in, local, err := r.find(id)
	if err != nil {
		return err
	}
	if err := in.job.Received(local, func(s collective.Send) { emit(in.global(s)) }); err != nil {
		return err
	}
	r.endIfDone(now, in, local.Dst(), emit)
	return nil
}

// Sent reports that a message's sender has the last acknowledgement.
func (r *Runner) Sent(now fabric.Time, id collective.ID, emit func(collective.Send)) error {
	in, local, err := r.find(id)
	if err != nil {
		return err
	}
	if err := in.job.Sent(local); err != nil {
		return err
	}
	r.endIfDone(now, in, local.Src(), emit)
	return nil
}

// Tick ends the computations that are due.
func (r *Runner) Tick(now fabric.Time, emit func(collective.Send)) {
	for len(r.timers) > 0 && r.timers[0].at <= now {
		t := r.timers.Pop()
		if t.rank < 0 {
			r.releaseWave(r.list[t.op], emit)
			continue
		}
		r.free(now, t.rank, t.op)
		r.end(now, t.rank, t.op, emit)
	}
}

// Deadline returns when Tick is due; ok is false if no rank computes.
func (r *Runner) Deadline() (at fabric.Time, ok bool) {
	if len(r.timers) == 0 {
		return 0, false
	}
	return r.timers[0].at, true
}

// Done reports whether a rank has done all its operations.
func (r *Runner) Done(rank int) bool { return r.unfinished[rank] == 0 }

// Finished reports whether all ranks have done all their operations.
func (r *Runner) Finished() bool { return r.open == 0 }

// Parts returns when the program's parts took place, in the order of [Program.Parts].
func (r *Runner) Parts() []Span { return r.parts }

// find returns the instance of a message and its id there.
func (r *Runner) find(id collective.ID) (*collectiveInstance, collective.ID, error) {
	step := int(id.Job())*collective.MaxSteps + id.Step()
	i, ok := slices.BinarySearchFunc(r.instances, step, func(in *collectiveInstance, step int) int { return in.base - step })
	if !ok {
		i--
	}
	if i < 0 || i >= len(r.instances) {
		return nil, 0, fmt.Errorf("workload: %v is no message of %s", id, r.program.Name)
	}
	in := r.instances[i]
	src, dst := slices.Index(in.group, id.Src()), slices.Index(in.group, id.Dst())
	if src < 0 || dst < 0 {
		return nil, 0, fmt.Errorf("workload: %v is no message of %s", id, r.program.Name)
	}
	return in, collective.MakeID(0, step-in.base, src, dst), nil
}

func (r *Runner) begin(now fabric.Time, rank, o int, emit func(collective.Send)) {
	op := r.program.Ranks[rank][o]
	if op.Part > 0 && !r.parts[op.Part-1].Begun {
		r.parts[op.Part-1].Begun, r.parts[op.Part-1].Begin = true, now
	}
	if op.Kind == Compute {
		if op.Duration == 0 {
			r.end(now, rank, o, emit)
			return
		}
		if u := (unit{rank, op.Unit}); op.Unit != 0 {
			if waiting, busy := r.queued[u]; busy {
				r.queued[u] = append(waiting, o)
				return
			}
			r.queued[u] = nil
		}
		r.compute(now, rank, o)
		return
	}
	if !r.waveBegins(now, rank, o) {
		r.send(now, rank, o, emit)
	}
}

// send begins a rank's part of a collective.
func (r *Runner) send(now fabric.Time, rank, o int, emit func(collective.Send)) {
	in := r.instances[r.instanceOf[rank][o]]
	local := slices.Index(in.group, rank)
	r.expectArrivals(rank, o, local)
	in.job.StartRank(local, func(s collective.Send) { emit(in.global(s)) })
	r.endIfDone(now, in, local, emit)
}

// compute has a computation take its time.
func (r *Runner) compute(now fabric.Time, rank, o int) {
	r.order++
	r.timers.Push(timer{now + r.program.Ranks[rank][o].Duration, r.order, rank, o})
}

// free gives the unit of a computation that has ended to the next one that waits for it.
func (r *Runner) free(now fabric.Time, rank, o int) {
	u := unit{rank, r.program.Ranks[rank][o].Unit}
	if u.unit == 0 {
		return
	}
	waiting := r.queued[u]
	if len(waiting) == 0 {
		delete(r.queued, u)
		return
	}
	r.queued[u] = waiting[1:]
	r.compute(now, rank, waiting[0])
}

// endIfDone ends a rank's operation when its part of the instance is done and it has begun: a message may arrive
// before its receiver waits for it.
func (r *Runner) endIfDone(now fabric.Time, in *collectiveInstance, local int, emit func(collective.Send)) {
	rank, o := in.group[local], in.ops[local]
	if in.job.Done(local) && r.waits[rank][o] == 0 {
		r.end(now, rank, o, emit)
	}
}

func (r *Runner) end(now fabric.Time, rank, o int, emit func(collective.Send)) {
	if r.ended[rank][o] {
		return
	}
	r.ended[rank][o] = true
	r.endArrivals(rank, o)
	r.waveEnds(now, rank, o)
	if part := r.program.Ranks[rank][o].Part; part > 0 {
		r.parts[part-1].Open, r.parts[part-1].End = r.parts[part-1].Open-1, now
	}
	if r.unfinished[rank]--; r.unfinished[rank] == 0 {
		r.open--
	}
	for _, n := range r.waiters[rank][o] {
		r.release(now, rank, n, emit)
	}
	event := r.program.Ranks[rank][o].Raises
	if event == "" {
		return
	}
	r.raised[event]++
	for times := r.raised[event]; len(r.awaits[event]) > 0 && r.awaits[event][0].times <= times; {
		a := r.awaits[event][0]
		r.awaits[event] = r.awaits[event][1:]
		r.release(now, a.rank, a.op, emit)
	}
}

// release begins an operation if its last dependency has ended.
func (r *Runner) release(now fabric.Time, rank, o int, emit func(collective.Send)) {
	if r.waits[rank][o]--; r.waits[rank][o] == 0 {
		r.begin(now, rank, o, emit)
	}
}

// Span is the time of a [Part], from when the first of its ranks begins until the last one ends.
type Span struct {
	Begun      bool
	Begin, End fabric.Time
	Open       int // number of ranks that have not ended
}

// unit executes the computations of a rank one at a time; see [Op].
type unit struct{ rank, unit int }

// timer is the end of a computation or of a skipped collective; of rank -1, of the time for which wave op is held.
// Computations that end at the same time end in the order in which they began.
type timer struct {
	at       fabric.Time
	order    uint64
	rank, op int
}

// Before orders ends by time, then as the computations began.
func (t timer) Before(o timer) bool { return t.at < o.at || t.at == o.at && t.order < o.order }
