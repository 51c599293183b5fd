package replay

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Window is the part of a log for a run.
type Window struct {
	// From is the time of the run's start, from the log's first record. The links' states at that time are those at
	// the run's time 0.
	From time.Duration
	// Speed is the ratio of the log's time to the run's time; 0: 1.
	Speed float64
	// Detection is the delay after a cut until the switches at a link's ends notice.
	Detection fabric.Time
	// Deadline is the run's: later events are left out.
	Deadline fabric.Time
}

// Case is the content of a log as the events of a failure case, with counts of what it has and leaves out.
type Case struct {
	Events         []scenario.Event // in order of time
	Links, Control int              // number of events of links, and of the control plane
	Before, After  int              // changes before the window, summed up at its start, and after it, left out
}

// Case returns the events within a window. It returns an error that wraps [ErrLog] for a window without link
// changes.
func (l *Log) Case(w Window) (Case, error) {
	speed := w.Speed
	if speed == 0 {
		speed = 1
	}
	switch {
	case !(speed > 0) || speed > 1e9:
		return Case{}, fmt.Errorf("%w: speed %v is not a number above 0", ErrLog, w.Speed)
	case w.From < 0:
		return Case{}, fmt.Errorf("%w: from: %v is before the log's first record", ErrLog, w.From)
	case w.Detection < 0 || w.Deadline <= 0:
		return Case{}, fmt.Errorf("%w: detection %v, deadline %v: the one is below 0, or the other not above", ErrLog, w.Detection, w.Deadline)
	}
	var out Case
	begin := changeSum{down: map[fabric.LinkID]bool{}, drained: map[fabric.LinkID]bool{}}
	var within []eventChange
	for _, c := range l.changes {
		at := float64(c.after-w.From) / speed * float64(fabric.Nanosecond)
		switch {
		case c.after < w.From:
			begin.apply(c)
			out.Before++
		case at >= float64(w.Deadline):
			out.After++
		default:
			within = append(within, c)
		}
	}
	for _, c := range append(begin.changes(w.From), within...) {
		at := fabric.Time(float64(c.after-w.From) / speed * float64(fabric.Nanosecond))
		out.Events = append(out.Events, c.event(at, l.f, w.Detection))
		if c.do == "" {
			out.Links++
		} else {
			out.Control++
		}
	}
	if out.Links > 0 {
		return out, nil
	}
	first, ok := l.First()
	if !ok {
		return Case{}, fmt.Errorf("%w: no link goes down in the whole log", ErrLog)
	}
	end := w.From + time.Duration(float64(w.Deadline/fabric.Nanosecond)*speed)
	return Case{}, fmt.Errorf("%w: no link is down or changes between %v and %v of the log; the first goes down at %v", ErrLog, w.From, end, first)
}

// event converts a change to a scenario's event.
func (c eventChange) event(at fabric.Time, f *fabric.Fabric, detection fabric.Time) scenario.Event {
	e := scenario.Event{At: at, Action: c.do}
	switch c.do {
	case scenario.Drain, scenario.Undrain:
		e.Link = f.LinkName(c.link)
	case "":
		e.Link, e.Action, e.Detection = f.LinkName(c.link), scenario.Cut, detection
		if c.up {
			e.Action = scenario.Restore
		}
	}
	return e
}

// changeSum is the sum of changes.
type changeSum struct {
	down, drained map[fabric.LinkID]bool
	ended         bool // the controller has ended
}

func (s *changeSum) apply(c eventChange) {
	switch c.do {
	case scenario.ControllerDown:
		s.ended = true
	case scenario.ControllerUp:
		s.ended = false
		clear(s.drained) // it logs again what it remembers
	case scenario.Drain, scenario.Undrain:
		s.drained[c.link] = c.do == scenario.Drain
	default:
		s.down[c.link] = !c.up
	}
}

// changes returns the changes that lead from a healthy fabric to the state.
func (s *changeSum) changes(at time.Duration) []eventChange {
	var out []eventChange
	for id, down := range s.down {
		if down {
			out = append(out, eventChange{after: at, link: id})
		}
	}
	for id, drained := range s.drained {
		if drained {
			out = append(out, eventChange{after: at, do: scenario.Drain, link: id})
		}
	}
	slices.SortFunc(out, func(a, b eventChange) int { return cmp.Or(cmp.Compare(a.do, b.do), cmp.Compare(a.link, b.link)) })
	if s.ended {
		out = append(out, eventChange{after: at, do: scenario.ControllerDown})
	}
	return out
}
