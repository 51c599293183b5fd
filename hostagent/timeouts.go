package hostagent

import "github.com/ethereal-fabric/ethereal/fabric"

// timeouts takes a path that timed out for dead, for the memory's length.
type timeouts struct {
	*paths
	memories expiries[timedOut]
}

// timedOut is a path; destination.until has the end of its memory.
type timedOut struct {
	d    *destination
	path int
}

// Timeout reports that a queue pair's retransmission timer expired. If packets to that ToR were marked within
// [Config].Calm, congestion may be the cause, and a probe decides whether the path is left.
func (c *Core) Timeout(now fabric.Time, qp QP) {
	c.advance(now)
	c.stats.Timeouts++
	p := c.pieces.get(qp)
	if p == nil && c.losses.probeLost(qp) {
		return
	}
	if p == nil || p.dst == nil || c.now-p.flipped < c.grace(p.dst) {
		c.stats.TimeoutsIgnored++
		return
	}
	p.race = nil
	s := sample{p.dst, int(p.path), p.host}
	if c.cfg.Asks && !s.d.dead.get(s.path) {
		if q := c.questions.question(s); q.state != asking {
			q.expired = true
			c.questions.ask(q)
		}
		return
	}
	c.timeouts.leave(s)
	c.movePieces(ByTimeout)
	c.keepAnother(s, ByTimeout)
}

// leave marks a path dead.
func (t *timeouts) leave(s sample) {
	d := s.d
	if !d.dead.get(s.path) {
		t.fail(s)
	}
	if d.until == nil {
		d.until = make([]fabric.Time, d.paths)
	}
	d.until[s.path] = t.now + t.cfg.FailedPathMemory
	t.memories.push(d.until[s.path], timedOut{d, s.path})
	d.dirty = true
}

// verdict adds the paths to d that timed out to the dead ones.
func (t *timeouts) verdict(d *destination) {
	for path, until := range d.until {
		if until != 0 && until > t.now {
			d.dead.set(path)
		}
	}
}

// forget ends the memories of paths over a link.
func (t *timeouts) forget(id fabric.LinkID) {
	for _, d := range t.destinations {
		if s, ok := t.over(d, id); ok && d.until != nil {
			d.each(s, func(path int) { d.until[path] = 0 })
		}
	}
}

// current reports whether a path's memory ends at a time: it may have been renewed.
func (*timeouts) current(at fabric.Time, of timedOut) bool { return of.d.until[of.path] == at }

// expire ends the memories that are due, and reports whether there were any.
func (t *timeouts) expire() (due bool) {
	for of := range t.memories.due(t.now, t.current) {
		of.d.until[of.path], of.d.dirty, due = 0, true, true
	}
	return due
}

func (t *timeouts) rebase(now fabric.Time) {
	t.memories.rebase(now)
	for _, d := range t.destinations {
		for path, until := range d.until {
			if until != 0 {
				d.until[path] = until.Rebase(now)
			}
		}
	}
}
