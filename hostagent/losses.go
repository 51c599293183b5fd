package hostagent

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// lossy is a set of paths that were left because of losses. Its paths begin with one uplink of this host's ToR;
// they lead to one destination ToR or to all, by one uplink of the aggregation switch or by all. It begins as the
// one path that lost, and grows to the smallest such set that also contains the next losing path by the same
// uplink.
type lossy struct {
	span
	to      *destination // nil: all
	samples []sample     // losing paths of the set, which are probed
	record  record       // of the probes after the losses
	next    fabric.Time  // time of the next round of probes; Never: one is in progress
	open    int          // number of unanswered probes
	lost    bool         // a probe of this round was lost
	rounds  uint         // consecutive rounds with losses
}

// sample is a path, with a host to which it leads.
type sample struct {
	d    *destination
	path int
	host fabric.NodeID
}

const (
	lossProbes     = 16 // per round
	maxLossySample = 8
	maxLossyRounds = 10 // largest number of doublings of the interval
	maxLossCounted = 2  // largest number of counted losses: more would only delay the return
)

// covers reports whether a path to d belongs to l.
func (l *lossy) covers(d *destination, path int) bool {
	return (l.to == nil || l.to == d) && d.way(path) == l.u && (l.v < 0 || d.vs > 1 && path%d.vs == l.v)
}

// grow extends l to the smallest set that contains another path by the same uplink.
func (l *lossy) grow(s sample) {
	if l.to != s.d {
		l.to = nil
	}
	if s.d.vs == 1 || l.v != s.path%s.d.vs {
		l.v = -1
	}
	if len(l.samples) < maxLossySample {
		l.samples = append(l.samples, s)
	}
}

// Loss is the known loss of a queue pair.
type Loss struct {
	Packets int         `json:",omitempty"` // packets for which its receiver asked
	Acks    int         `json:",omitempty"` // missing acknowledgements, although later ones came
	Since   fabric.Time `json:",omitempty"` // the lost packets were sent at this time or later
}

// Lost reports a queue pair's losses without a time-out. The package comment says when its path is left.
func (c *Core) Lost(now fabric.Time, qp QP, l Loss) {
	c.advance(now)
	n := l.Packets + l.Acks
	if n < 1 || c.cfg.Losses.Off || c.probeLost(qp) {
		return
	}
	p := c.pieces.get(qp)
	if p == nil || p.dst == nil {
		return
	}
	p.race = nil // the loss delays it
	c.stats.Losses += uint64(n)
	s := sample{p.dst, int(p.path), p.host}
	switch {
	case s.d.dead.get(s.path), c.now-p.flipped < c.grace(p.dst):
		c.stats.LossesIgnored += uint64(n) // on the path before, or known already
		return
	case c.excused(s, l.Since):
		c.stats.LossesExcused += uint64(n)
		return
	case c.markedIn >= l.Since: // acknowledgements come by the same link as other hosts' packets
		c.stats.LossesExcused += uint64(l.Acks)
		n = l.Packets
	}
	c.testLoss(s, n)
}

// grace returns the time after a flip during which losses and time-outs do not count against the new path.
func (c *Core) grace(d *destination) fabric.Time {
	if c.cfg.TimeoutGrace < 0 {
		return 0
	}
	return max(c.cfg.TimeoutGrace, graceTrips*d.trip)
}

const graceTrips = 2

// testLoss tests a path after further losses, and leaves it if the test finds it lossy.
func (c *Core) testLoss(s sample, packets int) {
	d, u := s.d, s.d.way(s.path)
	if packets < 1 || d.dead.get(s.path) {
		return
	}
	w := c.cfg.Losses.against(c.othersLose(u))
	c.carried[u].lost += uint32(packets)
	c.carried[u].lostAt = c.now
	if c.manyLose(u, graceTrips*d.trip) {
		c.stats.LossesExcused += uint64(packets)
		return
	}
	r := w.restart(d.records[s.path])
	r.lost += uint32(packets)
	d.records[s.path] = r
	if w.sum(r) < w.lossy {
		return
	}
	c.failed = append(c.failed, Failed{Dst: s.host, DstToR: d.tor, Label: c.label(d, s.path)})
	c.leave(s)
}

// manyLose reports whether at least half of the other uplinks in use have lost packets of late: full buffers drop
// packets of all paths, where nothing is marked before.
func (c *Core) manyLose(uplink int, late fabric.Time) bool {
	used, losing := 0, 0
	for u, r := range c.carried {
		if u == uplink || r.fine+r.lost == 0 {
			continue
		}
		if used++; c.now-r.lostAt <= late {
			losing++
		}
	}
	return losing > 0 && 2*losing >= used
}

