package hostagent

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// losses finds the paths that lose packets, though not all: by Wald's test, on what queue pairs lost.
type losses struct {
	*paths
	lossy    []*lossy
	accused  []accused
	probing  map[QP]lossyProbe
	carried  []carried   // by uplink
	markedIn fabric.Time // when a packet to this host was last marked
}

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

const (
	lossProbes     = 16 // number of probes per round on a path left because of losses
	maxLossySample = 8
	maxLossyRounds = 10 // largest number of doublings of the interval
	maxLossCounted = 2  // largest number of counted losses: more would only delay the return
)

// covers reports whether a path to d belongs to l.
func (l *lossy) covers(d *destination, path int) bool {
	return (l.to == nil || l.to == d) && d.uplink(path) == l.u && (l.v < 0 || d.vs > 1 && path%d.vs == l.v)
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

// Loss is the known losses of a queue pair: packets and ACKs.
type Loss struct {
	Packets int         `json:",omitempty"` // data packets that the receiver reported missing by a NAK
	Acks    int         `json:",omitempty"` // ACKs that are missing although later ones came
	Since   fabric.Time `json:",omitempty"` // the lost packets were sent at this time or later
}

// Lost reports a queue pair's losses that caused no time-out. The package comment says when the core leaves the path
// because of them.
func (c *Core) Lost(now fabric.Time, qp QP, l Loss) {
	c.advance(now)
	n := l.Packets + l.Acks
	if n < 1 || c.cfg.Losses.Off || c.losses.probeLost(qp) {
		return
	}
	p := c.pieces.get(qp)
	if p == nil || p.dst == nil {
		return
	}
	p.race = nil // the loss delays it
	c.proofs.answered(qp)
	c.stats.Losses += uint64(n)
	s := sample{p.dst, int(p.path), p.host}
	switch {
	case s.d.dead.get(s.path), l.Since < p.flipped, c.now-p.flipped < c.grace(p.dst):
		c.stats.LossesIgnored += uint64(n) // on the path before, or known already
		return
	case c.losses.excused(s, l.Since):
		c.stats.LossesExcused += uint64(n)
		return
	case c.losses.markedIn >= l.Since: // acknowledgements come by the same link as other hosts' packets
		c.stats.LossesExcused += uint64(l.Acks)
		n = l.Packets
	}
	c.testLoss(s, n)
}

// testLoss tests a path after further losses, and moves pieces if the test finds it lossy.
func (c *Core) testLoss(s sample, packets int) {
	if c.losses.test(s, packets) {
		c.movePieces(ByLoss)
	}
}

// acked counts a packet that a path delivered.
func (ls *losses) acked(d *destination, path int) {
	d.records[path].fine++ // one packet or more
	ls.carried[d.uplink(path)].fine++
}

// test tests a path after further losses, and reports whether it is found lossy and left.
func (ls *losses) test(s sample, packets int) (left bool) {
	d, u := s.d, s.d.uplink(s.path)
	if packets < 1 || d.dead.get(s.path) {
		return false
	}
	w := ls.cfg.Losses.against(ls.othersLose(u))
	ls.carried[u].lost += uint32(packets)
	ls.carried[u].lostAt = ls.now
	if ls.manyLose(u, d) {
		ls.stats.LossesExcused += uint64(packets)
		return false
	}
	r := w.restart(d.records[s.path])
	r.lost += uint32(packets)
	d.records[s.path] = r
	if w.sum(r) < w.lossy {
		return false
	}
	if !ls.cfg.Losses.Unmarked {
		ls.convict(s)
		return true
	}
	if !slices.ContainsFunc(ls.accused, func(a accused) bool { return a.d == d && a.path == s.path }) {
		ls.accused = append(ls.accused, accused{s, ls.now + accusedTrips*d.trip})
	}
	return false
}

// convict leaves a path that is found lossy.
func (ls *losses) convict(s sample) {
	ls.fail(s)
	ls.leave(s)
}

// accused is a path that the test has found lossy, on a fabric that drops packets without a mark: see
// [LossTest].Unmarked. It is left at a time, unless other uplinks lose packets until then.
type accused struct {
	sample
	due fabric.Time
}

const accusedTrips = 2

// judge leaves the accused paths that are due, and reports whether there are any.
func (ls *losses) judge() (left bool) {
	for i := 0; i < len(ls.accused); {
		a := ls.accused[i]
		if a.due > ls.now {
			i++
			continue
		}
		ls.accused = slices.Delete(ls.accused, i, i+1)
		switch {
		case a.d.dead.get(a.path):
		case ls.manyLose(a.d.uplink(a.path), a.d):
			ls.stats.LossesExcused++
			a.d.records[a.path] = record{}
		default:
			ls.convict(a.sample)
			left = true
		}
	}
	return left
}

// manyLose reports whether at least half of the other uplinks in use have lost packets of late: full buffers drop
// packets of all paths, where nothing is marked before. With [LossTest].Unmarked two, and a quarter, are enough.
func (ls *losses) manyLose(uplink int, d *destination) bool {
	late, used, losing := graceTrips*d.trip, 0, 0
	if ls.cfg.Losses.Unmarked {
		late = max(late, ls.cfg.Calm)
	}
	for u, r := range ls.carried {
		if u == uplink || r.fine+r.lost == 0 {
			continue
		}
		if used++; ls.now-r.lostAt <= late {
			losing++
		}
	}
	return losing > 0 && 2*losing >= used || ls.cfg.Losses.Unmarked && losing > 1 && 4*losing >= used
}

// othersLose returns the median, over the other uplinks of this host's ToR, of the loss ratio of this host's
// packets.
func (ls *losses) othersLose(uplink int) float64 {
	var shares []float64
	for u, r := range ls.carried {
		if n := float64(r.fine) + float64(r.lost); u != uplink && n > 0 {
			shares = append(shares, float64(r.lost)/n)
		}
	}
	for i := range ls.carried { // older packets count less
		if r := &ls.carried[i]; r.fine > carriedMost {
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
func (ls *losses) leave(s sample) {
	d, u := s.d, s.d.uplink(s.path)
	d.records[s.path] = record{}
	i := slices.IndexFunc(ls.lossy, func(l *lossy) bool { return l.u == u })
	if i < 0 {
		l := &lossy{span: span{u: u, n: 1, v: -1}, to: d, samples: []sample{s}}
		if d.vs > 1 {
			l.v = s.path % d.vs
		}
		ls.lossy = append(ls.lossy, l)
		i = len(ls.lossy) - 1
		ls.stats.Left++
	} else {
		ls.lossy[i].grow(s)
	}
	l := ls.lossy[i]
	l.record = record{lost: min(l.record.lost+1, maxLossCounted)}
	if l.open == 0 {
		l.next = ls.now + ls.cfg.ProbeEvery
	}
	ls.changed(l)
}

// changed has the destinations recomputed that l can concern.
func (ls *losses) changed(l *lossy) {
	for _, d := range ls.destinations {
		if l.to == nil || l.to == d {
			d.dirty = true
		}
	}
}

// verdict adds the paths to d that were left because of losses to the dead ones.
func (ls *losses) verdict(d *destination) {
	for _, l := range ls.lossy {
		d.each(span{u: l.u, n: 1, v: -1}, func(p int) {
			if l.covers(d, p) {
				d.dead.set(p)
			}
		})
	}
}

// probe sends the rounds of probes that are due.
func (ls *losses) probe() {
	for _, l := range ls.lossy {
		if l.next > ls.now {
			continue
		}
		l.lost = false
		for i := range lossProbes {
			s := l.samples[i%len(l.samples)]
			ls.probing[ls.openProbe(s)] = lossyProbe{of: l}
			l.open++
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
func (ls *losses) probeLost(qp QP) (ok bool) {
	p, ok := ls.probing[qp]
	if !ok || p.lost {
		return ok
	}
	l := p.of
	l.record.lost = min(l.record.lost+1, maxLossCounted)
	l.record.fine = 0
	l.lost = true
	ls.probing[qp] = lossyProbe{l, true}
	return true
}

// probeDone records the arrival of a probe, and reports whether its paths are used again.
func (ls *losses) probeDone(qp QP) (back bool) {
	p, ok := ls.probing[qp]
	if !ok {
		return false
	}
	delete(ls.probing, qp)
	l := p.of
	if !p.lost {
		l.record.fine++
	}
	if l.open--; l.open > 0 {
		return false
	}
	if w := ls.cfg.Losses.against(0); w.sum(l.record) <= w.healthy {
		return ls.returnToPaths(l)
	}
	if l.lost {
		l.rounds = min(l.rounds+1, maxLossyRounds)
	} else {
		l.rounds = 0
	}
	l.next = ls.now + ls.cfg.ProbeEvery<<l.rounds
	return false
}

// returnToPaths uses the paths of l again.
func (ls *losses) returnToPaths(l *lossy) bool {
	i := slices.Index(ls.lossy, l)
	if i < 0 {
		return false // forgotten meanwhile
	}
	ls.lossy = slices.Delete(ls.lossy, i, i+1)
	ls.stats.CameBack++
	ls.changed(l)
	return true
}

// forget forgets the losses of some paths.
func (ls *losses) forget(crosses func(sample) bool) {
	ls.accused = slices.DeleteFunc(ls.accused, func(a accused) bool { return crosses(a.sample) })
	ls.lossy = slices.DeleteFunc(ls.lossy, func(l *lossy) bool {
		over := slices.ContainsFunc(l.samples, crosses)
		if over {
			ls.changed(l)
		}
		return over
	})
}

// deadline returns the time of the next round of probes.
func (ls *losses) deadline() fabric.Time {
	at := fabric.Never
	for _, l := range ls.lossy {
		at = min(at, l.next)
	}
	for _, a := range ls.accused {
		at = min(at, a.due)
	}
	return at
}

func (ls *losses) rebase(now fabric.Time) {
	ls.markedIn = ls.markedIn.Rebase(now)
	for _, l := range ls.lossy {
		l.next = l.next.Rebase(now)
	}
	for i := range ls.accused {
		ls.accused[i].due = ls.accused[i].due.Rebase(now)
	}
	for i := range ls.carried {
		ls.carried[i].lostAt = ls.carried[i].lostAt.Rebase(now)
	}
	for _, d := range ls.destinations {
		d.marks.rebase(now)
	}
}
