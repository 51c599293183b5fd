package hostagent

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

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
	paths
	pieces pieces
	rng    *rand.Rand
	batch

	timeouts  timeouts
	quenches  quenches
	pushes    pushes
	losses    losses
	questions questions
	slow      slowPaths
}

// New returns a core for one host, or the error of [Config.Validate].
func New(cfg Config) (*Core, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Core{rng: rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.Host)))}
	ps := &c.paths
	*ps = paths{
		site: newSite(cfg.withDefaults()), links: make(map[fabric.LinkID]*linkState), cutOff: make(map[fabric.NodeID]int),
		detectors: []detector{&c.timeouts, &c.losses, &c.questions},
	}
	ps.uplinkBytes = make([]int64, ps.perUplink)
	c.timeouts.paths = ps
	c.pushes.paths = ps
	c.quenches.paths, c.quenches.pushes = ps, &c.pushes
	c.losses = losses{
		paths: ps, probing: make(map[QP]lossyProbe), markedIn: fabric.LongAgo,
		carried: slices.Repeat([]carried{{lostAt: fabric.LongAgo}}, ps.perUplink),
	}
	c.questions.paths = ps
	c.slow = slowPaths{paths: ps, trials: make(map[fabric.NodeID]trial), shiftedAt: fabric.LongAgo, shiftedLast: fabric.LongAgo}
	return c, nil
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
			c.losses.acked(p.dst, path)
			c.slow.noteFine(p.dst, path, n)
			c.questions.noteData(p)
			if c.slow.judge(p) {
				c.unload(p.dst, path, false)
			}
		}
	}
}

// Done reports that a queue pair has sent everything, or was closed.
func (c *Core) Done(now fabric.Time, qp QP) {
	c.advance(now)
	p := c.pieces.get(qp)
	if p == nil {
		if c.losses.probeDone(qp) {
			c.movePieces(Return)
		}
		return
	}
	if p.dst != nil {
		c.load(p.dst, int(p.path), -p.left)
		p.dst.unlink(p)
		c.slow.finished(p)
	}
	c.pieces.remove(p)
}

// Ready returns the caller's work since the last call.
func (c *Core) Ready() Ready {
	r, old := c.ready, c.before
	c.ready = Ready{Open: old.Open[:0], Flip: old.Flip[:0], Ask: old.Ask[:0], Failed: old.Failed[:0]}
	c.before = r
	return r
}

// Pending reports whether Ready would return anything.
func (c *Core) Pending() bool {
	return len(c.ready.Open)+len(c.ready.Flip)+len(c.ready.Ask)+len(c.ready.Failed) > 0
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
	c.usable = slices.DeleteFunc(d.good(c.usable[:0]), func(p int) bool { return c.linkDead(d, p) })
	if len(c.usable) == 0 { // the others lose, or seem silent
		if !c.linkDead(d, path) {
			return mirrored // the packet came by it
		}
		for p := range d.paths {
			if !c.linkDead(d, p) {
				c.usable = append(c.usable, p)
			}
		}
	}
	if len(c.usable) == 0 {
		return mirrored
	}
	if good {
		c.usable = c.elsewhere(d, c.usable, mirrored)
	}
	path = c.usable[c.order(d, path)%uint64(len(c.usable))]
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

// advance moves the time to now, unless it is later already, and does what is due.
func (c *Core) advance(now fabric.Time) {
	c.now = max(c.now, now)
	timeouts, quenches := c.timeouts.expire(), c.quenches.expire()
	if timeouts || quenches {
		c.movePieces(Return)
	}
	for q := c.questions.due(); q != nil; q = c.questions.due() {
		if c.questions.decide(q) {
			c.movePieces(BySilence)
			c.keepAnother(q.sample, BySilence)
		}
	}
	c.losses.probe()
}

// keepAnother keeps another path if all are left and the kept one does not work either: the evidence against the
// others holds against it as well.
func (c *Core) keepAnother(s sample, why Reason) {
	if c.paths.keepAnother(s) {
		c.movePieces(why)
	}
}

// Rebase does what is due by now, and counts all later times from now. A core that runs for long needs it, since a
// [fabric.Time] ends after 106 days: see [fabric.LongAgo].
func (c *Core) Rebase(now fabric.Time) {
	c.advance(now) // remaining times that are not 0 are in the future
	c.now = c.now.Rebase(now)
	for i := range c.ready.Open {
		c.ready.Open[i].Start = c.ready.Open[i].Start.Rebase(now)
	}
	c.pushes.heardAt = c.pushes.heardAt.Rebase(now)
	c.timeouts.rebase(now)
	c.quenches.rebase(now)
	c.losses.rebase(now)
	c.questions.rebase(now)
	c.slow.rebase(now)
	c.pieces.rebase(now)
}

// Deadline returns the time at which to call [Core.Tick] next. ok is false if no timer runs.
func (c *Core) Deadline() (at fabric.Time, ok bool) {
	at = min(c.timeouts.memories.next(c.timeouts.current), c.quenches.memories.next(c.quenches.current),
		c.losses.deadline(), c.questions.deadline())
	return at, at != fabric.Never
}
