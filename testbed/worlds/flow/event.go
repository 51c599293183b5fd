package flow

import (
	"container/heap"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// eventKind is what happens. The comments say what an event's a is then.
type eventKind uint8

const (
	onCut       eventKind = iota // a link goes down or comes up: which of the scenario's events
	onDetect                     // the switches at its ends notice: likewise
	onIntervene                  // something else happens: which of the scenario's interventions
	onCall                       // whatever was asked for: which of world.calls
	onAlarm                      // a host's core is to be ticked: the host
	onStart                      // a queue pair starts: the piece, as below
	onArrived                    // its last byte is there
	onSent                       // its last acknowledgement is back
	onExpire                     // its retransmission timer
	onLate                       // the answer to its last packet is late
	onAnswered                   // the receiver has answered a packet behind what was lost
)

// event is due at a time; of equal times, the one noted first.
type event struct {
	at   fabric.Time
	seq  uint64
	kind eventKind
	a    int32
	b    uint32 // of a piece its turn: of another one nothing comes
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

// at notes an event.
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
