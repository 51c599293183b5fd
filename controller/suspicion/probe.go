package suspicion

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// trial is a set of links among which one is to be found.
type trial struct {
	id    uint64
	round int // of Config.Trials, from 1
	links []suspect
	open  int // number of unanswered probes
}

// suspect is a link on trial, with the result of the probe that lost least: a link cannot be worse than a path over
// it.
type suspect struct {
	link       fabric.LinkID
	sent, lost int
}

// probe is a path probe that an agent has not answered yet.
type probe struct {
	host, dst  fabric.NodeID
	label      fabric.Label
	link       fabric.LinkID
	trial      uint64 // 0: for a suspected link
	due        fabric.Time
	sent, lost int
	answered   bool
}

const (
	probersPerLink = 2 // number of hosts that probe a link at a time
	maxDoublings   = 4 // of a probe's time-out in a trial's rounds
)

// startTrial requests probes of the suspected links, to find the faulty one; round counts from 1 to [Config.Trials].
func (c *Core) startTrial(links []fabric.LinkID, round int) {
	if c.cfg.NoProbes || len(c.trials) >= maxTrials {
		return
	}
	for i := range c.trials {
		for _, s := range c.trials[i].links {
			if slices.Contains(links, s.link) {
				return // is on trial already
			}
		}
	}
	c.nextProbe++
	t := trial{id: c.nextProbe, round: round}
	for _, id := range links {
		t.links = append(t.links, suspect{link: id})
		l := &c.links[id]
		l.round++
		t.open += c.requestProbes(id, t.id, links, c.cfg.ProbeTimeout<<min(round-1, maxDoublings))
	}
	if t.open > 0 {
		c.trials = append(c.trials, t)
	}
}

// nextRound starts a suspected link's next round of probes.
func (c *Core) nextRound(id fabric.LinkID) {
	l := &c.links[id]
	if c.now >= c.suspicionEnd(l) {
		c.clearSuspicion(id)
		return
	}
	if c.cfg.NoProbes {
		l.nextRoundAt = c.suspicionEnd(l)
		return
	}
	l.nextRoundAt = fabric.Never
	if c.requestProbes(id, 0, nil, c.cfg.ProbeTimeout) == 0 {
		l.nextRoundAt = min(c.now+c.cfg.ProbeMost, c.suspicionEnd(l)) // there is no path to probe it
	}
}

// suspicionEnd returns the time at which a suspicion ends without new evidence.
func (c *Core) suspicionEnd(l *link) fabric.Time {
	if l.confirmed {
		return l.since + c.cfg.Forget
	}
	return l.since + c.cfg.Hold
}

// requestProbes requests probes of a link, if possible over paths without the others, and returns their number.
func (c *Core) requestProbes(id fabric.LinkID, trial uint64, others []fabric.LinkID, timeout fabric.Time) int {
	n := 0
	tried := c.links[id].tried
	if tried == nil {
		tried = map[fabric.LinkID]uint64{}
	}
	for i := range probersPerLink {
		p, ok := c.probePath(id, int(c.links[id].round)*probersPerLink+i, others, tried)
		if !ok {
			break
		}
		for _, h := range c.hopsOf(p.Host, p.Dst, p.Label) {
			tried[h.Link]++
		}
		c.nextProbe++
		p.ID, p.Link, p.Packets, p.Timeout = c.nextProbe, id, c.cfg.Packets, timeout
		// The answer has to reach the controller, too.
		c.probes[p.ID] = &probe{host: p.Host, dst: p.Dst, label: p.Label, link: id, trial: trial, due: c.now + 2*timeout}
		c.ready.Probes = append(c.ready.Probes, p)
		c.stats.Probes++
		n++
	}
	return n
}

// maxTries bounds the search for a probe's path.
const maxTries = 512

// hopsOf returns the path of a probe, valid until the next call of this or of another method.
func (c *Core) hopsOf(host, dst fabric.NodeID, l fabric.Label) []fabric.Hop {
	c.hops, _ = c.f.Path(c.hops[:0], c.f.ToROf(host), c.f.ToROf(dst), l)
	return c.hops
}

// knownDown is the cost of a link that is down, for a path: more than the rest of any path.
const knownDown = 1 << 32

