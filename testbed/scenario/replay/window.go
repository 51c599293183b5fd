package replay

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Window is the part of a log that a run gets.
type Window struct {
	// From is when the run's collective starts, from the log's first record on. What
	// the links are by then they are at the run's time 0.
	From time.Duration
	// Speed is how much of the log goes by in the same time of the run; 0: 1.
	Speed float64
	// Detection is how much later than the cut the switches at a link's ends know.
	Detection fabric.Time
	// Deadline is the run's: what comes later is left out.
	Deadline fabric.Time
}

// Case is a log as a run takes it.
type Case struct {
	Events         []scenario.Event // in order of time
	Links, Control int              // how many of them are of links, and of the control plane
	Before, After  int              // changes that the window's begin sums up, and that are left out since they come later
}

// Case returns what happens within a window. It returns an error that wraps [ErrLog]
// for a window in which no link changes.
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
	begin := state{down: map[fabric.LinkID]bool{}, drained: map[fabric.LinkID]bool{}}
	var within []change
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

// event returns a change as a scenario has it.
func (c change) event(at fabric.Time, f *fabric.Fabric, detection fabric.Time) scenario.Event {
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

// state is what changes lead to.
type state struct {
	down, drained map[fabric.LinkID]bool
	ended         bool // the controller has
}

func (s *state) apply(c change) {
	switch c.do {
	case scenario.ControllerDown:
		s.ended = true
	case scenario.ControllerUp:
		s.ended = false
		clear(s.drained) // it says again what it remembers
	case scenario.Drain, scenario.Undrain:
		s.drained[c.link] = c.do == scenario.Drain
	default:
		s.down[c.link] = !c.up
	}
}

// changes returns what leads to the state from a fabric where all is well.
func (s *state) changes(at time.Duration) []change {
	var out []change
	for id, down := range s.down {
		if down {
			out = append(out, change{after: at, link: id})
		}
	}
	for id, drained := range s.drained {
		if drained {
			out = append(out, change{after: at, do: scenario.Drain, link: id})
		}
	}
	slices.SortFunc(out, func(a, b change) int { return cmp.Or(cmp.Compare(a.do, b.do), cmp.Compare(a.link, b.link)) })
	if s.ended {
		out = append(out, change{after: at, do: scenario.ControllerDown})
	}
	return out
}
