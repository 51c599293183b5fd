package hostagent

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// suspect is a path with a silent queue pair, or with a time-out while packets were marked. Both need a verdict: a
// probe on the path decides.
type suspect struct {
	sample
	probe    QP
	since    fabric.Time // the unanswered packet was sent at this time or later
	wait     fabric.Time // for an answer
	waits    uint        // how often the wait was prolonged
	judged   bool        // both losses are counted
	until    fabric.Time // the probe is lost if not answered by then
	late     bool        // an answer came by the path, to a queue pair that had left it
	timedOut bool        // the cause was a time-out
}

// Silence is the knowledge of a queue pair without answers.
type Silence struct {
	Since fabric.Time `json:",omitempty"` // the unanswered packet was sent at this time or later
	Wait  fabric.Time `json:",omitempty"` // longest time of an answer, from what is known of the path
	Times int         `json:",omitempty"` // number of earlier silences, at doubling intervals
}

// mostExcuses is how often a queue at the end of a path excuses a silence. Where packets to the ToR are marked, or
// links near it are dead, the queue may be longer than a host can know. This also bounds the excuses of a dead
// path.
const mostExcuses = 3

// Unanswered reports that a queue pair gets no answers, though other queue pairs of this host do. It is evidence
// against the path, unless packets on that path were marked meanwhile. The queue pair moves to a spare path, and a
// probe follows on the path that it left.
func (c *Core) Unanswered(now fabric.Time, qp QP, l Silence) {
	c.advance(now)
	p := c.pieces.get(qp)
	if p == nil || p.dst == nil || c.cfg.Losses.Off {
		return
	}
	c.stats.Silences++
	s := sample{p.dst, int(p.path), p.host}
	queue := s.d.marks.last >= l.Since || c.narrowed(s.d) || c.peerSilent(p, l.Since) || c.carriesMore(p)
	if c.now-l.Since < c.cfg.Losses.Patience || c.markedBy(s) >= l.Since || queue && l.Times < mostExcuses {
		c.stats.SilencesExcused++
		return
	}
	if s.d.dead.get(s.path) {
		c.keepAnother(s, ByLoss)
		return
	}
	to, ok := c.spare(p)
	if !ok {
		return
	}
	if p.flipped != fabric.LongAgo {
		p.home = int16(to) // it has moved before: it does not alternate
	}
	c.suspect(s, l.Since, l.Wait)
	c.move(p, to, BySilence)
	c.flip[len(c.flip)-1].Dead = true
}

// answeredSince reports whether a piece's peer has answered anything since a time.
func (c *Core) answeredSince(p *piece, since fabric.Time) bool {
	first, _ := c.fabric.HostsOf(p.dst.tor)
	return p.dst.answered[p.host-first] >= since
}

// peerSilent reports whether a path to the same host by another uplink is a suspect, and the host has answered
// nothing since a time. Then the host may be the cause.
func (c *Core) peerSilent(p *piece, since fabric.Time) bool {
	return !c.answeredSince(p, since) && slices.ContainsFunc(c.suspects, func(x *suspect) bool {
		return x.host == p.host && x.d.way(x.path) != p.dst.way(int(p.path))
	})
}

// hostSilent reports whether a suspect's host has answered nothing since the suspicion by other uplinks either,
// though queue pairs to it use them. Then the host may be the cause.
func (c *Core) hostSilent(x *suspect) bool {
	first, _ := c.fabric.HostsOf(x.d.tor)
	if x.d.answered[x.host-first] >= x.since {
		return false
	}
	for p := x.d.first; p != nil; p = p.next {
		if p.host == x.host && x.d.way(int(p.path)) != x.d.way(x.path) {
			return true
		}
	}
	return false
}

// carriesMore reports whether all other uplinks that lead to a piece's peer have suspects or lossy paths. The load
// that leaves these moves to the piece's own uplink.
func (c *Core) carriesMore(p *piece) bool {
	own := p.dst.way(int(p.path))
	if c.doubted(own) {
		return false
	}
	for path := range p.dst.paths {
		if u := p.dst.way(path); u != own && !c.doubted(u) {
			return false
		}
	}
	return true
}

// doubted reports whether a path by an uplink is a suspect or was left because of losses.
func (c *Core) doubted(way int) bool {
	return slices.ContainsFunc(c.suspects, func(x *suspect) bool { return x.d.way(x.path) == way }) ||
		slices.ContainsFunc(c.lossy, func(l *lossy) bool { return l.u == way })
}

