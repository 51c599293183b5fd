package bound

import (
	"cmp"
	"math"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/heap"
)

// Graph is the order of a collective's messages and computations. Its nodes are moments: a moment comes when all
// messages and waits that lead to it are over. What leads to no moment ends the collective.
type Graph struct {
	Moments  int
	Messages []Message
	Waits    []Wait
}

// Never is a number that no moment has.
const Never = -1

// Message is a message of a [Graph].
type Message struct {
	Transfer
	Posted   int32 // the moment at which it is posted
	Received int32 // the moment that waits for its last byte at the receiver, or Never
	Acked    int32 // the moment that waits for the sender's last acknowledgement, or Never
}

// Wait is a time that passes between two moments: a computation, or none.
type Wait struct {
	From, To int32
	Time     fabric.Time
}

// Steps returns a bound that takes the messages' order into account: no run that carries out the graph ends earlier.
// It starts at 0. Steps returns math.MaxInt64 if the graph cannot end: all links of a cut are out for good, or moments
// wait for each other.
//
// # Derivation
//
// Every message has a head, the earliest time at which it is posted, and a tail, the least time from its arrival to
// the end. Heads follow the graph from its start. A moment comes no earlier than
//
//   - the moment before it, and the time between the two;
//   - the arrival of each message that it waits for: its head, the time to cross each cut alone, and latencies;
//   - the arrival of all of them together. They share the receiver's link, and its ToR's and pod's if these have less
//     capacity than a host. So do the messages that the same rank waited for at earlier moments.
//
// Tails follow the graph from its end in the same way with the senders' links, at the largest capacity that a cut
// has from the moment's head on.
//
// Then every cut alone is a machine that carries out jobs, whose heads, sizes and tails are those of the messages
// that cross it. No schedule of the fabric ends earlier than the best of this machine. As jobs may be interrupted, the
// best is to carry out the job with the longest tail first (Horn, 1974, with heads as release times and tails as due
// dates).
func Steps(f *fabric.Fabric, g Graph, format Format, outages []Outage) fabric.Time {
	s := steps{cuts: newCuts(f, format, outages), Graph: g}
	if !s.sort() {
		return math.MaxInt64
	}
	if s.fillHeads(); slices.Contains(s.head, math.MaxInt64) {
		return math.MaxInt64
	}
	s.fillTails()
	end := fabric.Time(0)
	for m := range s.head {
		end = max(end, addTimes(s.head[m], s.tail[m]))
	}
	return max(end, s.largestCutBound())
}

type steps struct {
	cuts
	Graph
	order []int32 // all moments, each after those that it waits for

	posted, received, acked, from, to momentIndex // of messages, and of waits

	head, tail []fabric.Time
}

// momentIndex lists numbers by moment.
type momentIndex struct{ start, list []int32 }

func (x momentIndex) of(m int32) []int32 { return x.list[x.start[m]:x.start[m+1]] }

// newIndex sorts the numbers 0 to n-1 by moment; those of no moment are left out.
func newIndex(moments, n int, moment func(i int) int32) momentIndex {
	x := momentIndex{start: make([]int32, moments+1)}
	for i := range n {
		if m := moment(i); m >= 0 {
			x.start[m+1]++
		}
	}
	for m := range moments {
		x.start[m+1] += x.start[m]
	}
	x.list = make([]int32, x.start[moments])
	next := slices.Clone(x.start[:moments])
	for i := range n {
		if m := moment(i); m >= 0 {
			x.list[next[m]] = int32(i)
			next[m]++
		}
	}
	return x
}

