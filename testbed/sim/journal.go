package sim

import (
	"errors"
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// ErrLookahead is wrapped by the error of [Network.Run] if a function of [Network.Serially] schedules something earlier
// than [Network.Lookahead] from now.
var ErrLookahead = errors.New("sim: too soon for regions side by side")

// windowEntry is an event in a region's time window that affects the rest of the network. It is processed after the
// window, in the order of events, as with one core.
type windowEntry struct {
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
	entryRan                        // a control function ran: it goes into the event log
	entrySerial
)

func (r *region) note(what entryKind, c *control, f func(fabric.Time)) {
	r.journal = append(r.journal, windowEntry{at: r.now, tie: r.tie, by: r.runningControl, what: what, c: c, f: f})
}

// before orders events of different regions, as one queue would have
// it: the time, control functions in sequence, then what kind of event at which
// entity.
func (e *windowEntry) before(o *windowEntry) bool {
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

// Serially calls f, from an event of a node, so that it may touch data that do not belong to the node: at once or, if
// regions are simulated side by side, after the window of time, in the order in which one core would have called it. f
// may call At and Note, and nothing else that changes the network; what it schedules must be at least
// [Network.Lookahead] later.
func (n *Network) Serially(node fabric.NodeID, f func(now fabric.Time)) {
	r := n.regionOf(node)
	if r.concurrent {
		r.note(entrySerial, nil, f)
		return
	}
	f(r.now)
}

// At calls f at a time, before the packets of that picosecond; functions of the same time are called in the order in
// which they were scheduled. A time in the past means now. At may be called from hooks and control functions, and from
// events of nodes within [Network.Serially].
func (n *Network) At(at fabric.Time, f func(now fabric.Time)) {
	at = max(at, n.Now())
	if n.settling && at <= n.by {
		n.regions[0].fail(fmt.Errorf("%w: a function for %v scheduled at %v; the look-ahead is %v",
			ErrLookahead, at, n.now, n.lookahead))
	}
	n.world.controls.Push(&control{at, n.sequence, f})
	n.sequence++
}

// AtNode is [Network.At] for a function that touches only data of one node, except within [Network.Serially]. It may
// also be called from the node's events.
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
