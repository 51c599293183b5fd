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
	Losses                        uint64 // packets and ACKs reported by [Core.Lost]
	LossesIgnored, LossesExcused  uint64 // not counted: on paths already left; of packets that switches marked
	Overdue                       uint64 // number of calls of [Core.Overdue]: answers that were overdue
	PathProbes, ProbesHeld        uint64 // sent; questions not put because of the rate limit
	PathsAlive                    uint64 // number of probed paths that answered
	PathsDead, PathsBack          uint64 // paths left because of a question; of these: that answered later
	PathsLate                     uint64 // of PathsBack: by an answer to a probe from before the verdict
	LinksConvicted                uint64 // links found dead because several paths over them were
	Left, CameBack                uint64 // sets of paths, because of losses
	Slow                          uint64 // number of times that the share of a path or an uplink was halved
	// number of paths and uplinks probed because they may be slow
	Doubts                   uint64
	LossProbes, LossesProved uint64                  // sent behind packets without an answer; losses that they proved
	Quenches                 [RateLimited + 1]uint64 // number of quenches, by the [Verdict] about them
	UpdatesIgnored           uint64                  // from a superseded controller instance
	LinksIgnored             uint64                  // link states that are not newer, or name no link
}

// ErrFlow is wrapped by every error of [Core.Post].
var ErrFlow = errors.New("hostagent: bad flow")

// Core is the state machine of a host's agent: it splits flows, chooses paths, and leaves dead ones. Make one with
// [New]; the package comment has the rules of its use.
type Core struct {
	paths
	pieces pieces
	rng    *rand.Rand
	batch

	timeouts  timeouts
	quenches  quenches
	pushes    pushes
	losses    losses
	proofs    lossProofs
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
	ps.uplinkBytes = make([]int64, ps.uplinkSlots)
	c.timeouts.paths = ps
	c.pushes.paths = ps
	c.quenches.paths, c.quenches.pushes = ps, &c.pushes
	c.losses = losses{
		paths: ps, probesInFlight: make(map[QP]lossyProbe), inboundMarkAt: fabric.LongAgo,
		byUplink: slices.Repeat([]uplinkRecord{{lastLossAt: fabric.LongAgo}}, ps.uplinkSlots),
	}
	c.questions.paths, c.proofs.site = ps, &ps.site
	c.slow = slowPaths{paths: ps, shiftedAt: fabric.LongAgo, shiftedLast: fabric.LongAgo}
	return c, nil
}

// Acked reports that so many more payload bytes of a queue pair are acknowledged; 0: it got another answer. Like the
// following functions it ignores an unknown queue pair, which may just have ended.
func (c *Core) Acked(now fabric.Time, qp QP, bytes int64) {
	c.advance(now)
	c.proofs.endWait(qp)
	if p := c.pieces.get(qp); p != nil && bytes > 0 {
		n := min(bytes, p.left)
		p.left -= n
		if p.dst != nil {
			path := int(p.path)
			c.addOutstanding(p.dst, path, -n)
			c.losses.acked(p.dst, path)
			c.slow.noteUnmarked(p.dst, path, n)
			c.questions.noteData(p)
			c.slow.judge(p)
		}
	}
}

// Done reports that all bytes of a queue pair are acknowledged, or that it was closed.
func (c *Core) Done(now fabric.Time, qp QP) {
	c.advance(now)
	p := c.pieces.get(qp)
	if p == nil {
		if c.slow.probeDone(qp) || c.proofDone(qp) {
			return
		}
		if c.losses.probeDone(qp) {
			c.movePieces(Return)
		}
		return
	}
	if p.dst != nil {
		c.addOutstanding(p.dst, int(p.path), -p.left)
		p.dst.unlink(p)
		c.slow.finished(p)
	}
	c.proofs.ends(qp)
	c.pieces.remove(p)
}

// Ready returns the caller's work since the last call: queue pairs to open and to move, probes to send.
func (c *Core) Ready() Ready {
	r, old := c.ready, c.lastReady
	c.ready = Ready{
		Open: old.Open[:0], Flip: old.Flip[:0], Resend: old.Resend[:0], Ask: old.Ask[:0], Failed: old.Failed[:0],
	}
	c.lastReady = r
	return r
}

// Pending reports whether [Core.Ready] would return anything to do.
func (c *Core) Pending() bool {
	r := &c.ready
	return len(r.Open)+len(r.Flip)+len(r.Resend)+len(r.Ask)+len(r.Failed) > 0
}

