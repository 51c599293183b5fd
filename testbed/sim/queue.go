package sim

import (
	"math/bits"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// event is something due at a time. tie orders events of one time; it holds
// what the event is (see eventOf), so an event is two words and no pointer.
type event struct {
	at  fabric.Time
	tie uint64
}

func (e event) before(o event) bool {
	return e.at < o.at || e.at == o.at && e.tie < o.tie
}

func (e event) compare(o event) int {
	switch {
	case e.before(o):
		return -1
	case o.before(e):
		return 1
	}
	return 0
}

// Kinds of events, in their order within one picosecond.
type eventKind uint8

const (
	eventArrive eventKind = iota + 1 // entity: the link direction whose oldest packet arrives
	eventReady                       // entity: the link direction whose port has sent a packet and has more
	eventPoll                        // the entity is a host from which a packet is requested
	eventWatch                       // the entity is a link direction whose PFC watchdog checks its port
)

const entityBits = 28

// eventOf packs an event: kind, entity (28 bits), argument (32 bits).
func eventOf(at fabric.Time, kind eventKind, entity, arg uint32) event {
	return event{at, uint64(kind)<<60 | uint64(entity)<<32 | uint64(arg)}
}

func (e event) kind() eventKind { return eventKind(e.tie >> 60) }
func (e event) entity() uint32  { return uint32(e.tie>>32) & (1<<entityBits - 1) }
func (e event) arg() uint32     { return uint32(e.tie) }

// quadHeap is a 4-ary min-heap: half the levels of a binary one, and four children
// fill one cache line.
type quadHeap []event

func (h *quadHeap) push(e event) {
	s := append(*h, e)
	*h = s
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(s[parent]) {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = e
}

func (h *quadHeap) pop() event {
	s := *h
	top := s[0]
	n := len(s) - 1
	e := s[n]
	s = s[:n]
	*h = s
	if n == 0 {
		return top
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= n {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, n); c++ {
			if s[c].before(s[least]) {
				least = c
			}
		}
		if !s[least].before(e) {
			break
		}
		s[i] = s[least]
		i = least
	}
	s[i] = e
	return top
}

// The wheel's geometry: a quarter of a nanosecond a bucket, 4.2 us in all, which
// holds every event but timers: a packet arrives within propagation plus
// serialisation. In a fabric of 512 hosts a bucket has about 20 events.
const (
	bucketShift = 8 // a bucket is 256 ps
	timeBuckets = 1 << 14
)

// queue is the pending events. Those of the bucket of time being worked on lie
// sorted in a run; what is pushed into that bucket later is in a small heap. Those of the next
// microseconds are unsorted in a wheel of buckets, the rest in a second heap. So a
// push is a list insertion for nearly every event, and a pop takes the next of the
// run.
//
// BenchmarkQueue compares it with a 4-ary heap and a radix heap on the delays of
// a fabric: it takes about a third of their time at a thousand pending events,
// half at 16,000, and never more than the heap. Only the radix heap at a quarter
// of a million is faster; a link direction has one pending event, so a network
// of 32,768 hosts stays below that.
type queue struct {
	bucketEvents []event  // events of the current bucket, in order
	taken        int      // of them, taken
	pushedLate   quadHeap // events of buckets up to current that were pushed since
	beyondWheel  quadHeap // events that were beyond the wheel when pushed
	bucket       int64    // current bucket, counted from time 0
	count        int      // events in the wheel

	heads    [timeBuckets]uint32
	occupied [timeBuckets / 64]uint64 // a bit per bucket
	nodes    []wheelNode              // 0 is no node
	free     uint32
}

type wheelNode struct {
	event
	next uint32
}

func (q *queue) len() int {
	return len(q.bucketEvents) - q.taken + len(q.pushedLate) + len(q.beyondWheel) + q.count
}

func (q *queue) push(e event) {
	b := int64(e.at) >> bucketShift
	switch ahead := b - q.bucket; {
	case ahead <= 0:
		q.pushedLate.push(e)
	case ahead >= timeBuckets:
		q.beyondWheel.push(e)
	default:
		n := q.free
		if n == 0 {
			if len(q.nodes) == 0 {
				q.nodes = make([]wheelNode, 1, 1024)
			}
			q.nodes = append(q.nodes, wheelNode{})
			n = uint32(len(q.nodes) - 1)
		} else {
			q.free = q.nodes[n].next
		}
		slot := b & (timeBuckets - 1)
		q.nodes[n] = wheelNode{e, q.heads[slot]}
		q.heads[slot] = n
		q.occupied[slot/64] |= 1 << (slot % 64)
		q.count++
	}
}

// ready sees to it that the current bucket has events. It reports false when there
// are none at all.
func (q *queue) ready() bool {
	return q.taken < len(q.bucketEvents) || len(q.pushedLate) > 0 || q.advance()
}

// peek returns when the next event is due. ok is false when there is none.
func (q *queue) peek() (at fabric.Time, ok bool) {
	e, ok := q.first()
	return e.at, ok
}

// first returns the next event. ok is false when there is none.
func (q *queue) first() (e event, ok bool) {
	if !q.ready() {
		return e, false
	}
	if q.lateFirst() {
		return q.pushedLate[0], true
	}
	return q.bucketEvents[q.taken], true
}

// lateFirst reports whether the next event is a late one; there must be one of
// some sort.
func (q *queue) lateFirst() bool {
	return len(q.pushedLate) > 0 && (q.taken == len(q.bucketEvents) || q.pushedLate[0].before(q.bucketEvents[q.taken]))
}

// pop takes the next event; there must be one.
func (q *queue) pop() event {
	if !q.ready() || q.lateFirst() {
		return q.pushedLate.pop()
	}
	e := q.bucketEvents[q.taken]
	q.taken++
	return e
}

// advance moves to the next bucket that has events. It reports false when
// there is none.
func (q *queue) advance() bool {
	next, ok := q.nextOccupied()
	if len(q.beyondWheel) > 0 {
		if b := int64(q.beyondWheel[0].at) >> bucketShift; !ok || b < next {
			next, ok = b, true
		}
	}
	if !ok {
		return false
	}
	q.bucket = next
	run := q.bucketEvents[:0]
	slot := next & (timeBuckets - 1)
	for n := q.heads[slot]; n != 0; {
		node := &q.nodes[n]
		run = append(run, node.event)
		following := node.next
		node.next = q.free
		q.free = n
		n = following
		q.count--
	}
	q.heads[slot] = 0
	q.occupied[slot/64] &^= 1 << (slot % 64)
	for len(q.beyondWheel) > 0 && int64(q.beyondWheel[0].at)>>bucketShift <= next {
		run = append(run, q.beyondWheel.pop())
	}
	sortEvents(run)
	q.bucketEvents, q.taken = run, 0
	return true
}

// maxInsertionSort is how many events are sorted by insertion.
const maxInsertionSort = 24

func sortEvents(events []event) {
	if len(events) > maxInsertionSort {
		slices.SortFunc(events, event.compare)
		return
	}
	for i := 1; i < len(events); i++ {
		e := events[i]
		k := i
		for ; k > 0 && e.before(events[k-1]); k-- {
			events[k] = events[k-1]
		}
		events[k] = e
	}
}

// nextOccupied finds the first bucket after the current one with events in the
// wheel.
func (q *queue) nextOccupied() (int64, bool) {
	if q.count == 0 {
		return 0, false
	}
	const words = timeBuckets / 64
	start := (q.bucket + 1) & (timeBuckets - 1)
	word := start / 64
	mask := ^uint64(0) << (start % 64)
	for range words + 1 {
		if set := q.occupied[word] & mask; set != 0 {
			slot := word*64 + int64(bits.TrailingZeros64(set))
			ahead := (slot - start) & (timeBuckets - 1)
			return q.bucket + 1 + ahead, true
		}
		mask = ^uint64(0)
		word = (word + 1) % words
	}
	return 0, false
}
