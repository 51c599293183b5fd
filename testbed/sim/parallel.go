package sim

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// runRegions is Run for several regions: windows of time, in which they run side
// by side, between moments in which the network is at rest.
func (n *Network) runRegions(ctx context.Context, until fabric.Time, t *regionTeam) error {
	defer n.align()
	for {
		n.publish()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if n.stop.Load() {
			n.stop.Store(false)
			return n.failure()
		}
		at, ok := n.nextEvent()
		if !ok || at > until {
			if ok {
				n.now = max(n.now, until)
			}
			return n.failure()
		}
		by := min(at+n.lookahead-1, until)
		if len(n.world.controls) > 0 {
			if n.world.controls[0].at == at {
				n.landCrossings()
				n.runControls(at)
				continue
			}
			by = min(by, n.world.controls[0].at-1)
		}
		n.now = at
		if n.cfg.InOrder == nil || !n.cfg.InOrder(by) {
			t.window(by)
			n.mergeJournals()
		} else {
			n.landCrossings()
			n.runInOrder(by)
		}
		if err := n.failure(); err != nil {
			return err
		}
	}
}

// RegionShares says how evenly a run's events were divided among regions. All events divided by Longest + InTurn is
// the speed-up that would result if all events took the same time and waiting took none.
type RegionShares struct {
	Windows int64 // number of windows in which regions were simulated side by side
	Longest int64 // sum over the windows of the events of the busiest region
	InTurn  int64 // number of events simulated outside windows
}

// Shares returns how events were divided among regions so far; zeros with one region.
func (n *Network) Shares() RegionShares {
	s := n.shares
	if len(n.regions) > 1 {
		for _, r := range n.allRegions {
			s.InTurn += r.events
		}
		s.InTurn -= n.concurrent
	}
	return s
}

// nextEvent returns when the next event is due. ok is false when there is none.
func (n *Network) nextEvent() (at fabric.Time, ok bool) {
	at = math.MaxInt64
	for _, r := range n.regions {
		if next, some := r.next(); some {
			at, ok = min(at, next), true
		}
		if r.firstCrossing < math.MaxInt64 {
			at, ok = min(at, r.firstCrossing), true
		}
	}
	if len(n.world.controls) > 0 {
		at, ok = min(at, n.world.controls[0].at), true
	}
	return at, ok
}

// landCrossings delivers the packets that are between regions.
func (n *Network) landCrossings() {
	for _, r := range n.regions {
		r.receiveCrossings(0)
		r.receiveCrossings(1)
	}
	for _, r := range n.regions {
		r.firstCrossing = math.MaxInt64
	}
}

// align ends a run: all regions are at one time.
func (n *Network) align() {
	n.landCrossings()
	for _, r := range n.regions {
		n.now = max(n.now, r.now)
	}
	n.setNow(n.now)
}

func (n *Network) setNow(now fabric.Time) {
	n.now = now
	for _, r := range n.regions {
		r.now = now
	}
}

func (n *Network) failure() error {
	for _, r := range n.regions {
		if r.err != nil {
			return r.err
		}
	}
	return nil
}

// runControls runs the control functions of a time, the world's and the nodes',
// in sequence.
func (n *Network) runControls(at fabric.Time) {
	n.setNow(at)
	for !n.stop.Load() {
		first := n.firstControl()
		if first == nil || first.controls[0].at > at {
			return
		}
		first.control(first.controls.Pop())
	}
}

// firstControl returns what has the next control function; nil: nothing.
func (n *Network) firstControl() *region {
	var first *region
	for _, r := range n.allRegions {
		if len(r.controls) > 0 && (first == nil || r.controls[0].Before(first.controls[0])) {
			first = r
		}
	}
	return first
}