// sort fills the order and the indices; ok is false if moments wait for each other.
func (s *steps) sort() (ok bool) {
	messages := func(moment func(m *Message) int32) momentIndex {
		return newIndex(s.Moments, len(s.Messages), func(i int) int32 { return moment(&s.Messages[i]) })
	}
	s.posted = messages(func(m *Message) int32 { return m.Posted })
	s.received = messages(func(m *Message) int32 { return m.Received })
	s.acked = messages(func(m *Message) int32 { return m.Acked })
	s.from = newIndex(s.Moments, len(s.Waits), func(i int) int32 { return s.Waits[i].From })
	s.to = newIndex(s.Moments, len(s.Waits), func(i int) int32 { return s.Waits[i].To })

	open := make([]int, s.Moments) // what each moment still waits for
	for m := range int32(s.Moments) {
		if open[m] = len(s.received.of(m)) + len(s.acked.of(m)) + len(s.to.of(m)); open[m] == 0 {
			s.order = append(s.order, m)
		}
	}
	for i := 0; i < len(s.order); i++ {
		reach := func(m int32) {
			if m >= 0 {
				if open[m]--; open[m] == 0 {
					s.order = append(s.order, m)
				}
			}
		}
		for _, n := range s.posted.of(s.order[i]) {
			reach(s.Messages[n].Received)
			reach(s.Messages[n].Acked)
		}
		for _, n := range s.from.of(s.order[i]) {
			reach(s.Waits[n].To)
		}
	}
	return len(s.order) == s.Moments
}

// fillHeads fills the heads.
func (s *steps) fillHeads() {
	s.head = make([]fabric.Time, s.Moments)
	before := make([]share, s.Moments) // what the rank of each moment has received
	var together cutGroup
	for _, m := range s.order {
		head, own := fabric.Time(0), share{host: Never}
		for _, i := range s.to.of(m) {
			w := s.Waits[i]
			head = max(head, addTimes(s.head[w.From], w.Time))
			if b := before[w.From]; own.host == Never || b.link.end > own.link.end {
				own = b
			}
		}
		for _, i := range s.acked.of(m) {
			t := s.Messages[i].Transfer
			head = max(head, addTimes(s.earliestArrival(t, s.head[s.Messages[i].Posted]), s.latency(t.Src, t.Dst).ack))
		}
		together.clear()
		for _, i := range s.received.of(m) {
			t, posted := s.Messages[i].Transfer, s.head[s.Messages[i].Posted]
			head = max(head, s.earliestArrival(t, posted))
			if t.Src == t.Dst || posted == math.MaxInt64 {
				continue
			}
			w := s.latency(t.Src, t.Dst)
			var buf [maxHops]crossingPlace
			for _, at := range s.cutsCrossed(buf[:0], t.Src, t.Dst) {
				in := at.cut == s.f.Hosts()+int(t.Dst)
				if !in && !s.all[at.cut].narrow {
					continue
				}
				pre, post := w.aroundHop(at.hop, t.Bytes)
				j := cutJob{head: posted + pre, bytes: s.format.wire(t.Bytes), tail: post}
				if !in {
					together.of(at.cut).add(j, &s.all[at.cut])
					continue
				}
				if own.host != t.Dst {
					own = share{host: t.Dst}
				}
				own.link.add(j, &s.all[at.cut])
			}
		}
		head = max(head, together.longest())
		if own.host != Never {
			head = max(head, own.link.longest())
		}
		s.head[m], before[m] = head, own
	}
}

// earliestArrival returns the earliest arrival of a message that is posted at a time.
func (s *steps) earliestArrival(t Transfer, posted fabric.Time) fabric.Time {
	if t.Src == t.Dst || posted == math.MaxInt64 {
		return posted
	}
	w, bytes, last := s.latency(t.Src, t.Dst), s.format.wire(t.Bytes), posted
	var buf [maxHops]crossingPlace
	for i, at := range s.cutsCrossed(buf[:0], t.Src, t.Dst) {
		if c := &s.all[at.cut]; i == 0 || c.narrow {
			pre, post := w.aroundHop(at.hop, t.Bytes)
			last = max(last, addTimes(c.drain(bytes, posted+pre), post))
		}
	}
	return last
}

