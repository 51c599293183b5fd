package hostagent

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// Verdict is the core's decision about a source quench: believed, or why it was ignored.
type Verdict uint8

// Verdicts. All but Believed leave the core unchanged.
const (
	Believed Verdict = iota
	Known            // the link at the port was already known to be dead
	Stale            // the quench is about an event older than one that is known, or that has been undone
	// it names no host, or a port on no path that this host uses to it; a notice: on none of this host's paths
	NotOurs
	NoChoice    // the port leads to a host, so there is no other path
	BadEpoch    // its epoch is too far ahead of earlier ones: see [Config].EpochWindow
	Unconfirmed // the controller did not confirm earlier quenches about this link
	RateLimited // too many quenches were accepted in a short time
)

func (v Verdict) String() string {
	return [...]string{"believed", "known", "stale", "not-ours", "no-choice", "bad-epoch", "unconfirmed", "rate-limited"}[v]
}

// quenches decides which quenches are believed.
type quenches struct {
	*paths
	pushes   *pushes
	tat      fabric.Time // theoretical arrival time of the rate limit
	memories expiries[fabric.LinkID]
}

// quenchedLink is what quenches reported about a link.
type quenchedLink struct {
	ends  [2]portEpoch // A, B
	until fabric.Time  // end of the memory; 0: none

	// The number of memories that ended although a connected controller never reported the link down, and the end of
	// the refusal of further quenches.
	unconfirmed uint8
	refuseUntil fabric.Time
}

// portEpoch is the last down event of a port that a quench reported.
type portEpoch struct {
	epoch         uint32 // 0: none
	repairedSince bool   // a controller has reported the link up since
}

// Quench reports a source quench or notice that this host received. The package comment says when the core accepts it.
func (c *Core) Quench(now fabric.Time, q frame.Quench) Verdict {
	c.advance(now)
	v := c.quenches.verdict(q)
	c.stats.Quenches[v]++
	if v == Believed {
		c.movePieces(ByQuench)
	}
	return v
}

// processNotice processes a notice. It also helps destinations to which this agent has not sent yet.
func (qs *quenches) processNotice(q frame.Quench) Verdict {
	id, ok := qs.fabric.LinkAt(q.Switch, q.Port)
	if !ok {
		return NotOurs
	}
	low := qs.fabric.Link(id).A.Node
	if !qs.fabric.Clos() {
		for i := range qs.fabric.ToRs() {
			if tor := qs.fabric.ToRID(i); tor != qs.tor && qs.pathLeavesBy(tor, id, q.Switch) {
				return qs.believe(q, id)
			}
		}
		return NotOurs
	}
	near := qs.fabric.Node(low).Tier == fabric.ToR && qs.fabric.InPlane(low, 0) == qs.tor
	switch n := qs.fabric.Node(low); n.Tier {
	case fabric.Host:
		if qs.fabric.Planes() == 1 || low == qs.cfg.Host {
			return NotOurs
		}
	case fabric.Aggregation:
		near = n.Pod == qs.pod
	}
	if near != (q.Switch == low) { // packets towards this host leave by the port
		return NotOurs
	}
	return qs.believe(q, id)
}

// verdict decides about a quench. If it is believed, the paths over the port's link are dead.
func (qs *quenches) verdict(q frame.Quench) Verdict {
	if q.Notice {
		return qs.processNotice(q)
	}
	host, ok := qs.fabric.HostByAddr(q.Dst)
	if !ok || host == qs.cfg.Host {
		return NotOurs
	}
	id, ok := qs.fabric.LinkAt(q.Switch, q.Port)
	if !ok {
		return NotOurs
	}
	link := qs.fabric.Link(id)
	tor := qs.fabric.ToROf(host)
	d := qs.lookup(tor, wholeRack)
	if qs.fabric.Node(link.A.Node).Tier == fabric.Host {
		switch {
		case link.A.Node != host:
			return NotOurs
		case qs.fabric.Planes() == 1:
			return NoChoice
		case d != nil: // the port does not matter for the other hosts of the rack
			d = &destination{tor: tor, host: host, firstUplink: d.firstUplink, aggUplinks: d.aggUplinks, paths: d.paths, used: d.used}
		}
	}
	if d == nil {
		d = qs.lookup(tor, host)
	}
	if d == nil {
		return NotOurs
	}
	s, ok := qs.pathsOver(d, id)
	if !ok || !qs.leavesSwitchBy(d, id, q.Switch) {
		return NotOurs
	}
	used := false
	d.eachPath(s, func(path int) { used = used || d.used.get(path) })
	if !used {
		return NotOurs
	}
	return qs.believe(q, id)
}

