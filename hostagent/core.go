package hostagent

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// QP identifies a queue pair of this agent. Numbers start at 1 and are never reused; they are not the NIC's.
type QP uint32

// Flow is one message to send.
type Flow struct {
	ID    uint64        // the caller's; not interpreted
	Dst   fabric.NodeID // a host
	Bytes int64         // at least 1
}

// Piece is a part of a flow, or all of it, on its own queue pair.
//
// A piece of no bytes is a probe: a zero-length write, about which the core needs the same reports as about the
// others.
type Piece struct {
	QP       QP
	Flow     uint64 // the flow's ID
	Dst      fabric.NodeID
	Offset   int64 // in the flow, bytes
	Bytes    int64
	Label    fabric.Label
	Labelled bool        // false: the destination is under this host's own ToR
	Start    fabric.Time // earliest time to send
}

// Reason is why a piece changes its path.
type Reason uint8

// Reasons. All but Return name the report about the old path.
const (
	ByTimeout Reason = iota
	ByQuench
	ByPush    // a controller's update
	ByLoss    // the path loses packets, though not all
	BySlow    // the path works, but slower than others, and keeps a share
	BySilence // the path does not answer probes, though others do
	Return    // the piece's home path is good again, or any path after all were dead
)

var reasons = [...]string{"timeout", "quench", "push", "loss", "slow", "silence", "return"}

func (r Reason) String() string { return reasons[r] }

// MarshalText returns the reason's name.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the name of a reason.
func (r *Reason) UnmarshalText(text []byte) error {
	i := slices.Index(reasons[:], string(text))
	if i < 0 {
		return fmt.Errorf("hostagent: reason %q is none of %v", text, reasons)
	}
	*r = Reason(i)
	return nil
}

// Flip moves a queue pair to another path. Bytes in flight on the old one may be lost.
type Flip struct {
	QP       QP
	From, To fabric.Label
	Reason   Reason
	Dead     bool // From is dead or suspected: retransmit what is in flight on it
}

// Ready lists the driver's work, in this order: open queue pairs for Open, then relabel those in Flip, then close
// the probes in Close. A queue pair can be in several. Path probes are in Ask: see [Config].Asks.
//
// Failed is for a controller that combines the agents' time-outs; ignore it without one.
type Ready struct {
	Open   []Piece
	Flip   []Flip
	Close  []QP
	Ask    []Ask
	Failed []Failed
}

// Failed is a path that timed out, or was left because of losses, though no link on it was known to be dead.
type Failed struct {
	Dst, DstToR fabric.NodeID // destination host, and its ToR
	Label       fabric.Label
}

// Stats counts a core's inputs and decisions since it was made.
type Stats struct {
	Flows, Pieces, Flips, Returns uint64
	Timeouts, TimeoutsIgnored     uint64
	Losses                        uint64                  // packets and ACKs reported by [Core.Lost]
	LossesIgnored, LossesExcused  uint64                  // of these: on paths already left; where switches marked
	Overdue                       uint64                  // reports of [Core.Overdue]
	PathProbes, ProbesHeld        uint64                  // sent; questions not put because of the rate limit
	PathsAlive                    uint64                  // answered questions
	PathsDead, PathsBack          uint64                  // paths left because of a question; of these: that answered later
	LinksConvicted                uint64                  // links found dead because several paths over them were
	Left, CameBack                uint64                  // sets of paths, because of losses
	Slow                          uint64                  // number of times that the share of a path or an uplink was halved
	SlowHosts                     uint64                  // of these: undone, because the destination was slow
	Quenches                      [RateLimited + 1]uint64 // by [Verdict]
	UpdatesIgnored                uint64                  // from a superseded controller instance
	LinksIgnored                  uint64                  // link states that are not newer, or name no link
}

// ErrFlow is wrapped by every error of [Core.Post].
var ErrFlow = errors.New("hostagent: bad flow")

