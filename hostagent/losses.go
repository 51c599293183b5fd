package hostagent

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// losses finds the paths that lose packets, though not all: by Wald's test, on what queue pairs lost.
type losses struct {
	*paths
	sets           []*lossySet
	suspects       []lossySuspect
	probesInFlight map[QP]lossyProbe
	byUplink       []uplinkRecord // by uplink
	inboundMarkAt  fabric.Time    // when a packet to this host was last marked
}

// lossySet is a set of paths that were left because of losses. Its paths begin with one uplink of this host's ToR;
// they lead to one destination ToR or to all, by one uplink of the aggregation switch or by all. It begins as the
// one path that lost, and grows to the smallest such set that also contains the next losing path by the same
// uplink.
type lossySet struct {
	pathSet
	to          *destination // nil: all
	samples     []hostPath   // losing paths of the set, which are probed
	record      record       // of the probes after the losses
	nextRoundAt fabric.Time  // time of the next round of probes; Never: one is in progress
	unanswered  int          // number of unanswered probes
	roundLost   bool         // a probe of this round was lost
	rounds      uint         // consecutive rounds with losses
}

const (
	lossProbes     = 16 // number of probes per round on a path left because of losses
	maxLossySample = 8
	maxLossyRounds = 10 // largest number of doublings of the interval
	maxLossCounted = 2  // largest number of counted losses: more would only delay the return
)

// covers reports whether a path to d belongs to l.
func (l *lossySet) covers(d *destination, path int) bool {
	return (l.to == nil || l.to == d) && d.uplink(path) == l.firstUplink && (l.aggUplink < 0 || d.aggUplinks > 1 && path%d.aggUplinks == l.aggUplink)
}