// fillTails fills the tails.
func (s *steps) fillTails() {
	s.tail = make([]fabric.Time, s.Moments)
	after := make([]share, s.Moments) // what the rank of each moment still sends
	for _, m := range slices.Backward(s.order) {
		tail, own := fabric.Time(0), share{host: Never}
		for _, i := range s.from.of(m) {
			w := s.Waits[i]
			tail = max(tail, addTimes(w.Time, s.tail[w.To]))
			if a := after[w.To]; own.host == Never || a.link.end > own.link.end {
				own = a
			}
		}
		for _, i := range s.posted.of(m) {
			t, rest := s.Messages[i].Transfer, s.leastTimeAfter(&s.Messages[i])
			if t.Src == t.Dst {
				tail = max(tail, rest)
				continue
			}
			w, bytes := s.latency(t.Src, t.Dst), s.format.wire(t.Bytes)
			var buf [maxHops]crossingPlace
			for i, at := range s.cutsCrossed(buf[:0], t.Src, t.Dst) {
				c := &s.all[at.cut]
				if i > 0 && !c.narrow {
					continue
				}
				pre, post := w.aroundHop(at.hop, t.Bytes)
				best := constantCapacity(c.fullCapacity.largestRate(s.head[m]))
				if tail = max(tail, addTimes(best.drain(bytes, addTimes(rest, post)), pre)); i > 0 {
					continue
				}
				if own.host == Never {
					own = share{host: t.Src}
				}
				if own.host == t.Src {
					own.link.add(cutJob{head: addTimes(rest, post), bytes: bytes, tail: pre}, &cut{fullCapacity: best})
				}
			}
		}
		if own.host != Never {
			tail = max(tail, own.link.longest())
		}
		s.tail[m], after[m] = tail, own
	}
}

// leastTimeAfter returns the minimum time from a message's arrival to the end.
func (s *steps) leastTimeAfter(m *Message) (rest fabric.Time) {
	if m.Src != m.Dst {
		rest = s.latency(m.Src, m.Dst).ack
	}
	if m.Acked != Never {
		rest = addTimes(rest, s.tail[m.Acked])
	}
	if m.Received != Never {
		rest = max(rest, s.tail[m.Received])
	}
	return rest
}

// largestCutBound returns the largest bound of a cut alone.
func (s *steps) largestCutBound() (end fabric.Time) {
	jobs := make([]jobs, len(s.all))
	for i := range s.Messages {
		m := &s.Messages[i]
		if m.Src == m.Dst {
			continue
		}
		w, rest, posted := s.latency(m.Src, m.Dst), s.leastTimeAfter(m), s.head[m.Posted]
		var buf [maxHops]crossingPlace
		for _, at := range s.cutsCrossed(buf[:0], m.Src, m.Dst) {
			pre, post := w.aroundHop(at.hop, m.Bytes)
			jobs[at.cut].add(cutJob{head: posted + pre, bytes: s.format.wire(m.Bytes), tail: addTimes(post, rest)})
		}
	}
	for i := range jobs {
		end = max(end, jobs[i].best(&s.all[i]))
	}
	return end
}

// addTimes adds times; the largest time stays so.
func addTimes(a, b fabric.Time) fabric.Time {
	if a == math.MaxInt64 || b == math.MaxInt64 {
		return math.MaxInt64
	}
	return a + b
}

// share is the bytes that a rank receives, or sends, over its host's link.
type share struct {
	host fabric.NodeID // Never: nothing yet
	link busyBound
}

// cutGroup is a busy time per cut.
type cutGroup struct {
	cuts []int
	busy []busyBound
}

func (g *cutGroup) clear() { g.cuts, g.busy = g.cuts[:0], g.busy[:0] }

