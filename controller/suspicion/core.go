package suspicion

import (
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Report is what an agent says of one path.
type Report struct {
	Host     fabric.NodeID // the agent's
	DstToR   fabric.NodeID
	Dst      fabric.NodeID // the host beneath it; NoHost: not said
	Label    fabric.Label
	Timeouts int // in a row; 0: the path works
}

// NoHost as a report's Dst means that the agent left it out.
const NoHost fabric.NodeID = -1

// Suspicion is a change of what is thought of a link.
type Suspicion struct {
	Link      fabric.LinkID
	Suspected bool
	Confirmed bool   // by lost probes
	Epoch     uint64 // counts this link's changes from 1
	At        fabric.Time
}

// Probe asks an agent to send small packets down a path and count what comes
// back.
type Probe struct {
	ID        uint64 // to be named in the result
	Link      fabric.LinkID
	Host, Dst fabric.NodeID // who sends, and to whom
	Label     fabric.Label
	Packets   int
	Timeout   fabric.Time // a packet that is not answered by then is lost
}

// Ready is what came up since the last call of [Core.Ready]. Suspicions are for
// all agents, in order; a probe is for the agent at its Host.
type Ready struct {
	Suspicions []Suspicion
	Probes     []Probe
}

// Stats counts what a core has seen and done.
type Stats struct {
	Reports   uint64 `json:"reports"`   // taken
	Explained uint64 `json:"explained"` // of those: by a link that is down or suspected
	Hosts     uint64 `json:"hosts"`     // of those: laid to a host
	Suspected uint64 `json:"suspected"`
	Confirmed uint64 `json:"confirmed"`
	Cleared   uint64 `json:"cleared"`
	Probes    uint64 `json:"probes"` // asked for
	Lost      uint64 `json:"lost"`   // of those: lost a packet
}

// Core is the state machine; see the package comment.
type Core struct {
	cfg   Config
	f     *fabric.Fabric
	now   fabric.Time
	links []link // by LinkID

	evidence  map[evidence]fabric.Time // when it was last reported
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

// link is what is thought of a link.
type link struct {
	down      bool // known to be: that explains everything
	suspected bool
	confirmed bool
	epoch     uint64
	since     fabric.Time // of the last evidence against it
	cleared   fabric.Time // when last; LongAgo: never
	relapses  uint8
	round     uint32      // of probes
	clean     int         // rounds without loss, in a row
	lossy     uint8       // rounds with loss, in a row
	silent    uint8       // rounds that nobody answered, in a row
	next      fabric.Time // round; Never: one is under way
	works     fabric.Time // a path over it was last said to work; LongAgo: never
	// While it is suspected: how many probes of it went over a link since one of those was not lost.
	tried map[fabric.LinkID]uint64
}

// bounds of what is kept, whatever agents say.
const (
	maxEvidence = 1 << 16
	maxTrials   = 64
	maxRelapses = 6
	maxLossy    = 16
)

// New returns a core that suspects nothing, or what [Config.Validate] reports.
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
		c.links[i].cleared, c.links[i].works = fabric.LongAgo, fabric.LongAgo
	}
	return c, nil
}

// Report takes what an agent says. It returns an error that wraps [ErrReport],
// and changes nothing, for a path that the fabric does not have.
func (c *Core) Report(now fabric.Time, r Report) error {
	c.advance(now)
	if err := c.check(r); err != nil {
		return err
	}
	c.stats.Reports++
	e := evidence{r.Host, r.DstToR, r.Dst, r.Label}
	c.hops, _ = c.f.Path(c.hops[:0], c.f.ToROf(r.Host), r.DstToR, r.Label)
	if r.Timeouts == 0 {
		delete(c.evidence, e)
		for _, h := range c.hops {
			c.links[h.Link].works = c.now
		}
		return nil
	}
	if id, ok := c.explained(c.hops); ok {
		c.stats.Explained++
		if l := &c.links[id]; l.suspected {
			l.since = c.now
		}
		return nil
	}
	if c.judgeAt == fabric.Never { // also when there is no room: judging forgets what is old
		c.judgeAt = c.now + c.cfg.Gather
	}
	if _, known := c.evidence[e]; known || len(c.evidence) < maxEvidence {
		c.evidence[e] = c.now
	}
	return nil
}