// grow extends l to the smallest set that contains another path by the same uplink.
func (l *lossySet) grow(s hostPath) {
	if l.to != s.d {
		l.to = nil
	}
	if s.d.aggUplinks == 1 || l.aggUplink != s.path%s.d.aggUplinks {
		l.aggUplink = -1
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
	c.proofs.endWait(qp)
	c.stats.Losses += uint64(n)
	s := hostPath{p.dst, int(p.path), p.host}
	switch {
	case s.d.dead.get(s.path), l.Since < p.flipped, c.now-p.flipped < c.graceTime(p.dst):
		c.stats.LossesIgnored += uint64(n) // on the path before, or known already
		return
	case c.losses.lossExcused(s, l.Since):
		c.stats.LossesExcused += uint64(n)
		return
	case c.losses.inboundMarkAt >= l.Since: // acknowledgements come by the same link as other hosts' packets
		c.stats.LossesExcused += uint64(l.Acks)
		n = l.Packets
	}
	c.testLoss(s, n)
}

// testLoss tests a path after further losses, and moves pieces if the test finds it lossy.
func (c *Core) testLoss(s hostPath, packets int) {
	if c.losses.test(s, packets) {
		c.movePieces(ByLoss)
	}
}

// acked counts a packet that a path delivered.
func (ls *losses) acked(d *destination, path int) {
	d.records[path].delivered++ // one packet or more
	ls.byUplink[d.uplink(path)].delivered++
}

// test tests a path after further losses, and reports whether it is found lossy and left.
func (ls *losses) test(s hostPath, packets int) (left bool) {
	d, u := s.d, s.d.uplink(s.path)
	if packets < 1 || d.dead.get(s.path) {
		return false
	}
	w := ls.cfg.Losses.against(ls.medianLossOfOthers(u))
	ls.byUplink[u].lost += uint32(packets)
	ls.byUplink[u].lastLossAt = ls.now
	if ls.manyUplinksLose(u, d) {
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
		ls.leaveLossy(s)
		return true
	}
	if !slices.ContainsFunc(ls.suspects, func(a lossySuspect) bool { return a.d == d && a.path == s.path }) {
		ls.suspects = append(ls.suspects, lossySuspect{s, ls.now + suspectTrips*d.trip})
	}
	return false
}

// leaveLossy leaves a path that is found lossy.
func (ls *losses) leaveLossy(s hostPath) {
	ls.reportFailedPath(s)
	ls.leave(s)
}

// lossySuspect is a path that the test has found lossy, on a fabric that drops packets without a mark: see
// [LossTest].Unmarked. It is left at a time, unless other uplinks lose packets until then.
type lossySuspect struct {
	hostPath
	due fabric.Time
}

const suspectTrips = 2

// leaveSuspects leaves the accused paths that are due, and reports whether there are any.
func (ls *losses) leaveSuspects() (left bool) {
	for i := 0; i < len(ls.suspects); {
		a := ls.suspects[i]
		if a.due > ls.now {
			i++
			continue
		}
		ls.suspects = slices.Delete(ls.suspects, i, i+1)
		switch {
		case a.d.dead.get(a.path):
		case ls.manyUplinksLose(a.d.uplink(a.path), a.d):
			ls.stats.LossesExcused++
			a.d.records[a.path] = record{}
		default:
			ls.leaveLossy(a.hostPath)
			left = true
		}
	}
	return left
}

// manyUplinksLose reports whether at least half of the other uplinks in use have lost packets of late: full buffers
// drop packets of all paths, where nothing is marked before. With [LossTest].Unmarked two, and a quarter, are enough.
func (ls *losses) manyUplinksLose(uplink int, d *destination) bool {
	late, used, losing := graceTrips*d.trip, 0, 0
	if ls.cfg.Losses.Unmarked {
		late = max(late, ls.cfg.Calm)
	}
	for u, r := range ls.byUplink {
		if u == uplink || r.delivered+r.lost == 0 {
			continue
		}
		if used++; ls.now-r.lastLossAt <= late {
			losing++
		}
	}
	return losing > 0 && 2*losing >= used || ls.cfg.Losses.Unmarked && losing > 1 && 4*losing >= used
}

// medianLossOfOthers returns the median, over the other uplinks of this host's ToR, of the loss ratio of this host's
// packets.
func (ls *losses) medianLossOfOthers(uplink int) float64 {
	var shares []float64
	for u, r := range ls.byUplink {
		if n := float64(r.delivered) + float64(r.lost); u != uplink && n > 0 {
			shares = append(shares, float64(r.lost)/n)
		}
	}
	for i := range ls.byUplink { // older packets count less
		if r := &ls.byUplink[i]; r.delivered > uplinkRecordMost {
			r.delivered, r.lost = r.delivered/2, r.lost/2
		}
	}
	if len(shares) == 0 {
		return 0
	}
	slices.Sort(shares)
	return shares[(len(shares)-1)/2]
}

const uplinkRecordMost = 1 << 20

// leave leaves a path because of losses.
func (ls *losses) leave(s hostPath) {
	d, u := s.d, s.d.uplink(s.path)
	d.records[s.path] = record{}
	i := slices.IndexFunc(ls.sets, func(l *lossySet) bool { return l.firstUplink == u })
	if i < 0 {
		l := &lossySet{pathSet: pathSet{firstUplink: u, uplinkCount: 1, aggUplink: -1}, to: d, samples: []hostPath{s}}
		if d.aggUplinks > 1 {
			l.aggUplink = s.path % d.aggUplinks
		}
		ls.sets = append(ls.sets, l)
		i = len(ls.sets) - 1
		ls.stats.Left++
	} else {
		ls.sets[i].grow(s)
	}
	l := ls.sets[i]
	l.record = record{lost: min(l.record.lost+1, maxLossCounted)}
	if l.unanswered == 0 {
		l.nextRoundAt = ls.now + ls.cfg.ProbeEvery
	}
	ls.changed(l)
}

// changed has the destinations recomputed that l can concern.
func (ls *losses) changed(l *lossySet) {
	for _, d := range ls.destinations {
		if l.to == nil || l.to == d {
			d.dirty = true
		}
	}
}

// addDeadPaths adds the paths to d that were left because of losses to the dead ones.
func (ls *losses) addDeadPaths(d *destination) {
	for _, l := range ls.sets {
		d.eachPath(pathSet{firstUplink: l.firstUplink, uplinkCount: 1, aggUplink: -1}, func(p int) {
			if l.covers(d, p) {
				d.dead.set(p)
			}
		})
	}
}

// probe sends the rounds of probes that are due.
func (ls *losses) probe() {
	for _, l := range ls.sets {
		if l.nextRoundAt > ls.now {
			continue
		}
		l.roundLost = false
		for i := range lossProbes {
			s := l.samples[i%len(l.samples)]
			ls.probesInFlight[ls.openProbe(s)] = lossyProbe{of: l}
			l.unanswered++
		}
		l.nextRoundAt = fabric.Never
	}
}

// lossyProbe is a probe in flight.
type lossyProbe struct {
	of   *lossySet
	lost bool // counted once: its queue pair retransmits it
}

// probeLost records the loss of a probe. ok is false if qp is no probe.
func (ls *losses) probeLost(qp QP) (ok bool) {
	p, ok := ls.probesInFlight[qp]
	if !ok || p.lost {
		return ok
	}
	l := p.of
	l.record.lost = min(l.record.lost+1, maxLossCounted)
	l.record.delivered = 0
	l.roundLost = true
	ls.probesInFlight[qp] = lossyProbe{l, true}
	return true
}

// probeDone records the arrival of a probe, and reports whether its paths are used again.
func (ls *losses) probeDone(qp QP) (back bool) {
	p, ok := ls.probesInFlight[qp]
	if !ok {
		return false
	}
	delete(ls.probesInFlight, qp)
	l := p.of
	if !p.lost {
		l.record.delivered++
	}
	if l.unanswered--; l.unanswered > 0 {
		return false
	}
	if w := ls.cfg.Losses.against(0); w.sum(l.record) <= w.healthy {
		return ls.returnToPaths(l)
	}
	if l.roundLost {
		l.rounds = min(l.rounds+1, maxLossyRounds)
	} else {
		l.rounds = 0
	}
	l.nextRoundAt = ls.now + ls.cfg.ProbeEvery<<l.rounds
	return false
}

// returnToPaths uses the paths of l again.
func (ls *losses) returnToPaths(l *lossySet) bool {
	i := slices.Index(ls.sets, l)
	if i < 0 {
		return false // forgotten meanwhile
	}
	ls.sets = slices.Delete(ls.sets, i, i+1)
	ls.stats.CameBack++
	ls.changed(l)
	return true
}

// forget forgets the losses of some paths.
func (ls *losses) forget(crosses func(hostPath) bool) {
	ls.suspects = slices.DeleteFunc(ls.suspects, func(a lossySuspect) bool { return crosses(a.hostPath) })
	ls.sets = slices.DeleteFunc(ls.sets, func(l *lossySet) bool {
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
	for _, l := range ls.sets {
		at = min(at, l.nextRoundAt)
	}
	for _, a := range ls.suspects {
		at = min(at, a.due)
	}
	return at
}

func (ls *losses) rebase(now fabric.Time) {
	ls.inboundMarkAt = ls.inboundMarkAt.Rebase(now)
	for _, l := range ls.sets {
		l.nextRoundAt = l.nextRoundAt.Rebase(now)
	}
	for i := range ls.suspects {
		ls.suspects[i].due = ls.suspects[i].due.Rebase(now)
	}
	for i := range ls.byUplink {
		ls.byUplink[i].lastLossAt = ls.byUplink[i].lastLossAt.Rebase(now)
	}
	for _, d := range ls.destinations {
		d.marks.rebase(now)
	}
}