// othersLose returns the median, over the other uplinks of this host's ToR, of the loss ratio of this host's
// packets.
func (c *Core) othersLose(uplink int) float64 {
	var shares []float64
	for u, r := range c.carried {
		if n := float64(r.fine) + float64(r.lost); u != uplink && n > 0 {
			shares = append(shares, float64(r.lost)/n)
		}
	}
	for i := range c.carried { // older packets count less
		if r := &c.carried[i]; r.fine > carriedMost {
			r.fine, r.lost = r.fine/2, r.lost/2
		}
	}
	if len(shares) == 0 {
		return 0
	}
	slices.Sort(shares)
	return shares[(len(shares)-1)/2]
}

const carriedMost = 1 << 20

// leave leaves a path because of losses.
func (c *Core) leave(s sample) {
	d, u := s.d, s.d.way(s.path)
	d.records[s.path] = record{}
	i := slices.IndexFunc(c.lossy, func(l *lossy) bool { return l.u == u })
	if i < 0 {
		l := &lossy{span: span{u, 1, -1}, to: d, samples: []sample{s}}
		if d.vs > 1 {
			l.v = s.path % d.vs
		}
		c.lossy = append(c.lossy, l)
		i = len(c.lossy) - 1
		c.stats.Left++
	} else {
		c.lossy[i].grow(s)
	}
	l := c.lossy[i]
	l.record = record{lost: min(l.record.lost+1, maxLossCounted)}
	if l.open == 0 {
		l.next = c.now + c.cfg.ProbeEvery
	}
	c.lossyChanged(l)
	c.movePieces(ByLoss)
}

// lossyChanged has the destinations recomputed that l can concern.
func (c *Core) lossyChanged(l *lossy) {
	for _, d := range c.destinations {
		if l.to == nil || l.to == d {
			d.dirty = true
		}
	}
}

// setLossy marks the paths to d that were left because of losses.
func (c *Core) setLossy(d *destination) {
	for _, l := range c.lossy {
		d.each(span{l.u, 1, -1}, func(p int) {
			if l.covers(d, p) {
				d.dead.set(p)
			}
		})
	}
}

// probeLossy sends the rounds of probes that are due.
func (c *Core) probeLossy() {
	for _, l := range c.lossy {
		if l.next > c.now {
			continue
		}
		l.lost = false
		for i := range lossProbes {
			s := l.samples[i%len(l.samples)]
			c.nextQP++
			c.probing[c.nextQP] = lossyProbe{of: l}
			l.open++
			c.open = append(c.open, Piece{QP: c.nextQP, Dst: s.host, Label: c.label(s.d, s.path), Labelled: true, Start: c.now})
		}
		l.next = fabric.Never
	}
}

// lossyProbe is a probe in flight.
type lossyProbe struct {
	of   *lossy
	lost bool // counted once: its queue pair retransmits it
}

// probeLost records the loss of a probe. ok is false if qp is no probe.
func (c *Core) probeLost(qp QP) (ok bool) {
	p, ok := c.probing[qp]
	if !ok || p.lost {
		return ok
	}
	l := p.of
	l.record.lost = min(l.record.lost+1, maxLossCounted)
	l.record.fine = 0
	l.lost = true
	c.probing[qp] = lossyProbe{l, true}
	return true
}

// probeDone records the arrival of a probe. ok is false if qp is no probe.
func (c *Core) probeDone(qp QP) (ok bool) {
	p, ok := c.probing[qp]
	if !ok {
		return false
	}
	delete(c.probing, qp)
	l := p.of
	if !p.lost {
		l.record.fine++
	}
	if l.open--; l.open > 0 {
		return true
	}
	if w := c.cfg.Losses.against(0); w.sum(l.record) <= w.healthy {
		c.comeBack(l)
		return true
	}
	if l.lost {
		l.rounds = min(l.rounds+1, maxLossyRounds)
	} else {
		l.rounds = 0
	}
	l.next = c.now + c.cfg.ProbeEvery<<l.rounds
	return true
}

// comeBack uses the paths of l again.
func (c *Core) comeBack(l *lossy) {
	i := slices.Index(c.lossy, l)
	if i < 0 {
		return // forgotten meanwhile
	}
	c.lossy = slices.Delete(c.lossy, i, i+1)
	c.stats.CameBack++
	c.lossyChanged(l)
	c.movePieces(Return)
}

// forgetLosses forgets the losses of paths over a link that was repaired.
func (c *Core) forgetLosses(id fabric.LinkID) {
	crosses := func(s sample) bool {
		at, ok := c.over(s.d, id)
		u := s.d.way(s.path)
		return ok && at.u <= u && u < at.u+at.n && (at.v < 0 || at.v == s.path%s.d.vs)
	}
	c.forgetQuestions(crosses)
	c.lossy = slices.DeleteFunc(c.lossy, func(l *lossy) bool {
		over := slices.ContainsFunc(l.samples, crosses)
		if over {
			c.lossyChanged(l)
		}
		return over
	})
}