func (c *Core) check(r Report) error {
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

// explained returns a link among hops that is down or suspected.
func (c *Core) explained(hops []fabric.Hop) (fabric.LinkID, bool) {
	for _, h := range hops {
		if l := &c.links[h.Link]; l.down || l.suspected {
			return h.Link, true
		}
	}
	return 0, false
}

// LinkState says that a link is known to be down, or works. Whichever it is, a
// suspicion of it is void. It ignores links that the fabric does not have.
func (c *Core) LinkState(now fabric.Time, id fabric.LinkID, up bool) {
	c.advance(now)
	if id < 0 || int(id) >= len(c.links) || c.links[id].down == !up {
		return
	}
	l := &c.links[id]
	l.down = !up
	if l.suspected {
		c.clear(id)
	}
	l.relapses = 0
	for e := range c.evidence {
		if c.f.PathUses(c.f.ToROf(e.host), e.dstToR, e.label, id) {
			delete(c.evidence, e)
		}
	}
}

// Suspected returns the links that are suspected now, sorted. The slice is the
// core's: do not write to it, or keep it beyond the next call.
func (c *Core) Suspected() []fabric.LinkID { return c.suspected }

// Stats returns what the core has seen and done since it was made.
func (c *Core) Stats() Stats { return c.stats }

// Ready returns what came up since the last call.
func (c *Core) Ready() Ready {
	r := c.ready
	c.ready = Ready{}
	return r
}

// Tick does what is due.
func (c *Core) Tick(now fabric.Time) { c.advance(now) }

// Deadline returns when [Core.Tick] has something to do. ok is false when there
// is nothing to wait for.
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
		if l := &c.links[id]; l.next != fabric.Never {
			earlier(l.next)
		}
	}
	return at, ok
}

// advance moves the time on and does what is due by it.
func (c *Core) advance(now fabric.Time) {
	c.now = max(c.now, now)
	c.expireProbes()
	if c.judgeAt <= c.now {
		c.judgeAt = fabric.Never
		c.judge()
	}
	for _, id := range slices.Clone(c.suspected) {
		if l := &c.links[id]; l.next <= c.now {
			c.nextRound(id)
		}
	}
}

// Rebase has all later times count from now.
func (c *Core) Rebase(now fabric.Time) {
	c.now, c.judgeAt = c.now.Rebase(now), c.judgeAt.Rebase(now)
	for i := range c.links {
		l := &c.links[i]
		l.since, l.cleared, l.next, l.works = l.since.Rebase(now), l.cleared.Rebase(now), l.next.Rebase(now), l.works.Rebase(now)
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

// suspect blames a link.
func (c *Core) suspect(id fabric.LinkID, confirmed bool) bool {
	l := &c.links[id]
	at, listed := slices.BinarySearch(c.suspected, id)
	if listed || len(c.suspected) >= c.cfg.Most {
		return listed
	}
	c.suspected = slices.Insert(c.suspected, at, id)
	if c.now-l.cleared < c.cfg.Hold<<l.relapses {
		l.relapses = min(l.relapses+1, maxRelapses)
	} else {
		l.relapses = 0
	}
	l.suspected, l.confirmed, l.since, l.clean, l.lossy, l.silent = true, confirmed, c.now, 0, 0, 0
	l.tried = map[fabric.LinkID]uint64{}
	c.stats.Suspected++
	if confirmed {
		c.stats.Confirmed++
	}
	c.publish(id)
	c.nextRound(id)
	return true
}

// clear takes the blame back.
func (c *Core) clear(id fabric.LinkID) {
	l := &c.links[id]
	at, _ := slices.BinarySearch(c.suspected, id)
	c.suspected = slices.Delete(c.suspected, at, at+1)
	l.suspected, l.confirmed, l.cleared, l.tried = false, false, c.now, nil
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