// probePath returns a path over a link whose other links cost least: as few as possible on trial, suspected or
// down, and as few as possible tried before. Suspicions alone must not decide: a dead link without traffic, because
// everything else on its paths is avoided, is not suspected, and would be part of every probe. Different turns give
// different hosts.
func (c *Core) probePath(id fabric.LinkID, turn int, others []fabric.LinkID, tried map[fabric.LinkID]uint64) (best Probe, ok bool) {
	f := c.f
	tries, least := 0, uint64(0)
	c.eachPath(id, turn, func(src, dst fabric.NodeID, l fabric.Label) bool {
		hops, valid := f.Path(c.hops[:0], src, dst, l)
		c.hops = hops
		if !valid {
			return true
		}
		cost := uint64(0)
		for _, h := range hops {
			if h.Link == id {
				continue
			}
			cost += tried[h.Link]
			switch x := &c.links[h.Link]; {
			case x.down:
				cost += knownDown
			case x.suspected || slices.Contains(others, h.Link):
				cost++
			}
		}
		if !ok || cost < least {
			from, n := f.HostsOf(src)
			to, _ := f.HostsOf(dst)
			i := fabric.NodeID(turn / 2 % n)
			best, least, ok = Probe{Host: from + i, Dst: to + i, Label: l}, cost, true
			if turn%2 == 1 {
				best.Host, best.Dst = best.Dst, best.Host // the same links in the other direction
			}
		}
		tries++
		return least > 0 && tries < maxTries
	})
	return best, ok
}

// eachPath yields the paths over a link, from the ToRs below it, in an order that rotates with turn, until yield
// returns false. A path within the pod comes first.
func (c *Core) eachPath(id fabric.LinkID, turn int, yield func(src, dst fabric.NodeID, l fabric.Label) bool) {
	f := c.f
	spec := f.Spec()
	end := f.Link(id).A
	n := f.Node(end.Node)
	up := int(end.Port) - int(n.FirstUplink())
	at := func(first, count, i int) int { return first + (i+turn)%count }
	switch n.Tier {
	case fabric.ToR:
		pod := n.Pod * spec.ToRsPerPod
		for i := range spec.ToRsPerPod {
			if d := at(pod, spec.ToRsPerPod, i); d != n.Index && !yield(n.ID, f.ToRID(d), f.LabelFor(up, 0)) {
				return
			}
		}
		if !f.ThreeTier() {
			return
		}
		for i := range f.ToRs() {
			d := at(0, f.ToRs(), i)
			if d/spec.ToRsPerPod == n.Pod {
				continue
			}
			vs := f.Node(f.AggID(0)).Uplinks()
			for v := range vs {
				if !yield(n.ID, f.ToRID(d), f.LabelFor(up, (v+turn/probersPerLink)%vs)) {
					return
				}
			}
		}
	case fabric.Aggregation:
		l := f.LabelFor(n.Index%spec.AggsPerPod, up)
		for i := range f.ToRs() {
			d := at(0, f.ToRs(), i)
			if d/spec.ToRsPerPod == n.Pod {
				continue
			}
			for j := range spec.ToRsPerPod {
				if s := at(n.Pod*spec.ToRsPerPod, spec.ToRsPerPod, j); !yield(f.ToRID(s), f.ToRID(d), l) {
					return
				}
			}
		}
	}
}

// ProbeResult processes the result of a probe that was requested from host, and returns the probe's path. ok is
// false if it was not requested from that host.
func (c *Core) ProbeResult(now fabric.Time, host fabric.NodeID, id uint64, sent, lost int) (path ProbedPath, ok bool) {
	c.advanceTo(now)
	p := c.probes[id]
	if p == nil || p.host != host || p.answered || sent < 1 || lost < 0 || lost > sent {
		return ProbedPath{}, false
	}
	p.answered, p.sent, p.lost = true, sent, lost
	if lost > 0 {
		c.stats.Lost++
	} else {
		for _, h := range c.hopsOf(p.host, p.dst, p.label) {
			c.links[h.Link].workedAt = c.now
			delete(c.links[p.link].tried, h.Link)
		}
	}
	c.probeEnded(id, p)
	return ProbedPath{c.f.ToROf(p.host), c.f.ToROf(p.dst), p.label}, true
}

