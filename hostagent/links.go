package hostagent

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// linkState is the core's knowledge of one link.
type linkState struct {
	down         bool         // reported by a controller
	epoch        uint64       // of that report; 0: none
	quench       bool         // reported by a quench
	suspected    bool         // suspected by a controller, from all agents' time-outs
	silent       bool         // this host's questions found it dead
	suspectEpoch uint64       // of that suspicion; 0: none
	until        fabric.Time  // end of the memory of quenches; 0: none
	ends         [2]portEpoch // as in quenches: A, B
	weight       uint32       // by its rate, of fullRate; valid only for links in slowLinks
	rateEpoch    uint64       // of a controller's report of its rate; 0: none

	// The number of memories of quenches that ended although a connected controller never reported the link down,
	// and the end of the refusal of further quenches about the link.
	unconfirmed uint8
	refuseUntil fabric.Time
}

// portEpoch is the last down event of a port that a quench reported.
type portEpoch struct {
	epoch  uint32 // 0: none
	undone bool   // a controller has reported the link up since
}

func (l *linkState) dead() bool { return l.down || l.quench || l.suspected || l.silent }

func (c *Core) link(id fabric.LinkID) *linkState {
	l := c.links[id]
	if l == nil {
		l = new(linkState)
		c.links[id] = l
	}
	return l
}

// mark records that a link's state may have changed: the next movePieces recomputes the paths over it.
func (c *Core) mark(id fabric.LinkID) {
	at, listed := slices.BinarySearch(c.deadLinks, id)
	switch dead := c.links[id].dead(); {
	case dead && !listed:
		c.deadLinks = slices.Insert(c.deadLinks, at, id)
		c.noteCutOff(id, 1)
	case !dead && listed:
		c.deadLinks = slices.Delete(c.deadLinks, at, at+1)
		c.noteCutOff(id, -1)
	}
	for _, d := range c.destinations {
		if _, ok := c.over(d, id); ok {
			d.dirty = true
		}
	}
}

// noteCutOff updates the count of another host's dead links: see [Core.towards].
func (c *Core) noteCutOff(id fabric.LinkID, change int) {
	host := c.fabric.Link(id).A.Node
	if c.fabric.Node(host).Tier != fabric.Host || host == c.cfg.Host {
		return
	}
	if c.cutOff[host] += change; c.cutOff[host] == 0 {
		delete(c.cutOff, host)
		return
	}
	rack := c.known(c.fabric.ToROf(host), wholeRack)
	if rack == nil {
		return
	}
	var theirs *destination
	for p, next := rack.first, (*piece)(nil); p != nil; p = next {
		if next = p.next; p.host != host {
			continue
		}
		if theirs == nil {
			theirs = c.destination(rack.tor, host)
		}
		rack.unlink(p)
		rack.bytes[p.path] -= p.left
		p.race = nil
		p.dst = theirs
		theirs.link(p)
		theirs.bytes[p.path] += p.left
		theirs.used.set(int(p.path))
	}
}

// hasChoice reports whether a link exists and has alternatives: a host's only link has none.
func (c *Core) hasChoice(id uint32) bool {
	return int64(id) < int64(c.fabric.Links()) && (c.fabric.Planes() > 1 || int(id) >= c.fabric.Hosts())
}

// Timeout reports that a queue pair's retransmission timer expired. If packets to that ToR were marked within
// [Config.Calm], congestion may be the cause: a probe on the path decides.
func (c *Core) Timeout(now fabric.Time, qp QP) {
	c.advance(now)
	c.stats.Timeouts++
	p := c.pieces.get(qp)
	if p == nil && c.probeLost(qp) {
		return
	}
	if p == nil || p.dst == nil || c.now-p.flipped < c.grace(p.dst) {
		c.stats.TimeoutsIgnored++
		return
	}
	p.race = nil
	s := sample{p.dst, int(p.path), p.host}
	if c.cfg.Asks && !s.d.dead.get(s.path) {
		if q := c.question(s); q.state != asking {
			q.expired = true
			c.ask(q)
		}
		return
	}
	c.timedOut(s)
	c.keepAnother(s, ByTimeout)
}

// timedOut marks a path as dead.
func (c *Core) timedOut(s sample) {
	d := s.d
	if d.isGood(s.path) && !d.dead.get(s.path) {
		c.failed = append(c.failed, Failed{Dst: s.host, DstToR: d.tor, Label: c.label(d, s.path)})
	}
	if d.until == nil {
		d.until = make([]fabric.Time, d.paths)
	}
	until := c.now + c.cfg.FailedPathMemory
	d.until[s.path] = until
	c.expiries.push(expiry{at: until, dst: d, path: s.path})
	d.dirty = true
	c.movePieces(ByTimeout)
}