// narrowed reports whether links on paths to a ToR, or in its pod or this host's pod, are known to be dead or slow:
// their load is in the queues of others.
func (c *Core) narrowed(d *destination) bool {
	near := func(id fabric.LinkID) bool {
		low := c.fabric.Node(c.fabric.Link(id).A.Node)
		_, crossed := c.over(d, id)
		return crossed || c.fabric.ThreeTier() && low.Tier != fabric.Host && (low.Pod == d.pod || low.Pod == c.pod)
	}
	return slices.ContainsFunc(c.deadLinks, near) || slices.ContainsFunc(c.slowLinks, near)
}

// keepAnother keeps another path if all are left and the kept one does not work either: the evidence against the
// others holds against it as well. Paths with links known to be dead are the last choice.
func (c *Core) keepAnother(s sample, why Reason) {
	d := s.d
	if !d.allDead() || s.path != d.kept || d.paths == 1 {
		return
	}
	dead := newBitmap(d.paths)
	for _, id := range c.deadLinks {
		if over, ok := c.over(d, id); ok {
			d.each(over, dead.set)
		}
	}
	for i := 1; i < d.paths; i++ {
		if p := (s.path + i*max(1, d.vs+1)) % d.paths; p != s.path && !dead.get(p) {
			d.kept, d.dirty = p, true
			c.movePieces(why)
			return
		}
	}
}

// spare returns the least loaded path to which a queue pair can move. ok is false if there is none.
func (c *Core) spare(p *piece) (path int, ok bool) {
	c.paths = slices.DeleteFunc(p.dst.good(c.paths[:0]), func(q int) bool {
		return q == int(p.path) || c.suspected(p.dst, q) >= 0
	})
	trusted := slices.DeleteFunc(slices.Clone(c.paths), func(q int) bool { return c.doubted(p.dst.way(q)) })
	if len(trusted) > 0 {
		c.paths = trusted
	}
	if len(c.paths) == 0 {
		return 0, false
	}
	return c.leastLoaded(p, BySilence, c.paths), true
}

// suspected returns the index of a path among the suspects, or -1.
func (c *Core) suspected(d *destination, path int) int {
	return slices.IndexFunc(c.suspects, func(s *suspect) bool { return s.d == d && s.path == path })
}

// suspect makes a path a suspect and sends a probe on it.
func (c *Core) suspect(s sample, since, wait fabric.Time) *suspect {
	if i := c.suspected(s.d, s.path); i >= 0 {
		return c.suspects[i]
	}
	c.nextQP++
	x := &suspect{sample: s, probe: c.nextQP, since: since, wait: max(wait, 1), until: c.now + wait}
	c.suspects = append(c.suspects, x)
	c.open = append(c.open, Piece{QP: x.probe, Dst: s.host, Label: c.label(s.d, s.path), Labelled: true, Start: c.now})
	return x
}

// Late reports an answer by a path, from a peer, to a queue pair that has left that path: the silent packets there
// were slow, and are not lost.
func (c *Core) Late(now fabric.Time, peer fabric.NodeID, l fabric.Label) {
	c.advance(now)
	for _, x := range c.suspects {
		if x.host == peer && c.label(x.d, x.path) == l {
			x.late = true
		}
	}
}

// suspectCleared records that a suspect's probe is answered. ok is false if qp is no such probe. Packets on a path
// stay in order: if nothing sent before the probe has been answered by then, one packet is lost.
func (c *Core) suspectCleared(qp QP) (ok bool) {
	i := slices.IndexFunc(c.suspects, func(x *suspect) bool { return x.probe == qp })
	if i < 0 {
		return false
	}
	x := c.suspects[i]
	c.suspects = slices.Delete(c.suspects, i, i+1)
	if !x.late && !x.judged && !x.timedOut && !c.excused(x.sample, x.since) {
		c.stats.Losses++
		c.testLoss(x.sample, 1)
	}
	x.d.dirty = true
	c.movePieces(Return)
	return true
}