// ProbedPath is the path of a probe.
type ProbedPath struct {
	SrcToR, DstToR fabric.NodeID
	Label          fabric.Label
}

// expireProbes gives up the probes of hosts that do not answer.
func (c *Core) expireProbes() {
	var late []uint64
	for id, p := range c.probes {
		if !p.answered && p.due <= c.now {
			late = append(late, id)
		}
	}
	slices.Sort(late)
	for _, id := range late {
		if p := c.probes[id]; p != nil {
			c.probeEnded(id, p)
		}
	}
}

// probeEnded processes a probe that was answered or has timed out.
func (c *Core) probeEnded(id uint64, p *probe) {
	if p.trial == 0 {
		c.roundEnded(p)
		return
	}
	delete(c.probes, id)
	i := slices.IndexFunc(c.trials, func(t trial) bool { return t.id == p.trial })
	if i < 0 {
		return
	}
	t := &c.trials[i]
	for j := range t.links {
		if s := &t.links[j]; s.link == p.link && p.sent > 0 && (s.sent == 0 || p.lost*s.sent < s.lost*p.sent) {
			s.sent, s.lost = p.sent, p.lost
		}
	}
	if t.open--; t.open > 0 {
		return
	}
	found, round := t.links, t.round
	c.trials = slices.Delete(c.trials, i, i+1)
	c.concludeTrial(found, round)
}

// concludeTrial suspects the links on trial that lost most, or tries these again if it was not the last round. It
// forgets the reports that led there: their cause is now known, or was temporary.
func (c *Core) concludeTrial(links []suspect, round int) {
	worst := suspect{sent: 1}
	answered := false
	for _, s := range links {
		answered = answered || s.sent > 0
		if s.lost*worst.sent > worst.lost*s.sent {
			worst = s
		}
	}
	if !answered {
		return // no agent can probe; the next report tries again
	}
	var lost []fabric.LinkID
	for _, s := range links {
		if s.lost > 0 && s.lost*worst.sent >= worst.lost*s.sent && !c.links[s.link].down {
			lost = append(lost, s.link)
		}
	}
	if len(lost) > 0 && round < c.cfg.Trials {
		c.startTrial(lost, round+1)
		return
	}
	for _, id := range lost {
		c.suspect(id, true)
	}
	for e := range c.evidence {
		for _, s := range links {
			if c.f.PathUses(c.f.ToROf(e.host), e.dstToR, e.label, s.link) {
				delete(c.evidence, e)
				break
			}
		}
	}
}

// roundEnded checks whether a suspected link's round of probes is complete.
func (c *Core) roundEnded(p *probe) {
	p.answered = true // or given up
	open, sent, clean := false, false, false
	var round []uint64
	for n, q := range c.probes {
		if q.trial != 0 || q.link != p.link {
			continue
		}
		round = append(round, n)
		open = open || !q.answered
		sent, clean = sent || q.sent > 0, clean || q.sent > 0 && q.lost == 0
	}
	if open {
		return
	}
	for _, n := range round {
		delete(c.probes, n)
	}
	l := &c.links[p.link]
	if sent {
		l.silentRounds = 0
	}
	switch {
	case !l.suspected:
		return
	case sent && !clean:
		l.since, l.cleanRounds = c.now, 0
		l.round++ // another path
		l.lossyRounds = min(l.lossyRounds+1, maxLossy)
		if !l.confirmed {
			l.confirmed = true
			c.stats.Confirmed++
			c.publish(p.link)
		}
		l.nextRoundAt = c.now + min(c.cfg.ProbeEvery<<l.lossyRounds, c.cfg.ProbeMost)
	case sent:
		if l.cleanRounds++; l.cleanRounds >= c.cfg.CleanRounds<<l.relapses {
			c.clearSuspicion(p.link)
			return
		}
		l.nextRoundAt = c.now + c.cfg.ProbeEvery
	default: // No answers.
		l.round++
		l.nextRoundAt = max(c.now, min(c.now+min(c.cfg.ProbeEvery<<l.silentRounds, c.cfg.ProbeMost), c.suspicionEnd(l)))
		l.silentRounds = min(l.silentRounds+1, maxLossy)
	}
}
