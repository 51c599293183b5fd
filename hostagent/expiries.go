package hostagent

import (
	"iter"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// expiries are the ends of memories. They are in order of time without sorting, since every memory is equally long
// and time does not go backwards. An end counts only if the memory was not renewed since.
type expiries[T any] struct {
	items []expiry[T]
	head  int
}

type expiry[T any] struct {
	at fabric.Time
	of T
}

func (e *expiries[T]) push(at fabric.Time, of T) { e.items = append(e.items, expiry[T]{at, of}) }

func (e *expiries[T]) pop() {
	e.items[e.head] = expiry[T]{}
	e.head++
	// Move the rest to the front once that halves the slice.
	if e.head*2 >= len(e.items) {
		n := copy(e.items, e.items[e.head:])
		clear(e.items[n:])
		e.items, e.head = e.items[:n], 0
	}
}

// due removes the ends until now, and yields the current ones.
func (e *expiries[T]) due(now fabric.Time, current func(fabric.Time, T) bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		for e.head < len(e.items) && e.items[e.head].at <= now {
			item := e.items[e.head]
			e.pop()
			if current(item.at, item.of) && !yield(item.of) {
				return
			}
		}
	}
}

// next returns the first current end; Never: there is none.
func (e *expiries[T]) next(current func(fabric.Time, T) bool) fabric.Time {
	for e.head < len(e.items) {
		if item := e.items[e.head]; current(item.at, item.of) {
			return item.at
		}
		e.pop()
	}
	return fabric.Never
}

func (e *expiries[T]) rebase(now fabric.Time) {
	for i := range e.items {
		e.items[i].at = e.items[i].at.Rebase(now)
	}
}
