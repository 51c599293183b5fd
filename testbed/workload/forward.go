package workload

import (
	"fmt"
	"math"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// NetworkState tells a [Runner] whether the network is undisturbed, which it must know to skip repeated collectives.
type NetworkState struct {
	// Crosses reports whether messages between two ranks leave their server.
	Crosses func(src, dst int) bool
	// Disturbances returns the number of events so far that changed the network or hosts' paths, or lost packets.
	Disturbances func() int64
	// Until returns when the network will next be disturbed, or now if nothing may be skipped; math.MaxInt64:
	// nothing is scheduled.
	Until func(now fabric.Time) fabric.Time
}

// FastForward makes the runner end a collective without messages if it is known how long it takes, because the same
// collective of the same ranks has taken equally long twice in succession, undisturbed and with nothing else in the
// network. Each rank then ends when it did in the later of the two, relative to the mean time at which ranks began.
//
// Collectives that ranks begin by the same operation, such as those of several groups, are skipped together: a wave. It
// has all ranks that ever send, and once two different ones have overlapped, nothing more is skipped.
// Its ranks are held until all have begun. If one begins much later than before, the wave is carried out by messages
// after all; the third time, so are all later ones.
func (r *Runner) FastForward(c NetworkState) {
	r.calm = &c
	r.waves = make([]*wave, len(r.instances))
	type place struct {
		op   int
		spec collective.Spec
	}
	together, sending := map[place]*wave{}, map[int]bool{}
	for i, in := range r.instances {
		if !in.crosses(c.Crosses) {
			continue
		}
		for _, rank := range in.group {
			sending[rank] = true
		}
		at := place{in.ops[0], in.spec}
		for _, o := range in.ops {
			if o != at.op || r.program.Ranks[in.group[0]][o].Kind != Collective {
				at.op = -1 // of no other
			}
		}
		w := together[at]
		if w == nil || at.op < 0 {
			w = &wave{regular: at.op >= 0}
			if at.op >= 0 {
				together[at] = w
			}
			w.index = len(r.list)
			r.list = append(r.list, w)
		}
		w.instances = append(w.instances, in)
		w.size += len(in.group)
		r.waves[i] = w
	}
	shapes := map[string]*waveHistory{}
	for _, w := range r.list {
		w.regular = w.regular && w.size == len(sending)
		var of strings.Builder
		for _, in := range w.instances {
			fmt.Fprint(&of, in.spec, in.group)
		}
		key := of.String()
		if shapes[key] == nil {
			shapes[key] = &waveHistory{}
		}
		w.history = shapes[key]
	}
}

// Skipped returns the number of collectives that were skipped, and of all that leave servers.
func (r *Runner) Skipped() (skipped, all int) {
	for _, w := range r.list {
		if all += len(w.instances); w.state == skipping {
			skipped += len(w.instances)
		}
	}
	return skipped, all
}

func (in *collectiveInstance) crosses(between func(src, dst int) bool) bool {
	for _, rank := range in.group {
		if between(in.group[0], rank) {
			return true
		}
	}
	return false
}

// wave is the collectives that ranks begin by the same operation.
type wave struct {
	index     int // in Runner.list
	instances []*collectiveInstance
	size      int // number of ranks
	regular   bool
	history   *waveHistory
	state     waveState
	first     fabric.Time  // when the first rank began
	begun     []rankMoment // in order of time
	ended     []rankMoment
	before    int64 // disturbances when the first rank began
	alone     bool  // but for waves of its shape
}

type waveState uint8

const (
	waiting  waveState = iota // no rank has begun
	held                      // some ranks have begun, and send nothing
	sending                   // by messages
	skipping                  // without
)

// rankMoment is when an operation of a rank begins or ends.
type rankMoment struct {
	rank, op int
	at       fabric.Time
}

// waveHistory is the known effect of waves with equal messages.
type waveHistory struct {
	heldInVain     int   // number of waves that were held in vain
	equalDurations int   // number of equal durations in succession
	disturbances   int64 // until the last of them
	took           fabric.Time
	spread         fabric.Time         // from the first begin to the last
	ends           map[int]fabric.Time // by rank, after the mean begin
}

const (
	durationTolerance = 0.005 // two durations are equal if they differ by less than this part
	spreadTolerance   = 0.002 // and the times between the first rank's begin and the last one's, by this part of the duration
	maxSpread         = 0.1   // part of the duration in which ranks begin, so that a wave is held at all
	maxHeldInVain     = 3
)

// holdTime returns for how long a wave is held.
func (s *waveHistory) holdTime() fabric.Time { return s.spread*3/2 + s.took/200 }

func mean(all []rankMoment, from fabric.Time) fabric.Time {
	sum := fabric.Time(0)
	for _, m := range all {
		sum += m.at - from
	}
	return from + sum/fabric.Time(len(all))
}

// waveBegins records that a rank begins an operation, and reports whether the wave replaces it.
func (r *Runner) waveBegins(now fabric.Time, rank, o int) bool {
	if r.calm == nil {
		return false
	}
	w := r.waves[r.instanceOf[rank][o]]
	if w == nil {
		return false
	}
	if w.state == waiting {
		r.waveStarts(now, w)
	}
	w.begun = append(w.begun, rankMoment{rank, o, now})
	if w.state != held {
		return false
	}
	if len(w.begun) == w.size {
		w.state = skipping
		middle := mean(w.begun, w.first)
		for _, b := range w.begun {
			r.order++
			r.timers.Push(timer{max(now, middle+w.history.ends[b.rank]), r.order, b.rank, b.op})
		}
	}
	return true
}

// waveStarts decides about a wave whose first rank begins.
func (r *Runner) waveStarts(now fabric.Time, w *wave) {
	w.first, w.state, w.before, w.alone = now, sending, r.calm.Disturbances(), true
	others := 0
	for _, x := range r.active {
		if x.history != w.history {
			w.alone, x.alone, r.overlap = false, false, true
		}
		others++
	}
	if others > 1 {
		w.alone = false
	}
	r.active = append(r.active, w)
	s := w.history
	wait := s.holdTime()
	known := w.regular && w.alone && !r.overlap && s.equalDurations >= 2 && s.heldInVain < maxHeldInVain && s.disturbances == w.before
	if known && float64(s.spread) <= maxSpread*float64(s.took) && now+s.took+2*wait < r.calm.Until(now) {
		w.state = held
		r.order++
		r.timers.Push(timer{now + wait, r.order, -1, w.index})
	}
}

// releaseWave carries a wave out by messages if a rank has not begun in time.
func (r *Runner) releaseWave(w *wave, emit func(collective.Send)) {
	if w.state != held {
		return
	}
	w.state, w.alone = sending, false
	w.history.heldInVain++
	for _, b := range w.begun {
		r.send(b.at, b.rank, b.op, emit)
	}
}

// waveEnds records that a rank ends an operation.
func (r *Runner) waveEnds(now fabric.Time, rank, o int) {
	if r.calm == nil || r.instanceOf[rank][o] < 0 {
		return
	}
	w := r.waves[r.instanceOf[rank][o]]
	if w == nil {
		return
	}
	if w.ended = append(w.ended, rankMoment{rank, o, now}); len(w.ended) < w.size {
		return
	}
	for i, x := range r.active {
		if x == w {
			r.active = append(r.active[:i], r.active[i+1:]...)
			break
		}
	}
	if w.state == sending {
		w.history.learn(w, r.calm.Disturbances())
	}
	w.begun, w.ended = nil, nil
}

// learn remembers the effect of a wave that was simulated message by message.
func (s *waveHistory) learn(w *wave, disturbances int64) {
	if !w.alone || !w.regular || w.before != disturbances {
		s.equalDurations = 0
		return
	}
	middle, spread := mean(w.begun, w.first), w.begun[len(w.begun)-1].at-w.first
	took := mean(w.ended, w.first) - middle
	if s.disturbances != disturbances || math.Abs(float64(took-s.took)) > durationTolerance*float64(took) ||
		math.Abs(float64(spread-s.spread)) > spreadTolerance*float64(took) {
		s.equalDurations = 0
	}
	s.equalDurations++
	s.took, s.disturbances, s.spread, s.ends = took, disturbances, spread, map[int]fabric.Time{}
	for _, e := range w.ended {
		s.ends[e.rank] = e.at - middle
	}
}
