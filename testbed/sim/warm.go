package sim

// A large fabric's links, packets and tables do not fit a core's caches, and an
// event reads a dozen places that depend on each other: the link, then its oldest
// packet, then what the packet needs in its switch. One after the other, each
// waits for memory. The next events of the queue's run are known, and independent:
// so their links are read first, one right after the other, then their packets, and
// the processor waits for all of them at once.

// warmAhead is how many events are read for at a time: as many as the processor
// can wait for at once, and few enough for its first cache.
const warmAhead = 16

// warm reads what the next events of the queue's run will read. It changes nothing.
func (r *region) warm() {
	q := &r.queue
	from := q.warmed
	q.warmed = min(len(q.run), from+warmAhead)
	next := q.run[from:q.warmed]
	if len(next) < 2 {
		return
	}
	sum := uint64(0) // of what is read, or the compiler would leave it out
	for _, e := range next {
		switch e.kind() {
		case eventArrive:
			sum += uint64(r.arrivals[e.entity()].flight.head)
		case eventReady:
			d := &r.dirs[e.entity()]
			sum += uint64(d.nonEmpty) + uint64(d.queues.classes[0].head) + uint64(d.counters.DataPackets)
		case eventPoll:
			sum += uint64(r.ports[e.entity()].out)
		}
	}
	for _, e := range next {
		id := packetID(0)
		switch e.kind() {
		case eventArrive:
			id = r.arrivals[e.entity()].flight.head
		case eventReady:
			d := &r.dirs[e.entity()]
			if id = d.queues.classes[1].head; id == 0 {
				id = d.queues.classes[0].head
			}
		case eventPoll:
			sum += uint64(r.dirs[r.ports[e.entity()].out].busyUntil)
		}
		if id != 0 {
			p := r.pool.at(id)
			sum += uint64(p.next) + uint64(p.data[cacheLine-packetHead])
		}
	}
	r.warmth += sum
}

const (
	cacheLine  = 64 // bytes
	packetHead = 56 // bytes of a packet before its data
)