// Tick runs the timers that are due at the given time: see [Core.Deadline].
func (c *Core) Tick(now fabric.Time) {
	if c.cfg.AskWait > 0 {
		if due, ok := c.Deadline(); ok && due < now {
			c.now = max(c.now, now)
			c.sampleSlowest(now - due)
		}
	}
	c.advance(now)
}

// Stats returns the counts so far.
func (c *Core) Stats() Stats { return c.stats }

// Live returns the number of open queue pairs.
func (c *Core) Live() int { return c.pieces.live }

// GoodPaths returns the labels, ascending, of the paths over which the next batch to a host would be spread; none for a
// host under the same ToR.
func (c *Core) GoodPaths(dst fabric.NodeID) []fabric.Label {
	if !c.hasPathChoice(dst) {
		return nil
	}
	d := c.towards(dst)
	var ls []fabric.Label
	for _, p := range d.goodPaths(nil) {
		ls = append(ls, c.label(d, p))
	}
	return ls
}

// ResponderLabel returns the path label for an ACK, NAK or CNP to peer. mirrored is the label of the packet that it
// answers, and the usual result, since it names the exact reverse path.
//
// If this host has left that path, or a switch rerouted the packet around a dead uplink, the answer would be lost over
// the same link, and a receiver sends a NAK only once. The result is then the label of a usable path, by another ToR
// uplink if there is one, and the same for the same mirrored label while the set of usable paths does not change. For a
// path that was left because of losses, only a path that has answered this host in the last millisecond is a
// replacement, since others may be dead without this host's knowledge. Without a usable path the result is a path
// without links known to be dead, preferably mirrored.
func (c *Core) ResponderLabel(now fabric.Time, peer fabric.NodeID, mirrored fabric.Label, rerouted bool) fabric.Label {
	c.advance(now)
	if !c.hasPathChoice(peer) {
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
	c.usable = slices.DeleteFunc(d.goodPaths(c.usable[:0]), func(p int) bool { return c.linkDead(d, p) })
	if !good && !rerouted && c.harm(d, path) == losesSome {
		c.usable = slices.DeleteFunc(c.usable, func(p int) bool { return c.now-d.answered[p] > provenTime })
		if len(c.usable) == 0 {
			return mirrored
		}
	}
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
	path = c.usable[c.pathOrder(d, path)%uint64(len(c.usable))]
	d.used.set(path)
	return c.label(d, path)
}

// provenTime is the time for which an answer by a path shows that it is alive.
const provenTime = fabric.Millisecond

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

// advance advances the core's time to now, if now is later, and runs the timers that are due.
func (c *Core) advance(now fabric.Time) {
	c.now = max(c.now, now)
	timeouts, quenches := c.timeouts.expire(), c.quenches.expire()
	if timeouts || quenches {
		c.movePieces(Return)
	}
	for q := c.questions.due(); q != nil; q = c.questions.due() {
		if c.questions.decide(q) {
			c.movePieces(BySilence)
			c.keepAnother(q.hostPath, BySilence)
		}
	}
	if c.losses.leaveSuspects() {
		c.movePieces(ByLoss)
	}
	c.losses.probe()
	c.decideSlow()
}

// keepAnother keeps another path if all are left and the kept one does not work either: the evidence against the
// others holds against it as well.
func (c *Core) keepAnother(s hostPath, why Reason) {
	if c.paths.keepAnother(s) {
		c.movePieces(why)
	}
}

// Rebase processes expired timers, and then makes now the zero of the core's clock. A core that runs for long needs it,
// since a [fabric.Time] holds 106 days: see [fabric.LongAgo].
func (c *Core) Rebase(now fabric.Time) {
	c.advance(now) // remaining times that are not 0 are in the future
	c.now = c.now.Rebase(now)
	for i := range c.ready.Open {
		c.ready.Open[i].Start = c.ready.Open[i].Start.Rebase(now)
	}
	c.pushes.lastUpdateAt = c.pushes.lastUpdateAt.Rebase(now)
	c.timeouts.rebase(now)
	c.quenches.rebase(now)
	c.losses.rebase(now)
	c.proofs.rebase(now)
	c.questions.rebase(now)
	c.slow.rebase(now)
	c.pieces.rebase(now)
}

// Deadline returns the time at which to call [Core.Tick] next. ok is false if no timer runs.
func (c *Core) Deadline() (at fabric.Time, ok bool) {
	at = min(c.timeouts.memories.next(c.timeouts.current), c.quenches.memories.next(c.quenches.current),
		c.losses.deadline(), c.questions.deadline(), c.slow.deadline())
	return at, at != fabric.Never
}
