package sim

import (
	"container/heap"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// control is a function of the world's that is to run at a time.
type control struct {
	at       fabric.Time
	sequence uint32 // in which it was scheduled
	f        func(fabric.Time)
}

func (c *control) before(o *control) bool {
	return c.at < o.at || c.at == o.at && c.sequence < o.sequence
}

// controls is a heap of them, the next one first.
type controls []*control

func (h *controls) push(c *control) { heap.Push((*controlHeap)(h), c) }
func (h *controls) pop() *control   { return heap.Pop((*controlHeap)(h)).(*control) }

// controlHeap is controls as package heap wants them.
type controlHeap controls

func (h controlHeap) Len() int           { return len(h) }
func (h controlHeap) Less(i, j int) bool { return h[i].before(h[j]) }
func (h controlHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *controlHeap) Push(x any)        { *h = append(*h, x.(*control)) }

func (h *controlHeap) Pop() any {
	s := *h
	last := len(s) - 1
	c := s[last]
	s[last] = nil
	*h = s[:last]
	return c
}