// Core is the state machine. Make one with [New]; see the package comment for
// the rules of its use.
type Core struct {
	cfg     Config
	fabric  *fabric.Fabric
	tor     fabric.NodeID // this host's ToR
	pod     int
	share   int // number of uplinks of a ToR of this host that it uses
	from    int // the first of them; the others follow, modulo the ToR's uplinks
	uplinks int // used uplinks, over all planes: those of plane q are q*share to q*share+share-1
	ways    int // uplinks; with planes, then one way per plane through the ToR alone
	aggUps  int // uplinks of an aggregation switch; 1 in two tiers
	aggs    int // aggregation switches per pod; 0 in two tiers
	rng     *rand.Rand
	now     fabric.Time

	nextQP       QP
	pieces       pieces
	destinations []*destination // used so far, in order of ToR and host
	recent       *destination   // one of destinations
	uplinkBytes  []int64        // outstanding, by way, over all destinations

	links         map[fabric.LinkID]*linkState
	cutOff        map[fabric.NodeID]int // with planes: the number of dead links per other host
	deadLinks     []fabric.LinkID       // ascending
	slowLinks     []fabric.LinkID       // ascending: links with less than their full rate
	instance      string                // the controller instance that is followed
	connectedOnce bool                  // instance is set
	heardAt       fabric.Time           // time of the last update or heartbeat
	expiries      expiryQueue
	quenchTAT     fabric.Time // theoretical arrival time of the quench rate limit
	stats         Stats

	lossy     []*lossy
	probing   map[QP]lossyProbe
	carried   []carried   // by way
	markedIn  fabric.Time // when a packet to this host was last marked
	questions questions
	nextSeq   uint64
	excess    fabric.RTT

	slowWays               *slowness // by way; nil before the first mark
	lowered                []int     // ways whose share, or the share of a path on them, was lowered since shiftedAt
	shiftedAt, shiftedLast fabric.Time
	trials                 map[fabric.NodeID]trial
	markedDst              *destination // of the answer being processed, if it has a mark
	markedPath             int

	open, openBefore []Piece
	flip, flipBefore []Flip
	closes, closed   []QP
	asking, askedNow []Ask
	failed, lastFail []Failed

	// Scratch space of Post.
	touched []*destination
	paths   []int
	sizes   []int64
	parts   []int64
	weights []uint32
	cuts    []Cut
}

// New returns a core for one host, or the error of [Config.Validate].
func New(cfg Config) (*Core, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	f := cfg.Fabric
	tor := f.ToROf(cfg.Host)
	c := &Core{
		cfg: cfg, fabric: f, tor: tor, pod: f.Node(tor).Pod, aggUps: 1,
		rng:      rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Host))),
		links:    make(map[fabric.LinkID]*linkState),
		cutOff:   make(map[fabric.NodeID]int),
		now:      math.MinInt64,
		probing:  make(map[QP]lossyProbe),
		trials:   make(map[fabric.NodeID]trial),
		markedIn: fabric.LongAgo, shiftedAt: fabric.LongAgo, shiftedLast: fabric.LongAgo,
	}
	c.takeShare()
	c.carried = slices.Repeat([]carried{{lostAt: fabric.LongAgo}}, c.ways)
	if f.ThreeTier() {
		c.aggs = f.Spec().AggsPerPod
		c.aggUps = f.Node(f.AggID(0)).Uplinks()
	}
	c.uplinkBytes = make([]int64, c.ways)
	return c, nil
}

// Post splits and labels one batching window's flows. After an error, which wraps [ErrFlow], no flow of the batch
// was taken.
func (c *Core) Post(now fabric.Time, batch []Flow) error {
	c.advance(now)
	if err := c.checkBatch(batch); err != nil {
		return err
	}
	c.stats.Flows += uint64(len(batch))
	c.touched = c.touched[:0]
	for i, f := range batch {
		if !c.choice(f.Dst) {
			c.openPiece(f, Cut{Flow: i, Bytes: f.Bytes}, nil)
			continue
		}
		d := c.towards(f.Dst)
		if f.Bytes <= c.cfg.Whole {
			c.openPiece(f, Cut{Flow: i, Bytes: f.Bytes, Path: c.leastLoaded(&piece{dst: d}, Return, d.good(c.paths[:0]))}, d)
			continue
		}
		if len(d.batch) == 0 {
			c.touched = append(c.touched, d)
		}
		d.batch = append(d.batch, f)
	}
	if !c.cfg.Unshuffled {
		shuffle(c.rng, c.touched)
	}
	for _, d := range c.touched {
		c.deal(d)
		d.batch = d.batch[:0]
	}
	return nil
}

func (c *Core) checkBatch(batch []Flow) error {
	var total int64
	for i, f := range batch {
		switch {
		case f.Dst < 0 || int(f.Dst) >= c.fabric.Hosts():
			return fmt.Errorf("%w: flow %d of the batch: destination %d is not a host; hosts are 0 to %d",
				ErrFlow, i, f.Dst, c.fabric.Hosts()-1)
		case f.Dst == c.cfg.Host:
			return fmt.Errorf("%w: flow %d of the batch: its destination is this host, %d; copy it in memory", ErrFlow, i, f.Dst)
		case f.Bytes < 1 || f.Bytes > math.MaxInt64-total:
			return fmt.Errorf("%w: flow %d of the batch: %d bytes; a flow has 1 or more, a batch fewer than 2^63", ErrFlow, i, f.Bytes)
		}
		total += f.Bytes
	}
	if most := uint64(len(batch)) * uint64(c.uplinks*c.aggUps); most > math.MaxUint32-uint64(c.nextQP) {
		return fmt.Errorf("%w: the numbers for queue pairs are used up; start a new core", ErrFlow)
	}
	return nil
}