func (g *cutGroup) of(cut int) *busyBound {
	i := slices.Index(g.cuts, cut)
	if i < 0 {
		i = len(g.cuts)
		g.cuts, g.busy = append(g.cuts, cut), append(g.busy, busyBound{})
	}
	return &g.busy[i]
}

func (g *cutGroup) longest() (end fabric.Time) {
	for i := range g.busy {
		end = max(end, g.busy[i].longest())
	}
	return end
}

// busyBound is a lower bound on the time at which a cut has carried jobs: some of them, from the earliest of their
// heads.
type busyBound struct {
	start, end fabric.Time
	bytes      int64
	tail       fabric.Time // the least of theirs
}

func (b *busyBound) add(j cutJob, c *cut) {
	switch {
	case b.bytes == 0 || j.head >= b.end:
		if end := c.drain(j.bytes, j.head); b.bytes == 0 || addTimes(end, j.tail) >= b.longest() {
			*b = busyBound{j.head, end, j.bytes, j.tail}
		}
	default:
		start, tail := min(b.start, j.head), min(b.tail, j.tail)
		if end := c.drain(b.bytes+j.bytes, start); addTimes(end, tail) >= b.longest() {
			*b = busyBound{start, end, b.bytes + j.bytes, tail}
		}
	}
}

func (b *busyBound) longest() fabric.Time { return addTimes(b.end, b.tail) }

func constantCapacity(rate float64) capacity {
	return capacity{at: []fabric.Time{math.MinInt64}, rate: []float64{rate}}
}

// cutJob is a message's demand on a cut.
type cutJob struct {
	head  fabric.Time // when it can begin to cross
	bytes int64       // on the wire
	tail  fabric.Time // the least time from then on until the end
}

// jobs are those of a cut. Those with the same head and tail are one.
type jobs struct {
	list []cutJob
	room int // the length at which the list is merged
}

func (j *jobs) add(n cutJob) {
	const recent = 4
	for i := len(j.list) - 1; i >= max(0, len(j.list)-recent); i-- {
		if o := &j.list[i]; o.head == n.head && o.tail == n.tail {
			o.bytes += n.bytes
			return
		}
	}
	if j.list = append(j.list, n); len(j.list) > j.room {
		j.merge()
		j.room = max(256, 2*len(j.list))
	}
}

func (j *jobs) merge() {
	slices.SortFunc(j.list, func(a, b cutJob) int {
		return cmp.Or(cmp.Compare(a.head, b.head), cmp.Compare(a.tail, b.tail))
	})
	out := j.list[:0]
	for _, n := range j.list {
		if k := len(out) - 1; k >= 0 && out[k].head == n.head && out[k].tail == n.tail {
			out[k].bytes += n.bytes
		} else {
			out = append(out, n)
		}
	}
	j.list = out
}

// best returns the end of the best schedule of the jobs on a cut: among those that can begin, the one with the longest
// tail.
func (j *jobs) best(c *cut) (end fabric.Time) {
	j.merge()
	now, ready := fabric.Time(0), heap.Heap[part]{}
	for i := 0; i < len(j.list) || len(ready) > 0; {
		if len(ready) == 0 {
			now = max(now, j.list[i].head)
		}
		for ; i < len(j.list) && j.list[i].head <= now; i++ {
			ready.Push(part{float64(j.list[i].bytes) * perByte, j.list[i].tail})
		}
		done := c.finish(ready[0].left, now)
		if i < len(j.list) && j.list[i].head < done {
			next := j.list[i].head
			ready[0].left = max(0, ready[0].left-c.fullCapacity.amountBetween(now, next))
			now = next
			continue
		}
		if done == math.MaxInt64 {
			return done
		}
		now = done
		end = max(end, addTimes(now, ready[0].tail))
		ready.Pop()
	}
	return end
}

// part is the unscheduled part of a job.
type part struct {
	left float64 // b/s x ps
	tail fabric.Time
}

// Before puts the longest tail first.
func (p part) Before(o part) bool { return p.tail > o.tail }
