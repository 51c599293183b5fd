package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// Record is one line of the event log. Fields that say nothing are left out.
type Record struct {
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind"` // port, believed, link, drain, report, suspect, phase, health, verdict, change, repair, refused, settled, start, end
	Switch string    `json:"switch,omitempty"`
	Port   int       `json:"port,omitempty"`
	Link   string    `json:"link,omitempty"`
	Host   string    `json:"host,omitempty"`
	To     string    `json:"to,omitempty"` // ToR
	Label  int       `json:"label,omitempty"`
	Up     *bool     `json:"up,omitempty"`
	Held   bool      `json:"held,omitempty"` // not believed, since it flaps
	Epoch  uint64    `json:"epoch,omitempty"`
	State  string    `json:"state,omitempty"`
	Count  int       `json:"count,omitempty"` // updates
	Millis float64   `json:"ms,omitempty"`
	Error  string    `json:"error,omitempty"`
}

// EventLog writes what happened as JSON, a line each. It is safe for concurrent
// use. [Replay] leads a core through it again.
type EventLog struct {
	mu  sync.Mutex
	enc *json.Encoder
	err error
}

// NewEventLog returns a log that writes to w.
func NewEventLog(w io.Writer) *EventLog { return &EventLog{enc: json.NewEncoder(w)} }

// add writes a record. After an error nothing is written any more.
func (l *EventLog) add(r Record) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = l.enc.Encode(r)
	}
}

// Err returns why the log stopped, or nil.
func (l *EventLog) Err() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Replay leads a core through what an event log says another one was told, at the
// log's times from its first record on: ports that were believed, drains,
// suspicions. The core then has the tables of the one that wrote the log, and step,
// if not nil, is called after each change to look at what it wants done. A log of
// several runs begins anew with each, with a core from fresh.
func Replay(r io.Reader, fresh func() (*controller.Core, error), step func(*controller.Core)) (*controller.Core, error) {
	core, err := fresh()
	if err != nil {
		return nil, err
	}
	f := core.Fabric()
	dec := json.NewDecoder(r)
	var began time.Time
	for n := 1; ; n++ {
		var rec Record
		if err := dec.Decode(&rec); errors.Is(err, io.EOF) {
			return core, nil
		} else if err != nil {
			return nil, fmt.Errorf("daemon: event log: record %d: %w", n, err)
		}
		if began.IsZero() || rec.Kind == "start" {
			began = rec.Time
		}
		at := fabric.Time(rec.Time.Sub(began).Nanoseconds()) * fabric.Nanosecond
		var node fabric.NodeID
		var link fabric.LinkID
		switch rec.Kind {
		case "start":
			core, err = fresh()
		case "believed":
			if node, err = f.NodeByName(rec.Switch); err == nil {
				err = core.PortState(at, node, fabric.PortNo(rec.Port), rec.Up != nil && *rec.Up)
			}
		case "drain":
			if link, err = f.LinkByName(rec.Link); err == nil {
				err = core.Drain(at, link, rec.Up == nil || !*rec.Up)
			}
		case "suspect":
			if link, err = f.LinkByName(rec.Link); err == nil {
				err = core.Suspect(at, link, rec.State != "cleared", rec.State == "confirmed")
			}
		default:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("daemon: event log: record %d: %w", n, err)
		}
		if step != nil {
			step(core)
		}
	}
}
