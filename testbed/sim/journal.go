package sim

import (
	"errors"
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// ErrLookahead is wrapped by Run's error when a function of [Network.Serially]
// asks for something sooner than regions that run side by side can do it.
var ErrLookahead = errors.New("sim: too soon for regions side by side")

// entry is something in a region's window that the rest of the network must
// take notice of in the order of events: what one core would do at once is done
// after the window, sorted.
type entry struct {
	// The event in which it happened.
	at  fabric.Time
	tie uint64
	by  *control // instead of tie, for a control function

	what entryKind
	c    *control          // scheduled, or run
	f    func(fabric.Time) // of Serially
}

type entryKind uint8

const (
	entryScheduled entryKind = iota // a control function, which needs its number
	entryRan                        // a control function, which goes into the event log
	entrySerial
)

func (r *region) note(what entryKind, c *control, f func(fabric.Time)) {
	r.journal = append(r.journal, entry{at: r.now, tie: r.tie, by: r.by, what: what, c: c, f: f})
}

// before orders events of different regions, as one queue would have
// it: the time, control functions in sequence, then what kind of event at which
// entity.
func (e *entry) before(o *entry) bool {
	switch {
	case e.at != o.at:
		return e.at < o.at
	case e.by != nil && o.by != nil:
		return e.by.sequence < o.by.sequence
	case e.by != nil || o.by != nil:
		return e.by != nil
	}
	return e.tie < o.tie
}

// mergeJournals carries out what the journals of a window hold. Each is in its
// region's order of events, and of the first entries the least one is the next
// that one core would have come to.
func (n *Network) mergeJournals() {
	for {
		var least *region
		for _, r := range n.regions {
			if r.merged < len(r.journal) &&
				(least == nil || r.journal[r.merged].before(&least.journal[least.merged])) {
				least = r
			}
		}
		if least == nil {
			break
		}
		e := &least.journal[least.merged]
		least.merged++
		n.now = e.at
		switch e.what {
		case entryScheduled:
			e.c.sequence = n.sequence
			n.sequence++
		case entryRan:
			n.recordControl(e.at, e.c.sequence)
		case entrySerial:
			n.settling = true
			e.f(e.at)
			n.settling = false
		}
	}
	for _, r := range n.regions {
		clear(r.journal)
		r.journal, r.merged, r.scheduled = r.journal[:0], 0, 0
	}
}

// Serially runs f, called from an event of a node, so that it can touch what
// belongs to no node: at once, or, when regions run side by side, after a window
// of time, in the order in which one core would have run it. f may call At and
// Note, and nothing else that changes the network; what it schedules must be
// [Network.Lookahead] or more away.
func (n *Network) Serially(node fabric.NodeID, f func(now fabric.Time)) {
	r := n.regionOf(node)
	if r.concurrent {
		r.note(entrySerial, nil, f)
		return
	}
	f(r.now)
}

// At runs f at a time, before that picosecond's packets; functions for the same
// time run in the order in which they were scheduled. A time that has passed
// means now. It may be called from hooks and from other control functions, and
// from events of nodes by way of [Network.Serially].
func (n *Network) At(at fabric.Time, f func(now fabric.Time)) {
	at = max(at, n.Now())
	if n.settling && at <= n.by {
		n.regions[0].fail(fmt.Errorf("%w: a function for %v scheduled at %v; the look-ahead is %v",
			ErrLookahead, at, n.now, n.lookahead))
	}
	n.world.controls.Push(&control{at, n.sequence, f})
	n.sequence++
}

// AtNode is At for a function that concerns one node alone: that touches nothing
// else, save by [Network.Serially]. It may also be called from the node's events.
func (n *Network) AtNode(node fabric.NodeID, at fabric.Time, f func(now fabric.Time)) {
	r := n.regionOf(node)
	c := &control{max(at, r.now), n.sequence, f}
	if r.concurrent {
		// Above all that were scheduled before the window. The number that one
		// core would have given it comes after the window.
		c.sequence += r.scheduled
		r.scheduled++
		r.note(entryScheduled, c, nil)
	} else {
		n.sequence++
	}
	r.controls.Push(c)
}
