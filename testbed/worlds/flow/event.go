package flow

import (
	"container/heap"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// eventKind is the kind of an event. The comments describe the event's field a.
type eventKind uint8

const (
	onCut       eventKind = iota // a link goes down or up: index of the scenario's event
	onDetect                     // the switches at its ends notice: likewise
	onIntervene                  // another event: index of the scenario's intervention
	onCall                       // a function call: index in world.calls
	onAlarm                      // a host's core is due for a tick: the host
	onStart                      // a queue pair starts: the piece, as in the next ones
	onArrived                    // its last byte has arrived
	onSent                       // its last acknowledgement has arrived
	onExpire                     // its retransmission timer expires
	onLate                       // the answer to its last packet is late
	onAnswered                   // the receiver has answered a packet behind a lost one
)

// event is due at a time; simultaneous events are in the order in which they were added.
type event struct {
	at   fabric.Time
	seq  uint64
	kind eventKind
	a    int32
	b    uint32 // for a piece its turn: events of other turns are void
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
func (w *world) at(t fabric.Time, kind eventKind, a int32, b uint32) {
	w.seq++
	heap.Push(&w.events, event{t, w.seq, kind, a, b})
}

// call runs a function at a time.
func (w *world) call(t fabric.Time, f func(now fabric.Time)) {
	i := len(w.calls)
	if n := len(w.freeCalls); n > 0 {
		i, w.freeCalls = int(w.freeCalls[n-1]), w.freeCalls[:n-1]
		w.calls[i] = f
	} else {
		w.calls = append(w.calls, f)
	}
	w.at(t, onCall, int32(i), 0)
}

func (w *world) called(i int32) {
	f := w.calls[i]
	w.calls[i], w.freeCalls = nil, append(w.freeCalls, i)
	f(w.clock)
}