// runInOrder runs the network up to a time on this goroutine alone, one event at a time in the order of one queue,
// unless it is stopped.
func (n *Network) runInOrder(by fabric.Time) {
	for !n.stop.Load() && n.failure() == nil {
		first, at := n.firstControl(), fabric.Time(math.MaxInt64)
		if first != nil {
			at = first.controls[0].at
		}
		var packets *region
		least := event{at: at}
		for _, r := range n.regions {
			if e, ok := r.queue.first(); ok && e.before(least) {
				packets, least = r, e
			}
		}
		switch {
		case least.at > by || packets == nil && first == nil:
			return
		case packets != nil:
			n.setNow(least.at)
			packets.packet(packets.queue.pop())
		default:
			n.setNow(at)
			first.control(first.controls.Pop())
		}
	}
}

// regionTeam is the goroutines that simulate regions, as long as RunSteps runs.
type regionTeam struct {
	n         *Network
	windowEnd fabric.Time
	over      atomic.Bool // no window more

	_       [64]byte     // what follows is written often, by all
	next    atomic.Int64 // number of the window << 32 | regions taken in it
	_       [64]byte
	done    atomic.Int64 // regions whose window is over
	_       [64]byte
	members []member // the other goroutines
	wait    sync.WaitGroup
}

type member struct {
	asleep atomic.Bool
	wake   chan struct{}
}

const takenMask = 1<<32 - 1

// A goroutine that waits for another spins, for a window is short, yields when
// that takes long, and sleeps in the end.
const (
	spinLimit  = 20_000
	yieldLimit = 200
)

func (n *Network) startTeam() *regionTeam {
	t := &regionTeam{n: n, members: make([]member, n.cores-1)}
	for i := range t.members {
		m := &t.members[i]
		m.wake = make(chan struct{}, 1)
		t.wait.Go(func() { t.serve(m) })
	}
	return t
}

// disperse ends the team's goroutines.
func (t *regionTeam) disperse() {
	t.over.Store(true)
	t.begin()
	t.wait.Wait()
}

// begin makes the regions of the next window available to the goroutines.
func (t *regionTeam) begin() {
	t.done.Store(0)
	t.next.Store((t.next.Load()>>32 + 1) << 32)
	for i := range t.members {
		if m := &t.members[i]; m.asleep.CompareAndSwap(true, false) {
			m.wake <- struct{}{}
		}
	}
}

// take simulates regions through the window until all are taken.
func (t *regionTeam) take() {
	for {
		k := t.next.Add(1)&takenMask - 1
		if k >= int64(len(t.n.regions)) || t.over.Load() {
			return
		}
		t.n.regions[k].window(t.windowEnd)
		t.done.Add(1)
	}
}

// window has all regions run up to a time, that included.
func (t *regionTeam) window(by fabric.Time) {
	n := t.n
	n.parity ^= 1
	n.by, t.windowEnd = by, by
	for _, r := range n.regions {
		r.concurrent, r.firstCrossing, r.eventsBefore = true, math.MaxInt64, r.events
	}
	t.begin()
	t.take()
	for tries := 0; t.done.Load() != int64(len(n.regions)); tries++ {
		if tries > spinLimit {
			runtime.Gosched()
		}
	}
	n.shares.Windows++
	longest := int64(0)
	for _, r := range n.regions {
		r.concurrent = false
		longest = max(longest, r.events-r.eventsBefore)
		n.concurrent += r.events - r.eventsBefore
	}
	n.shares.Longest += longest
}

func (r *region) window(by fabric.Time) {
	r.receiveCrossings(r.net.parity ^ 1)
	for r.err == nil && r.step(by) {
	}
}

// serve is one of the other goroutines.
func (t *regionTeam) serve(m *member) {
	for window := int64(1); ; window++ {
		// It may come late, when the window is over and the next has begun.
		for tries := 0; t.next.Load()>>32 < window; tries++ {
			switch {
			case tries < spinLimit:
			case tries < spinLimit+yieldLimit:
				runtime.Gosched()
			default:
				m.asleep.Store(true)
				if t.next.Load()>>32 >= window && m.asleep.CompareAndSwap(true, false) {
					break
				}
				<-m.wake
			}
		}
		window = t.next.Load() >> 32
		t.take()
		if t.over.Load() {
			return
		}
	}
}