// Quench reports a source quench from a switch to this host. See the package comment on when it is believed.
func (c *Core) Quench(now fabric.Time, q frame.Quench) Verdict {
	c.advance(now)
	v := c.quench(q)
	c.stats.Quenches[v]++
	return v
}

// noticed processes a notice. It also helps destinations to which this agent has not sent yet.
func (c *Core) noticed(q frame.Quench) Verdict {
	id, ok := c.fabric.LinkAt(q.Switch, q.Port)
	if !ok {
		return NotOurs
	}
	low := c.fabric.Link(id).A.Node
	near := c.fabric.Node(low).Tier == fabric.ToR && c.fabric.InPlane(low, 0) == c.tor
	switch n := c.fabric.Node(low); n.Tier {
	case fabric.Host:
		if c.fabric.Planes() == 1 || low == c.cfg.Host {
			return NotOurs
		}
	case fabric.Aggregation:
		near = n.Pod == c.pod
	}
	if near != (q.Switch == low) { // packets towards this host leave by the port
		return NotOurs
	}
	return c.believe(q, id)
}

func (c *Core) quench(q frame.Quench) Verdict {
	if q.Notice {
		return c.noticed(q)
	}
	host, ok := c.fabric.HostByAddr(q.Dst)
	if !ok || host == c.cfg.Host {
		return NotOurs
	}
	id, ok := c.fabric.LinkAt(q.Switch, q.Port)
	if !ok {
		return NotOurs
	}
	link := c.fabric.Link(id)
	tor := c.fabric.ToROf(host)
	d := c.known(tor, wholeRack)
	if c.fabric.Node(link.A.Node).Tier == fabric.Host {
		switch {
		case link.A.Node != host:
			return NotOurs
		case c.fabric.Planes() == 1:
			return NoChoice
		case d != nil: // the port does not matter for the other hosts of the rack
			d = &destination{tor: tor, host: host, way0: d.way0, vs: d.vs, paths: d.paths, used: d.used}
		}
	}
	if d == nil {
		d = c.known(tor, host)
	}
	if d == nil {
		return NotOurs
	}
	s, ok := c.over(d, id)
	if !ok || !c.leaves(d, id, q.Switch) {
		return NotOurs
	}
	used := false
	d.each(s, func(path int) { used = used || d.used.get(path) })
	if !used {
		return NotOurs
	}
	return c.believe(q, id)
}

// believe marks a link dead if the quench about it is plausible, within the limits that keep a forged quench from
// doing harm.
func (c *Core) believe(q frame.Quench, id fabric.LinkID) Verdict {
	link := c.fabric.Link(id)
	var l linkState // as known; stored only if the quench is believed
	if have := c.links[id]; have != nil {
		l = *have
	}
	end := 0
	if q.Switch == link.B.Node {
		end = 1
	}
	last := l.ends[end]
	switch ahead := int32(q.Epoch - last.epoch); { // serial number arithmetic
	case q.Epoch == 0 || last.epoch != 0 && ahead < 0:
		return Stale
	case last.epoch != 0 && ahead == 0:
		if last.undone {
			return Stale
		}
		return Known
	case uint32(ahead) > c.cfg.EpochWindow:
		return BadEpoch
	case l.unconfirmed > 0 && !l.down && c.now < l.refuseUntil && c.connected():
		return Unconfirmed
	}
	if !c.admitQuench() {
		return RateLimited
	}
	was := l.dead()
	p := c.link(id)
	p.ends[end] = portEpoch{epoch: q.Epoch}
	if !p.quench || p.down || !c.connected() { // otherwise a controller has to confirm it before the memory ends
		p.until = c.now + c.cfg.FailedPathMemory
		c.expiries.push(expiry{at: p.until, link: id})
	}
	p.quench = true
	if was {
		return Known
	}
	c.mark(id)
	c.movePieces(ByQuench)
	return Believed
}

// connected reports whether a controller is connected that would confirm a dead link.
func (c *Core) connected() bool { return c.connectedOnce && c.now-c.heardAt <= c.cfg.Silence }

// mostUnconfirmed bounds the time for which quenches about a link are refused: the memory is doubled at most that
// often.
const mostUnconfirmed = 7

