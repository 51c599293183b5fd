package flow

import (
	"container/heap"

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

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// at adds an event.
func (w *world) at(t fabric.Time, kind eventKind, a int32) {
	w.seq++
	heap.Push(&w.events, event{t, w.seq, kind, a})
}
