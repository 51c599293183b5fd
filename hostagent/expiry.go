package hostagent

import "github.com/ethereal-fabric/ethereal/fabric"

// expiry is the end of the memory of a time-out, or, if dst is nil, of the quenches about a link. It counts only if
// the memory was not renewed since.
type expiry struct {
	at   fabric.Time
	dst  *destination
	path int
	link fabric.LinkID
}

// expiryQueue is in order of time without sorting, since every memory is equally long and time does not go
// backwards.
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

// current reports whether e still ends a memory.
func (c *Core) current(e expiry) bool {
	if e.dst != nil {
		return e.dst.until[e.path] == e.at
	}
	l := c.links[e.link]
	return l != nil && l.until == e.at
}

// advance moves the time to now, unless it is later already, and ends the memories that are due.
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
		c.noteUnconfirmed(l)
		l.quench, l.until, l.ends = false, 0, [2]portEpoch{}
		c.mark(e.link)
		if !l.dead() && l.epoch == 0 && l.suspectEpoch == 0 && l.rateEpoch == 0 && l.unconfirmed == 0 {
			delete(c.links, e.link)
		}
	}
	if due {
		c.movePieces(Return)
	}
	c.answerQuestions()
	c.probeLossy()
}

// Rebase does what is due by now, and counts all later times from now. A core that runs for long needs it, since a
// [fabric.Time] ends after 106 days: see [fabric.LongAgo].
func (c *Core) Rebase(now fabric.Time) {
	c.advance(now) // remaining times that are not 0 are in the future
	c.now, c.quenchTAT, c.markedIn = c.now.Rebase(now), c.quenchTAT.Rebase(now), c.markedIn.Rebase(now)
	c.heardAt, c.shiftedAt, c.shiftedLast = c.heardAt.Rebase(now), c.shiftedAt.Rebase(now), c.shiftedLast.Rebase(now)
	for i := range c.open {
		c.open[i].Start = c.open[i].Start.Rebase(now)
	}
	for i := range c.expiries.items {
		c.expiries.items[i].at = c.expiries.items[i].at.Rebase(now)
	}
	for _, l := range c.links {
		if l.until != 0 {
			l.until = l.until.Rebase(now)
		}
		l.refuseUntil = l.refuseUntil.Rebase(now)
	}
	for _, l := range c.lossy {
		l.next = l.next.Rebase(now)
	}
	c.questions.rebase(now)
	for i := range c.carried {
		c.carried[i].lostAt = c.carried[i].lostAt.Rebase(now)
	}
	races := map[*race]bool{} // pieces of a flow share one
	for p := range c.pieces.all() {
		p.flipped = p.flipped.Rebase(now)
		if r := p.race; r != nil && !races[r] {
			races[r], r.start = true, r.start.Rebase(now)
		}
	}
	c.slowWays.rebase(now)
	for h, t := range c.trials {
		t.at = t.at.Rebase(now)
		c.trials[h] = t
	}
	for _, d := range c.destinations {
		d.slow.rebase(now)
		d.marks.rebase(now)
		for i := range d.answered {
			d.answered[i] = d.answered[i].Rebase(now)
		}
		for i := range d.heard {
			for j := range d.heard[i] {
				d.heard[i][j].at = d.heard[i][j].at.Rebase(now)
			}
		}
		for p, until := range d.until {
			if until != 0 {
				d.until[p] = until.Rebase(now)
			}
		}
	}
}

// Deadline returns the time at which to call [Core.Tick] next. ok is false if no timer runs.
func (c *Core) Deadline() (at fabric.Time, ok bool) {
	at = fabric.Never
	for _, l := range c.lossy {
		at = min(at, l.next)
	}
	if due, ok := c.nextQuestion(); ok {
		at = min(at, due)
	}
	for {
		e, ok := c.expiries.front()
		if !ok {
			return at, at != fabric.Never
		}
		if c.current(e) {
			return min(at, e.at), true
		}
		c.expiries.pop()
	}
}