// judgeSuspects decides about the suspects whose probes are late. A path that is then not left remains a suspect
// until its probe is answered, while a piece waits to return to it.
func (c *Core) judgeSuspects() {
	for {
		i := slices.IndexFunc(c.suspects, func(x *suspect) bool { return x.until <= c.now })
		if i < 0 {
			return
		}
		x := c.suspects[i]
		works := x.late || c.markedBy(x.sample) >= x.since
		queued := (x.d.marks.last >= x.since || c.hostSilent(x)) && x.waits < mostExcuses
		switch {
		case works:
			c.dropSuspect(i)
			x.d.dirty = true
			c.movePieces(Return)
		case x.timedOut:
			c.dropSuspect(i)
			c.timedOut(x.sample)
		default:
			x.waits = min(x.waits+1, maxLossyRounds)
			x.until = c.now + x.wait<<x.waits
			if !queued && !x.judged && !c.cfg.Losses.Pauses {
				x.judged = true
				c.stats.Losses += 2
				c.testLoss(x.sample, 2) // the silent packet, and the probe
			}
			c.dropIdle(x.d)
		}
	}
}

// awaited reports whether a piece is to return to a suspect's path.
func (c *Core) awaited(x *suspect) bool {
	for p := x.d.first; p != nil; p = p.next {
		if p.left > 0 && int(p.home) == x.path && p.path != p.home {
			return true
		}
	}
	return false
}

// dropIdle forgets the suspects among the paths to d whose probes stayed unanswered, and to which no piece is to
// return. A piece with nothing left to send returns when pieces are moved next.
func (c *Core) dropIdle(d *destination) {
	c.dropSuspects(func(x *suspect) bool {
		idle := x.d == d && x.waits > 0 && !c.awaited(x)
		d.dirty = d.dirty || idle
		return idle
	})
}

// dropDead forgets the suspects among the paths to d that are dead: these are decided.
func (c *Core) dropDead(d *destination) {
	c.dropSuspects(func(x *suspect) bool { return x.d == d && d.dead.get(x.path) })
}

// dropSuspects forgets the suspects for which drop is true, the latest first.
func (c *Core) dropSuspects(drop func(*suspect) bool) {
	for i, x := range slices.Backward(c.suspects) {
		if drop(x) {
			c.dropSuspect(i)
		}
	}
}

// dropSuspect forgets a suspect, and ends its probe.
func (c *Core) dropSuspect(i int) {
	c.closes = append(c.closes, c.suspects[i].probe)
	c.suspects = slices.Delete(c.suspects, i, i+1)
}

// marks are the times of the latest marks of packets to a ToR. Both slices are nil before the first mark.
type marks struct {
	last fabric.Time
	by   []fabric.Time // by way
	to   []fabric.Time // by host of the ToR
}

// Congested reports that a switch has marked a packet to a peer, or one from it, on a path. Losses on that path of
// packets sent until then are no reason to leave it.
func (c *Core) Congested(now fabric.Time, peer fabric.NodeID, l fabric.Label, inbound bool) {
	c.advance(now)
	if inbound {
		c.markedIn = c.now // acknowledgements of all peers come by the same link
		return
	}
	if !c.choice(peer) {
		return
	}
	d := c.towards(peer)
	if d.marks.to == nil {
		_, hosts := c.fabric.HostsOf(d.tor)
		d.marks.by, d.marks.to = longAgo(c.ways), longAgo(hosts)
	}
	first, _ := c.fabric.HostsOf(d.tor)
	d.marks.last, d.marks.to[peer-first] = c.now, c.now
	if path, ok := c.pathOf(d, l); ok {
		d.marks.by[d.way(path)] = c.now
		c.noteMark(d, path, peer)
	}
}

func (m *marks) rebase(now fabric.Time) {
	m.last = m.last.Rebase(now)
	for _, times := range [][]fabric.Time{m.by, m.to} {
		for i := range times {
			times[i] = times[i].Rebase(now)
		}
	}
}

func longAgo(n int) []fabric.Time {
	return slices.Repeat([]fabric.Time{fabric.LongAgo}, n)
}

// excused reports whether a packet on a path was marked since a time: one to the same ToR by the same uplink, or
// one to the same host, whose link is on all paths to it.
func (c *Core) excused(s sample, since fabric.Time) bool {
	if s.d.marks.to == nil {
		return false
	}
	first, _ := c.fabric.HostsOf(s.d.tor)
	return max(c.markedBy(s), s.d.marks.to[s.host-first]) >= since
}

// markedBy returns the time of the latest mark of a packet to a path's ToR by its uplink.
func (c *Core) markedBy(s sample) fabric.Time {
	if s.d.marks.by == nil {
		return fabric.LongAgo
	}
	return s.d.marks.by[s.d.way(s.path)]
}
