package hostagent

import "github.com/ethereal-fabric/ethereal/fabric"

// timeouts takes a path that timed out for dead, for the memory's length.
type timeouts struct {
	*paths
	memories expiries[timedOutPath]
}

// timedOutPath is a path; destination.timeoutUntil has the end of its memory.
type timedOutPath struct {
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
	if p == nil || p.dst == nil || c.now-p.flipped < c.graceTime(p.dst) {
		c.stats.TimeoutsIgnored++
		return
	}
	p.race = nil
	s := hostPath{p.dst, int(p.path), p.host}
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
func (t *timeouts) leave(s hostPath) {
	d := s.d
	if !d.dead.get(s.path) {
		t.reportFailedPath(s)
	}
	if d.timeoutUntil == nil {
		d.timeoutUntil = make([]fabric.Time, d.paths)
	}
	d.timeoutUntil[s.path] = t.now + t.cfg.FailedPathMemory
	t.memories.push(d.timeoutUntil[s.path], timedOutPath{d, s.path})
	d.dirty = true
}

// addDeadPaths adds the paths to d that timed out to the dead ones.
func (t *timeouts) addDeadPaths(d *destination) {
	for path, until := range d.timeoutUntil {
		if until != 0 && until > t.now {
			d.dead.set(path)
		}
	}
}

// forget ends the memories of paths over a link.
func (t *timeouts) forget(id fabric.LinkID) {
	for _, d := range t.destinations {
		if s, ok := t.pathsOver(d, id); ok && d.timeoutUntil != nil {
			d.eachPath(s, func(path int) { d.timeoutUntil[path] = 0 })
		}
	}
}

// current reports whether a path's memory ends at a time: it may have been renewed.
func (*timeouts) current(at fabric.Time, of timedOutPath) bool {
	return of.d.timeoutUntil[of.path] == at
}

// expire ends the memories that are due, and reports whether there were any.
func (t *timeouts) expire() (due bool) {
	for of := range t.memories.due(t.now, t.current) {
		of.d.timeoutUntil[of.path], of.d.dirty, due = 0, true, true
	}
	return due
}

func (t *timeouts) rebase(now fabric.Time) {
	t.memories.rebase(now)
	for _, d := range t.destinations {
		for path, until := range d.timeoutUntil {
			if until != 0 {
				d.timeoutUntil[path] = until.Rebase(now)
			}
		}
	}
}
