package flow

import (
	"github.com/ethereal-fabric/ethereal/fabric"
)

// eventKind is the kind of an event. The comments describe the event's field a.
type eventKind uint8

const (
	onAlarm   eventKind = iota // a host's core is due for a tick: the host
	onStart                    // a queue pair starts: the piece, as in the next ones
	onArrived                  // its last byte has arrived
	onSent                     // its last acknowledgement has arrived
)

// event is due at a time; simultaneous events are in the order in which they were added.
type event struct {
	at   fabric.Time
	seq  uint64
	kind eventKind
	a    int32
}

// Before orders events by time, then as they were added.
func (e event) Before(o event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// at adds an event.
func (w *world) at(t fabric.Time, kind eventKind, a int32) {
	w.seq++
	w.events.Push(event{t, w.seq, kind, a})
}
