package hostagent

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// pushes decides which of the controllers' reports are followed.
type pushes struct {
	*paths
	instance      string      // the controller instance that is followed
	connectedOnce bool        // instance is set
	lastUpdateAt  fabric.Time // time of the last update or heartbeat
}

// pushedLink has the epochs of a controller's reports about a link; 0: none.
type pushedLink struct {
	epoch        uint64 // of its state
	suspectEpoch uint64
	rateEpoch    uint64
}

// connected reports whether a controller is connected that would confirm a dead link.
func (p *pushes) connected() bool { return p.connectedOnce && p.now-p.lastUpdateAt <= p.cfg.Silence }

// Update processes a controller's report of link states: all links (a snapshot) or changes. It ignores reports of
// controller instances other than the last that sent a snapshot, and link states whose epoch is not higher than the
// known one.
func (c *Core) Update(now fabric.Time, u *statepb.Update) {
	c.advance(now)
	if u == nil {
		return
	}
	followed, replaces := c.pushes.follow(u)
	if !followed {
		return
	}
	if replaces {
		c.replaceLinkStates(u)
	}
	for _, s := range u.GetLinks() {
		if l := c.pushes.linkIfNewer(s.GetLink(), s.GetEpoch(), func(p *pushedLink) *uint64 { return &p.epoch }); l != nil {
			id := fabric.LinkID(s.GetLink())
			l.quench.unconfirmed, l.quench.refuseUntil = 0, 0
			if s.GetUp() {
				c.reviveLink(id, l)
			} else {
				l.evidence |= reported
			}
			c.markChanged(id)
		}
	}
	for _, s := range u.GetSuspects() {
		if l := c.pushes.linkIfNewer(s.GetLink(), s.GetEpoch(), func(p *pushedLink) *uint64 { return &p.suspectEpoch }); l != nil {
			l.evidence &^= suspected
			if s.GetSuspected() {
				l.evidence |= suspected
			}
			c.markChanged(fabric.LinkID(s.GetLink()))
		}
	}
	c.movePieces(ByPush)
	for _, r := range u.GetRates() {
		if l := c.pushes.linkIfNewer(r.GetLink(), r.GetEpoch(), func(p *pushedLink) *uint64 { return &p.rateEpoch }); l != nil {
			c.takeRate(fabric.LinkID(r.GetLink()), l, r.GetBitsPerSecond())
		}
	}
}

// follow reports whether a controller's update counts, and whether it replaces an earlier instance's reports.
func (p *pushes) follow(u *statepb.Update) (followed, replaces bool) {
	p.lastUpdateAt = p.now
	if u.GetHeartbeat() {
		return false, false
	}
	replaces = p.connectedOnce && u.GetInstance() != p.instance
	if replaces && !u.GetSnapshot() {
		p.stats.UpdatesIgnored++
		return false, false
	}
	p.connectedOnce, p.instance = true, u.GetInstance()
	return true, replaces
}

// linkIfNewer returns a link if a report about it is newer than the one before of the same kind, whose epoch it
// replaces; otherwise nil.
func (p *pushes) linkIfNewer(link uint32, epoch uint64, of func(*pushedLink) *uint64) *linkState {
	id := fabric.LinkID(link)
	if !p.hasChoice(link) || epoch == 0 || p.links[id] != nil && epoch <= *of(&p.links[id].push) {
		p.stats.LinksIgnored++
		return nil
	}
	l := p.link(id)
	*of(&l.push) = epoch
	return l
}

// replaceLinkStates forgets the reports of the controller instance before u's. A link is up if the old instance
// reported it down and the new one does not; the same holds for suspicions.
func (c *Core) replaceLinkStates(u *statepb.Update) {
	down := make(map[uint32]bool)
	for _, s := range u.GetLinks() {
		down[s.GetLink()] = !s.GetUp()
	}
	for _, id := range slices.Clone(c.deadLinks) {
		if l := c.links[id]; l.evidence&reported != 0 && !down[uint32(id)] {
			c.reviveLink(id, l)
			c.markChanged(id)
		}
	}
	for _, id := range slices.Clone(c.deadLinks) {
		if l := c.links[id]; l.evidence&suspected != 0 {
			l.evidence &^= suspected
			c.markChanged(id)
		}
	}
	c.slowLinks = c.slowLinks[:0]
	for _, l := range c.links {
		l.push = pushedLink{}
	}
}

// reviveLink forgets all evidence against a link that a controller reports up, except a suspicion, and against the
// paths over it.
func (c *Core) reviveLink(id fabric.LinkID, l *linkState) {
	l.evidence &^= reported
	c.quenches.forget(id, l)
	c.questions.forgetLink(id)
	crosses := func(s hostPath) bool { return c.crosses(s.d, s.path, id) }
	c.questions.forgetAll(crosses)
	c.losses.forget(crosses)
	c.timeouts.forget(id)
}
