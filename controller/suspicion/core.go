package suspicion

import (
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Report is an agent's report about one path.
type Report struct {
	Host     fabric.NodeID // host whose agent sends the report
	DstToR   fabric.NodeID
	Dst      fabric.NodeID // the destination host; NoHost: not given
	Label    fabric.Label
	Timeouts int // consecutive time-outs; 0: the path works
}

// NoHost as a report's Dst means that the agent did not give it.
const NoHost fabric.NodeID = -1

// Suspicion says that a link became suspected of losing packets, or no longer is.
type Suspicion struct {
	Link      fabric.LinkID
	Suspected bool
	Confirmed bool   // probes over the link were lost
	Epoch     uint64 // number of this link's changes, from 1
	At        fabric.Time
}

// Probe requests that an agent sends small packets on a path and counts the answers.
type Probe struct {
	ID        uint64 // number that the result must repeat
	Link      fabric.LinkID
	Host, Dst fabric.NodeID // the host that probes, and the destination
	Label     fabric.Label
	Packets   int
	Timeout   fabric.Time // a packet without answer by then is lost
}

// Ready is the work since the last call of [Core.Ready]. Suspicions are for all agents, in order; a probe is for
// the agent at its Host.
type Ready struct {
	Suspicions []Suspicion
	Probes     []Probe
}

// Stats counts a core's inputs and decisions.
type Stats struct {
	Reports   uint64 `json:"reports"`   // number of agents' reports accepted
	Explained uint64 `json:"explained"` // of these: explained by a link that is down or suspected
	Hosts     uint64 `json:"hosts"`     // of these: attributed to a host instead of a link
	Suspected uint64 `json:"suspected"`
	Confirmed uint64 `json:"confirmed"`
	Cleared   uint64 `json:"cleared"`
	Probes    uint64 `json:"probes"` // number of probes requested from agents
	Lost      uint64 `json:"lost"`   // of these: probes with a lost packet
}

// Core is the state machine that infers lossy links from agents' reports. See the package comment.
type Core struct {
	cfg   Config
	f     *fabric.Fabric
	now   fabric.Time
	links []link // by LinkID

	evidence  map[evidence]fabric.Time // time of the last report
	judgeAt   fabric.Time              // Never: nothing to judge
	suspected []fabric.LinkID          // sorted
	trials    []trial
	probes    map[uint64]*probe
	nextProbe uint64
	ready     Ready
	stats     Stats
	hops      []fabric.Hop
}

// evidence is a report without its time.
type evidence struct {
	host, dstToR, dst fabric.NodeID
	label             fabric.Label
}

// link is the state of a link.
type link struct {
	down         bool // known to be down, which explains all reports
	suspected    bool
	confirmed    bool
	epoch        uint64
	since        fabric.Time // of the last evidence against the link
	clearedAt    fabric.Time // time of the last clearing; LongAgo: never
	relapses     uint8
	round        uint32      // number of probe rounds
	cleanRounds  int         // consecutive rounds without loss
	lossyRounds  uint8       // consecutive rounds with loss
	silentRounds uint8       // consecutive rounds without answers
	nextRoundAt  fabric.Time // time of the next round; Never: one is in progress
	workedAt     fabric.Time // when a path over it was last reported to work; LongAgo: never
	// While it is suspected: per link, the number of its probes over that link since one of these was not lost.
	tried map[fabric.LinkID]uint64
}

// Limits of the stored state, whatever agents report.
const (
	maxEvidence = 1 << 16
	maxTrials   = 64
	maxRelapses = 6
	maxLossy    = 16
)

// New returns a core without suspicions, or the error of [Config.Validate].
func New(cfg Config) (*Core, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	c := &Core{
		cfg: cfg, f: cfg.Fabric, links: make([]link, cfg.Fabric.Links()),
		evidence: map[evidence]fabric.Time{}, judgeAt: fabric.Never, probes: map[uint64]*probe{},
	}
	for i := range c.links {
		c.links[i].clearedAt, c.links[i].workedAt = fabric.LongAgo, fabric.LongAgo
	}
	return c, nil
}

// Report processes an agent's report. For a path that the fabric does not have, it returns an error that wraps
// [ErrReport], and changes nothing.
func (c *Core) Report(now fabric.Time, r Report) error {
	c.advanceTo(now)
	if err := c.checkReport(r); err != nil {
		return err
	}
	c.stats.Reports++
	e := evidence{r.Host, r.DstToR, r.Dst, r.Label}
	c.hops, _ = c.f.Path(c.hops[:0], c.f.ToROf(r.Host), r.DstToR, r.Label)
	if r.Timeouts == 0 {
		delete(c.evidence, e)
		for _, h := range c.hops {
			c.links[h.Link].workedAt = c.now
		}
		return nil
	}
	if id, ok := c.knownCause(c.hops); ok {
		c.stats.Explained++
		if l := &c.links[id]; l.suspected {
			l.since = c.now
		}
		return nil
	}
	if c.judgeAt == fabric.Never { // also without room: judging forgets old reports
		c.judgeAt = c.now + c.cfg.Gather
	}
	if _, known := c.evidence[e]; known || len(c.evidence) < maxEvidence {
		c.evidence[e] = c.now
	}
	return nil
}

func (c *Core) checkReport(r Report) error {
	f := c.f
	switch {
	case r.Host < 0 || int(r.Host) >= f.Hosts():
		return fmt.Errorf("%w: no host %d; hosts are 0 to %d", ErrReport, r.Host, f.Hosts()-1)
	case int(r.DstToR) < f.Hosts() || int(r.DstToR) >= f.Nodes() || f.Node(r.DstToR).Tier != fabric.ToR:
		return fmt.Errorf("%w: node %d is no ToR; ToRs are %d to %d", ErrReport, r.DstToR, f.ToRID(0), f.ToRID(f.ToRs()-1))
	case r.DstToR == f.ToROf(r.Host):
		return fmt.Errorf("%w: host %d and %s: there is no link between a ToR and itself", ErrReport, r.Host, f.Name(r.DstToR))
	case r.Timeouts < 0:
		return fmt.Errorf("%w: %d time-outs", ErrReport, r.Timeouts)
	case r.Dst != NoHost && (r.Dst < 0 || int(r.Dst) >= f.Hosts() || f.ToROf(r.Dst) != r.DstToR):
		return fmt.Errorf("%w: node %d is no host under %s", ErrReport, r.Dst, f.Name(r.DstToR))
	}
	if _, ok := f.Path(nil, f.ToROf(r.Host), r.DstToR, r.Label); !ok {
		return fmt.Errorf("%w: label %d names no path", ErrReport, r.Label)
	}
	return nil
}

// knownCause returns a link among hops that is down or suspected.
func (c *Core) knownCause(hops []fabric.Hop) (fabric.LinkID, bool) {
	for _, h := range hops {
		if l := &c.links[h.Link]; l.down || l.suspected {
			return h.Link, true
		}
	}
	return 0, false
}

// LinkState reports that a link is down, or works. Either ends a suspicion of it. Links that the fabric does not have
// are ignored.
func (c *Core) LinkState(now fabric.Time, id fabric.LinkID, up bool) {
	c.advanceTo(now)
	if id < 0 || int(id) >= len(c.links) || c.links[id].down == !up {
		return
	}
	l := &c.links[id]
	l.down = !up
	if l.suspected {
		c.clearSuspicion(id)
	}
	l.relapses = 0
	for e := range c.evidence {
		if c.f.PathUses(c.f.ToROf(e.host), e.dstToR, e.label, id) {
			delete(c.evidence, e)
		}
	}
}

// Suspected returns the links that are suspected now, sorted. The slice belongs to the core: do not write to it, or
// keep it beyond the next call.
func (c *Core) Suspected() []fabric.LinkID { return c.suspected }

// Stats returns the counts since the core was made.
func (c *Core) Stats() Stats { return c.stats }

// Ready returns the work since the last call.
func (c *Core) Ready() Ready {
	r := c.ready
	c.ready = Ready{}
	return r
}

// Tick processes timers that have expired by now.
func (c *Core) Tick(now fabric.Time) { c.advanceTo(now) }

// Deadline returns when [Core.Tick] has something to do. ok is false if no timer runs.
func (c *Core) Deadline() (at fabric.Time, ok bool) {
	earlier := func(t fabric.Time) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	if c.judgeAt != fabric.Never {
		earlier(c.judgeAt)
	}
	for _, p := range c.probes {
		if !p.answered {
			earlier(p.due)
		}
	}
	for _, id := range c.suspected {
		if l := &c.links[id]; l.nextRoundAt != fabric.Never {
			earlier(l.nextRoundAt)
		}
	}
	return at, ok
}

// advanceTo moves the time on and does what is due.
func (c *Core) advanceTo(now fabric.Time) {
	c.now = max(c.now, now)
	c.expireProbes()
	if c.judgeAt <= c.now {
		c.judgeAt = fabric.Never
		c.judgeReports()
	}
	for _, id := range slices.Clone(c.suspected) {
		if l := &c.links[id]; l.nextRoundAt <= c.now {
			c.nextRound(id)
		}
	}
}

// Rebase makes now the zero of the core's clock.
func (c *Core) Rebase(now fabric.Time) {
	c.now, c.judgeAt = c.now.Rebase(now), c.judgeAt.Rebase(now)
	for i := range c.links {
		l := &c.links[i]
		l.since, l.clearedAt, l.nextRoundAt, l.workedAt = l.since.Rebase(now), l.clearedAt.Rebase(now), l.nextRoundAt.Rebase(now), l.workedAt.Rebase(now)
	}
	for e, at := range c.evidence {
		c.evidence[e] = at.Rebase(now)
	}
	for _, p := range c.probes {
		p.due = p.due.Rebase(now)
	}
	for i := range c.ready.Suspicions {
		s := &c.ready.Suspicions[i]
		s.At = s.At.Rebase(now)
	}
}

// suspect marks a link as suspected of losing packets.
func (c *Core) suspect(id fabric.LinkID, confirmed bool) bool {
	l := &c.links[id]
	at, listed := slices.BinarySearch(c.suspected, id)
	if listed || len(c.suspected) >= c.cfg.Most {
		return listed
	}
	c.suspected = slices.Insert(c.suspected, at, id)
	if c.now-l.clearedAt < c.cfg.Hold<<l.relapses {
		l.relapses = min(l.relapses+1, maxRelapses)
	} else {
		l.relapses = 0
	}
	l.suspected, l.confirmed, l.since, l.cleanRounds, l.lossyRounds, l.silentRounds = true, confirmed, c.now, 0, 0, 0
	l.tried = map[fabric.LinkID]uint64{}
	c.stats.Suspected++
	if confirmed {
		c.stats.Confirmed++
	}
	c.publish(id)
	c.nextRound(id)
	return true
}

// clearSuspicion ends the suspicion of a link.
func (c *Core) clearSuspicion(id fabric.LinkID) {
	l := &c.links[id]
	at, _ := slices.BinarySearch(c.suspected, id)
	c.suspected = slices.Delete(c.suspected, at, at+1)
	l.suspected, l.confirmed, l.clearedAt, l.tried = false, false, c.now, nil
	for n, p := range c.probes {
		if p.trial == 0 && p.link == id {
			delete(c.probes, n)
		}
	}
	c.stats.Cleared++
	c.publish(id)
}

func (c *Core) publish(id fabric.LinkID) {
	l := &c.links[id]
	l.epoch++
	c.ready.Suspicions = append(c.ready.Suspicions, Suspicion{
		Link: id, Suspected: l.suspected, Confirmed: l.confirmed, Epoch: l.epoch, At: c.now,
	})
}
