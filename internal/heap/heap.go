// Package heap is a priority queue of any type.
package heap

// Ordered is the type of a heap's elements.
type Ordered[T any] interface {
	// Before reports whether the element leaves the heap before o. Equal elements leave in any order.
	Before(o T) bool
}

// Heap is a binary heap: element 0 is the next one. The zero Heap is empty and ready to use.
type Heap[T Ordered[T]] []T

// Push adds x to the heap.
func (h *Heap[T]) Push(x T) {
	*h = append(*h, x)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].Before(s[up]) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

// Pop removes and returns the next element of a heap that is not empty.
func (h *Heap[T]) Pop() T {
	s := *h
	last := len(s) - 1
	next := s[0]
	s[0] = s[last]
	clear(s[last:]) // so that the heap keeps nothing alive
	*h = s[:last]
	h.down(0)
	return next
}

// Init makes a heap of elements in any order.
func (h *Heap[T]) Init() {
	for i := len(*h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *Heap[T]) down(i int) {
	for s := *h; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s); child++ {
			if s[child].Before(s[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