// deal splits d's batch over its good paths.
func (c *Core) deal(d *destination) {
	c.paths = d.good(c.paths[:0])
	if !c.cfg.Unshuffled {
		shuffle(c.rng, d.batch)
		shuffle(c.rng, c.paths)
	}
	c.sizes = c.sizes[:0]
	for _, f := range d.batch {
		c.sizes = append(c.sizes, f.Bytes)
	}
	parts := 1
	if c.weigh(d, c.paths) {
		c.cuts = c.splitWeighted(d)
		c.openCuts(d, 1)
		return
	}
	if len(c.paths) < d.paths {
		all := make([]int, d.paths)
		for p := range all {
			all[p] = p
		}
		c.cuts = c.split(d, all)
		parts = len(c.cuts)
	}
	c.cuts = c.split(d, c.paths)
	parts = max(1, parts/len(c.cuts)) // fewer would halve a larger part of the rate at a mark
	c.openCuts(d, parts)
}

// openCuts opens the queue pairs of a batch's cuts, parts for each cut.
func (c *Core) openCuts(d *destination, parts int) {
	races := c.race(len(d.batch))
	for _, cut := range c.cuts {
		path := c.paths[cut.Path]
		cut.Path = path
		cut.each(parts, func(part Cut) {
			p := c.openPiece(d.batch[part.Flow], part, d)
			if races != nil {
				races[part.Flow].enter(p)
			}
		})
	}
}

// split cuts c.sizes over some paths to d, which it sorts by planes. Of each flow a plane gets its proportion of
// the paths: a sender does not know the other senders to a host, so the host's ports are loaded alike only if each
// flow loads them alike. Within a plane the parts are dealt by cut.
func (c *Core) split(d *destination, paths []int) []Cut {
	if c.fabric.Planes() == 1 {
		return c.cut(c.cuts[:0], c.sizes, len(paths))
	}
	plane := func(path int) int { return c.planeOf(d.way(path)) }
	slices.SortStableFunc(paths, func(a, b int) int { return plane(a) - plane(b) })
	cuts, n := c.cuts[:0], int64(len(paths))
	offset := func(size int64, path int) int64 { return size/n*int64(path) + size%n*int64(path)/n }
	for first, last := 0, 0; first < len(paths); first = last {
		for last = first + 1; last < len(paths) && plane(paths[last]) == plane(paths[first]); {
			last++
		}
		c.parts = c.parts[:0]
		for _, size := range c.sizes {
			c.parts = append(c.parts, offset(size, last)-offset(size, first))
		}
		dealt := len(cuts)
		cuts = c.cut(cuts, c.parts, last-first)
		for i := range cuts[dealt:] {
			cut := &cuts[dealt+i]
			cut.Path += first
			cut.Offset += offset(c.sizes[cut.Flow], first)
		}
	}
	return cuts
}

// cut is [Split] with the variations of the configuration.
func (c *Core) cut(dst []Cut, sizes []int64, paths int) []Cut {
	if !c.cfg.Fewest && alike(sizes) {
		return dealEqual(dst, sizes, paths)
	}
	return SplitFewest(dst, sizes, paths, c.cfg.Slack)
}

func shuffle[T any](rng *rand.Rand, s []T) {
	rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}

// openPiece opens a queue pair for a cut of f; d is nil under the own ToR.
func (c *Core) openPiece(f Flow, cut Cut, d *destination) *piece {
	c.nextQP++
	c.stats.Pieces++
	p := c.pieces.add(c.nextQP)
	p.host, p.dst, p.home, p.path, p.left = f.Dst, d, int16(cut.Path), int16(cut.Path), cut.Bytes
	p.size = uint32(min(cut.Bytes/sizeUnit, math.MaxUint32))
	out := Piece{QP: p.qp, Flow: f.ID, Dst: f.Dst, Offset: cut.Offset, Bytes: cut.Bytes, Start: c.now}
	if d != nil {
		d.link(p)
		d.used.set(cut.Path)
		c.load(d, cut.Path, cut.Bytes)
		out.Label, out.Labelled = c.label(d, cut.Path), true
		if c.cfg.StartJitter > 0 {
			out.Start += fabric.Time(c.rng.Int64N(int64(c.cfg.StartJitter) + 1))
		}
	}
	c.open = append(c.open, out)
	return p
}

