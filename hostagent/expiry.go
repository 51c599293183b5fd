package hostagent

import "github.com/ethereal-fabric/ethereal/fabric"

// expiry is the end of the memory of a time-out, or, where dst is nil, of what
// quenches said of a link. It counts only if the memory was not renewed since.
type expiry struct {
	at   fabric.Time
	dst  *destination
	path int
	link fabric.LinkID
}

// expiryQueue is ordered by time of itself, for every memory is equally long
// and time does not go backwards.
type expiryQueue struct {
	items []expiry
	head  int
}

func (q *expiryQueue) push(e expiry) { q.items = append(q.items, e) }

func (q *expiryQueue) front() (e expiry, ok bool) {
	if q.head == len(q.items) {
		return expiry{}, false
	}
	return q.items[q.head], true
}

func (q *expiryQueue) pop() {
	q.items[q.head] = expiry{}
	q.head++
	// Move the rest to the front once that halves the slice.
	if q.head*2 >= len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
}

// current reports whether e still ends anything.
func (c *Core) current(e expiry) bool {
	if e.dst != nil {
		return e.dst.until[e.path] == e.at
	}
	l := c.links[e.link]
	return l != nil && l.until == e.at
}

// advance moves the time to now, unless it is later already, and forgets what
// is due.
func (c *Core) advance(now fabric.Time) {
	c.now = max(c.now, now)
	due := false
	for {
		e, ok := c.expiries.front()
		if !ok || e.at > c.now {
			break
		}
		c.expiries.pop()
		if !c.current(e) {
			continue
		}
		due = true
		if e.dst != nil {
			e.dst.until[e.path] = 0
			e.dst.dirty = true
			continue
		}
		l := c.links[e.link]
		l.quench, l.until, l.ends = false, 0, [2]portEpoch{}
		c.mark(e.link)
		if !l.down && l.epoch == 0 && l.suspectEpoch == 0 {
			delete(c.links, e.link)
		}
	}
	if due {
		c.movePieces(Return)
	}
	c.probeLossy()
}

// Deadline returns when [Core.Tick] is next to be called. ok is false when
// nothing will become due by itself.
func (c *Core) Deadline() (at fabric.Time, ok bool) {
	at = never
	for _, l := range c.lossy {
		at = min(at, l.next)
	}
	for {
		e, ok := c.expiries.front()
		if !ok {
			return at, at != never
		}
		if c.current(e) {
			return min(at, e.at), true
		}
		c.expiries.pop()
	}
}
