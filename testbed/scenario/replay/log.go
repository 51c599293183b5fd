package replay

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// ErrLog is wrapped by the errors of this package.
var ErrLog = errors.New("replay")

// Log is the part of a controller's event log that can be replayed.
type Log struct {
	// Cut are the numbers of incomplete records, from a full disk or a power loss, which are left out.
	Cut []int

	f       *fabric.Fabric
	changes []eventChange
}

// eventChange is one event, with its time after the log's first record.
type eventChange struct {
	after time.Duration
	do    scenario.Action // on the control plane; "": on the link
	link  fabric.LinkID
	up    bool
}

// First returns the time when the first link goes down, from the log's first record. ok is false if none does.
func (l *Log) First() (after time.Duration, ok bool) {
	for _, c := range l.changes {
		if c.do == "" {
			return c.after, true
		}
	}
	return 0, false
}

// Read reads a log that was written for a fabric of that shape. It skips records of unknown kinds. Its errors wrap
// [ErrLog] and name the record.
func Read(r io.Reader, f *fabric.Fabric) (*Log, error) {
	l := &Log{f: f}
	down := map[fabric.End]bool{}
	var began, last time.Time
	alive := false
	add := func(at time.Time, c eventChange) {
		c.after = max(at.Sub(began), 0)
		if n := len(l.changes); n > 0 {
			c.after = max(c.after, l.changes[n-1].after) // the clock was set back
		}
		l.changes = append(l.changes, c)
	}
	cut, err := eventlog.Records(r, func(n int, rec eventlog.Record) error {
		if n == 1 {
			began, alive = rec.Time, true
		}
		switch rec.Kind {
		case "start":
			if n > 1 {
				if alive { // killed
					add(last, eventChange{do: scenario.ControllerDown})
				}
				add(rec.Time, eventChange{do: scenario.ControllerUp})
			}
			alive = true
		case "end":
			add(rec.Time, eventChange{do: scenario.ControllerDown})
			alive = false
		case "port":
			if rec.Up == nil {
				return errors.New("up: missing")
			}
			end, id, err := port(f, rec)
			if err != nil {
				return err
			}
			link := f.Link(id)
			was := down[link.A] || down[link.B]
			down[end] = !*rec.Up
			if is := down[link.A] || down[link.B]; is != was {
				add(rec.Time, eventChange{link: id, up: !is})
			}
		case "drain":
			id, err := f.LinkByName(rec.Link)
			if err != nil {
				return fmt.Errorf("%w; is it of this fabric?", err)
			}
			do := scenario.Drain
			if rec.Up != nil && *rec.Up {
				do = scenario.Undrain
			}
			add(rec.Time, eventChange{do: do, link: id})
		}
		last = rec.Time
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLog, err)
	}
	l.Cut = cut
	return l, nil
}

// port returns the link's end in a record.
func port(f *fabric.Fabric, rec eventlog.Record) (fabric.End, fabric.LinkID, error) {
	node, err := f.NodeByName(rec.Switch)
	if err != nil {
		return fabric.End{}, 0, fmt.Errorf("%w; is it of this fabric?", err)
	}
	end := fabric.End{Node: node, Port: fabric.PortNo(rec.Port)}
	id, ok := f.LinkAt(node, end.Port)
	if rec.Port < 1 || rec.Port > f.Node(node).Ports() || !ok {
		return end, 0, fmt.Errorf("%s has no port %d; is it of this fabric?", rec.Switch, rec.Port)
	}
	return end, id, nil
}