// Acked reports that bytes more of a queue pair's payload are acknowledged. This and the following functions ignore
// an unknown queue pair: it may just have ended.
func (c *Core) Acked(now fabric.Time, qp QP, bytes int64) {
	c.advance(now)
	if p := c.pieces.get(qp); p != nil && bytes > 0 {
		n := min(bytes, p.left)
		p.left -= n
		if p.dst != nil {
			path := int(p.path)
			c.load(p.dst, path, -n)
			p.dst.records[path].fine++ // one packet or more
			c.carried[p.dst.way(path)].fine++
			c.noteFine(p.dst, path, n)
			c.noteData(p)
			if p.race != nil && p.race.took > 0 && p.left > 0 {
				c.judge(p)
			}
		}
	}
}

// Done reports that a queue pair has sent everything, or was closed.
func (c *Core) Done(now fabric.Time, qp QP) {
	c.advance(now)
	p := c.pieces.get(qp)
	if p == nil {
		c.probeDone(qp)
		return
	}
	if p.dst != nil {
		c.load(p.dst, int(p.path), -p.left)
		p.dst.unlink(p)
		c.finished(p)
	}
	c.pieces.remove(p)
}

// Ready returns the caller's work since the last call.
func (c *Core) Ready() Ready {
	r := Ready{Open: c.open, Flip: c.flip, Close: c.closes, Ask: c.asking, Failed: c.failed}
	c.asking, c.askedNow = c.askedNow[:0], c.asking
	c.open, c.openBefore = c.openBefore[:0], c.open
	c.flip, c.flipBefore = c.flipBefore[:0], c.flip
	c.closes, c.closed = c.closed[:0], c.closes
	c.failed, c.lastFail = c.lastFail[:0], c.failed
	return r
}

// Pending reports whether Ready would return anything.
func (c *Core) Pending() bool {
	return len(c.open)+len(c.flip)+len(c.closes)+len(c.asking)+len(c.failed) > 0
}

// Tick does what is due by now: see [Core.Deadline].
func (c *Core) Tick(now fabric.Time) { c.advance(now) }

// Stats returns the counts so far.
func (c *Core) Stats() Stats { return c.stats }

// Live returns the number of open queue pairs.
func (c *Core) Live() int { return c.pieces.live }

// GoodPaths returns the labels, ascending, over which the next batch to a host would be dealt; none for a host
// under the own ToR.
func (c *Core) GoodPaths(dst fabric.NodeID) []fabric.Label {
	if !c.choice(dst) {
		return nil
	}
	d := c.towards(dst)
	var ls []fabric.Label
	for _, p := range d.good(nil) {
		ls = append(ls, c.label(d, p))
	}
	return ls
}

// ResponderLabel returns the label for an ACK, NAK or CNP to peer. Normally it is the label of the packet that it
// answers, which names the exact reverse path. If this host has left that path, or the packet came rerouted, it is
// another one: a switch met a dead uplink, and an answer over the same link would be lost. A receiver asks for a missing
// packet once, so that NAK must arrive. Then the label is that of a good path, by another ToR uplink if there is one,
// always the same for the same label while the set of good paths does not change. If there is no good path, it is one
// without links that are known to be dead, above all the packet's own.
func (c *Core) ResponderLabel(now fabric.Time, peer fabric.NodeID, mirrored fabric.Label, rerouted bool) fabric.Label {
	c.advance(now)
	if !c.choice(peer) {
		return mirrored
	}
	d := c.towards(peer)
	path, ok := c.pathOf(d, mirrored)
	if !ok {
		return mirrored // not a label of this fabric: switches send it by ECMP
	}
	good := !d.dead.get(path)
	if good && !rerouted {
		d.used.set(path)
		return mirrored
	}
	c.paths = slices.DeleteFunc(d.good(c.paths[:0]), func(p int) bool { return c.linkDead(d, p) })
	if len(c.paths) == 0 { // the others lose, or seem silent
		if !c.linkDead(d, path) {
			return mirrored // the packet came by it
		}
		for p := range d.paths {
			if !c.linkDead(d, p) {
				c.paths = append(c.paths, p)
			}
		}
	}
	if len(c.paths) == 0 {
		return mirrored
	}
	if good {
		c.paths = c.elsewhere(d, c.paths, mirrored)
	}
	path = c.paths[c.order(d, path)%uint64(len(c.paths))]
	d.used.set(path)
	return c.label(d, path)
}

// elsewhere returns those of some paths that use another ToR uplink than l does, or all of them if there are none.
func (c *Core) elsewhere(d *destination, paths []int, l fabric.Label) []int {
	uplink, _, _ := c.fabric.SplitLabel(l)
	kept := 0
	for i, p := range paths {
		if u, _, _ := c.fabric.SplitLabel(c.label(d, p)); u != uplink {
			paths[kept], paths[i] = paths[i], paths[kept]
			kept++
		}
	}
	if kept == 0 {
		return paths
	}
	return paths[:kept]
}