// noteUnconfirmed is called when the memory of quenches about a link ends. A link that quenches report dead, but
// not the controller, is probably a forger's target: further quenches about it are refused, for twice as long each
// time.
func (c *Core) noteUnconfirmed(l *linkState) {
	if !l.quench || l.down || !c.connected() {
		return
	}
	l.refuseUntil = c.now + c.cfg.FailedPathMemory<<l.unconfirmed
	l.unconfirmed = min(l.unconfirmed+1, mostUnconfirmed)
}

// admitQuench is the rate limit, the generic cell rate algorithm.
func (c *Core) admitQuench() bool {
	burst := fabric.Time(c.cfg.QuenchBurst-1) * c.cfg.QuenchInterval
	if c.quenchTAT-c.now > burst {
		return false
	}
	c.quenchTAT = max(c.quenchTAT, c.now) + c.cfg.QuenchInterval
	return true
}

// Update processes a controller's report: a snapshot or changes. It ignores controller instances other than the
// last that sent a snapshot, and link states whose epoch is not higher than the known one.
func (c *Core) Update(now fabric.Time, u *statepb.Update) {
	c.advance(now)
	if u == nil {
		return
	}
	c.heardAt = c.now
	if u.GetHeartbeat() {
		return
	}
	switch {
	case !c.connectedOnce:
	case u.GetInstance() == c.instance:
	case !u.GetSnapshot():
		c.stats.UpdatesIgnored++
		return
	default:
		c.replace(u)
	}
	c.connectedOnce, c.instance = true, u.GetInstance()
	for _, s := range u.GetLinks() {
		id := fabric.LinkID(s.GetLink())
		if !c.hasChoice(s.GetLink()) {
			c.stats.LinksIgnored++
			continue
		}
		if known := c.links[id]; s.GetEpoch() == 0 || known != nil && s.GetEpoch() <= known.epoch {
			c.stats.LinksIgnored++
			continue
		}
		l := c.link(id)
		l.epoch, l.unconfirmed, l.refuseUntil = s.GetEpoch(), 0, 0
		if s.GetUp() {
			c.revive(id, l)
		} else {
			l.down = true
		}
		c.mark(id)
	}
	for _, s := range u.GetSuspects() {
		id := fabric.LinkID(s.GetLink())
		if !c.hasChoice(s.GetLink()) {
			c.stats.LinksIgnored++
			continue
		}
		l := c.link(id)
		if s.GetEpoch() <= l.suspectEpoch {
			c.stats.LinksIgnored++
			continue
		}
		l.suspectEpoch, l.suspected = s.GetEpoch(), s.GetSuspected()
		c.mark(id)
	}
	c.movePieces(ByPush)
	for _, r := range u.GetRates() {
		c.takeRate(r)
	}
}

// replace forgets the reports of the controller instance before u's. A link is up if the old instance reported it
// down and the new one does not; the same holds for suspicions.
func (c *Core) replace(u *statepb.Update) {
	down := make(map[uint32]bool)
	for _, s := range u.GetLinks() {
		down[s.GetLink()] = !s.GetUp()
	}
	for _, id := range slices.Clone(c.deadLinks) {
		if l := c.links[id]; l.down && !down[uint32(id)] {
			c.revive(id, l)
			c.mark(id)
		}
	}
	for _, id := range slices.Clone(c.deadLinks) {
		if l := c.links[id]; l.suspected {
			l.suspected = false
			c.mark(id)
		}
	}
	c.slowLinks = c.slowLinks[:0]
	for _, l := range c.links {
		l.epoch, l.suspectEpoch, l.rateEpoch = 0, 0, 0
	}
}

// revive forgets all reports against a link that a controller reports up: quenches, and time-outs on the paths over
// it.
func (c *Core) revive(id fabric.LinkID, l *linkState) {
	l.down, l.quench = false, false
	c.absolve(id)
	c.forgetLosses(id)
	for i := range l.ends {
		if l.ends[i].epoch != 0 {
			l.ends[i].undone = true
			// Quenches of that event may still be in flight, for a short time.
			l.until = c.now + c.cfg.FailedPathMemory
			c.expiries.push(expiry{at: l.until, link: id})
		}
	}
	for _, d := range c.destinations {
		if d.until == nil {
			continue
		}
		if s, ok := c.over(d, id); ok {
			d.each(s, func(path int) { d.until[path] = 0 })
		}
	}
}
