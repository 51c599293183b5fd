package flow

import (
	"container/heap"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// eventKind is what happens. The comments say what an event's a is then.
type eventKind uint8

const (
	onCut     eventKind = iota // a link goes down or comes up: which of the scenario's events
	onTold                     // whoever moves queue pairs knows of it: likewise; b is 1 if from the controller
	onAlarm                    // a host's core is to be ticked: the host
	onStart                    // a queue pair starts: the piece
	onArrived                  // its last byte is there: the piece
	onSent                     // its last acknowledgement is back: the piece
	onTimer                    // it times out: the host
	onResume                   // a flow goes on where it stood still: the flow
)

// event is due at a time; of equal times, the one noted first.
type event struct {
	at   fabric.Time
	seq  uint64
	kind eventKind
	a    int32
	b    uint32 // the queue pair, of timers and of what goes on
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
