package daemon

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// Record is one line of the event log. Fields that say nothing are left out.
type Record struct {
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind"` // port, link, drain, report, suspect, phase, health, verdict, change, repair, refused, settled, start, end
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
// use. Port events alone, replayed into a controller.Core in their order, give
// its link states again.
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