// believe marks a link dead if the quench about it is plausible, within the limits that keep a forged quench from
// doing harm.
func (qs *quenches) believe(q frame.Quench, id fabric.LinkID) Verdict {
	link := qs.fabric.Link(id)
	var l linkState // as known; stored only if the quench is believed
	if have := qs.links[id]; have != nil {
		l = *have
	}
	end := 0
	if q.Switch == link.B.Node {
		end = 1
	}
	last := l.quench.ends[end]
	switch ahead := int32(q.Epoch - last.epoch); { // serial number arithmetic
	case q.Epoch == 0 || last.epoch != 0 && ahead < 0:
		return Stale
	case last.epoch != 0 && ahead == 0:
		if last.repairedSince {
			return Stale
		}
		return Known
	case uint32(ahead) > qs.cfg.EpochWindow:
		return BadEpoch
	case l.quench.unconfirmed > 0 && l.evidence&reported == 0 && qs.now < l.quench.refuseUntil && qs.pushes.connected():
		return Unconfirmed
	}
	if !qs.admitQuench() {
		return RateLimited
	}
	p := qs.link(id)
	p.quench.ends[end] = portEpoch{epoch: q.Epoch}
	if p.evidence&quenched == 0 || p.evidence&reported != 0 || !qs.pushes.connected() {
		qs.remember(id, p) // otherwise a controller has to confirm it before the memory ends
	}
	p.evidence |= quenched
	if l.evidence != 0 {
		return Known
	}
	qs.markChanged(id)
	return Believed
}

// remember starts the memory of quenches about a link.
func (qs *quenches) remember(id fabric.LinkID, l *linkState) {
	l.quench.until = qs.now + qs.cfg.FailedPathMemory
	qs.memories.push(l.quench.until, id)
}

// forget forgets the quenches about a link that a controller reports up. Quenches of the same events may still be in
// flight, for a short time.
func (qs *quenches) forget(id fabric.LinkID, l *linkState) {
	l.evidence &^= quenched
	for i := range l.quench.ends {
		if l.quench.ends[i].epoch != 0 {
			l.quench.ends[i].repairedSince = true
			qs.remember(id, l)
		}
	}
}

// current reports whether a link's memory ends at a time: it may have been renewed.
func (qs *quenches) current(at fabric.Time, id fabric.LinkID) bool {
	l := qs.links[id]
	return l != nil && l.quench.until == at
}

// expire ends the memories that are due, and reports whether there were any.
func (qs *quenches) expire() (due bool) {
	for id := range qs.memories.due(qs.now, qs.current) {
		due = true
		l := qs.links[id]
		qs.noteUnconfirmed(l)
		l.evidence &^= quenched
		l.quench.until, l.quench.ends = 0, [2]portEpoch{}
		qs.markChanged(id)
		if l.evidence == 0 && l.push == (pushedLink{}) && l.quench.unconfirmed == 0 {
			delete(qs.links, id)
		}
	}
	return due
}

func (qs *quenches) rebase(now fabric.Time) {
	qs.tat = qs.tat.Rebase(now)
	qs.memories.rebase(now)
	for _, l := range qs.links {
		if l.quench.until != 0 {
			l.quench.until = l.quench.until.Rebase(now)
		}
		l.quench.refuseUntil = l.quench.refuseUntil.Rebase(now)
	}
}

// noteUnconfirmed is called when the memory of quenches about a link ends. A link that quenches report dead, but
// not the controller, is probably a forger's target: further quenches about it are refused, for twice as long each
// time.
func (qs *quenches) noteUnconfirmed(l *linkState) {
	if l.evidence&(quenched|reported) != quenched || !qs.pushes.connected() {
		return
	}
	l.quench.refuseUntil = qs.now + qs.cfg.FailedPathMemory<<l.quench.unconfirmed
	l.quench.unconfirmed = min(l.quench.unconfirmed+1, maxUnconfirmed)
}

// maxUnconfirmed bounds the time for which quenches about a link are refused: the memory is doubled at most that
// often.
const maxUnconfirmed = 7

// admitQuench is the rate limit, the generic cell rate algorithm.
func (qs *quenches) admitQuench() bool {
	burst := fabric.Time(qs.cfg.QuenchBurst-1) * qs.cfg.QuenchInterval
	if qs.tat-qs.now > burst {
		return false
	}
	qs.tat = max(qs.tat, qs.now) + qs.cfg.QuenchInterval
	return true
}
