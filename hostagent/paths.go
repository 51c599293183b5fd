package hostagent

import (
	"math/bits"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// destination is what the core knows of one destination ToR. Its paths are
// numbered from 0: path u*vs+v takes ToR uplink u and, between pods,
// aggregation uplink v.
type destination struct {
	tor   fabric.NodeID
	pod   int
	vs    int // 1 where the ToR's uplink is the only choice
	paths int

	dead bitmap
	used bitmap // ever, by a piece or an acknowledgement
	kept int    // the path to use when all are dead

	until []fabric.Time // by path: a time-out is remembered till then, 0 none; nil if there was never one
	bytes []int64       // outstanding, by path

	records []record    // by path
	marked  fabric.Time // when a packet to this ToR was last marked

	first, last *piece
	batch       []Flow // scratch of Post
	dirty       bool   // scratch of movePieces
}

// destination returns the state of a ToR other than the own, making it on
// first use.
func (c *Core) destination(tor fabric.NodeID) *destination {
	n := c.fabric.Node(tor)
	if d := c.destinations[n.Index]; d != nil {
		return d
	}
	d := &destination{tor: tor, pod: n.Pod, vs: 1}
	if c.fabric.ThreeTier() && n.Pod != c.pod {
		d.vs = c.aggUps
	}
	d.paths = c.uplinks * d.vs
	d.dead, d.used = newBitmap(d.paths), newBitmap(d.paths)
	d.bytes = make([]int64, d.paths)
	d.records, d.marked = make([]record, d.paths), fabric.LongAgo
	c.destinations[n.Index] = d
	c.recompute(d)
	return d
}

func (d *destination) link(p *piece) {
	p.prev = d.last
	if d.last == nil {
		d.first = p
	} else {
		d.last.next = p
	}
	d.last = p
}

func (d *destination) unlink(p *piece) {
	if p.prev == nil {
		d.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		d.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.prev, p.next = nil, nil
}

// allDead reports whether only the kept path is left.
func (d *destination) allDead() bool { return d.dead.count() == d.paths }

// isGood reports whether a path may be used.
func (d *destination) isGood(path int) bool {
	return !d.dead.get(path) || path == d.kept && d.allDead()
}

// good appends the paths that may be used, ascending; there is at least one.
func (d *destination) good(to []int) []int {
	for p := range d.paths {
		if !d.dead.get(p) {
			to = append(to, p)
		}
	}
	if len(to) == 0 {
		to = append(to, d.kept)
	}
	return to
}

func (c *Core) label(d *destination, path int) fabric.Label {
	return c.fabric.LabelFor(path/d.vs, path%d.vs)
}

// pathOf is the inverse of label. A label's lower tier does not matter where
// there is no choice in it.
func (c *Core) pathOf(d *destination, l fabric.Label) (path int, ok bool) {
	u, v, ok := c.fabric.SplitLabel(l)
	if !ok || u >= c.uplinks {
		return 0, false
	}
	if d.vs == 1 {
		return u, true
	}
	return u*d.vs + v, true
}

// load adds to the bytes outstanding on a path.
func (c *Core) load(d *destination, path int, bytes int64) {
	d.bytes[path] += bytes
	c.uplinkBytes[path/d.vs] += bytes
}

// order is a seeded total order of d's paths, at random but for ever the same.
func (c *Core) order(d *destination, path int) uint64 {
	x := c.cfg.Seed ^ uint64(c.cfg.Host)<<40 ^ uint64(d.tor)<<16 ^ uint64(path)
	// splitmix64's finalizer.
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// span is a set of paths: those of ToR uplink u and aggregation uplink v, where
// v -1 is all.
type span struct{ u, v int }

// each calls f for the paths of s.
func (d *destination) each(s span, f func(path int)) {
	if s.v >= 0 {
		f(s.u*d.vs + s.v)
		return
	}
	for v := range d.vs {
		f(s.u*d.vs + v)
	}
}

// over returns the paths to d that cross a link, in either direction. ok is
// false when none does.
func (c *Core) over(d *destination, link fabric.LinkID) (s span, ok bool) {
	low := c.fabric.Link(link).A
	n := c.fabric.Node(low.Node)
	up := int(low.Port) - int(n.FirstUplink())
	switch n.Tier {
	case fabric.ToR:
		// Uplink u of either ToR belongs to the paths over the spine u, or
		// over the aggregation switches u of both pods.
		return span{up, -1}, low.Node == c.tor || low.Node == d.tor
	case fabric.Aggregation:
		return span{n.Index % c.aggs, up}, d.vs > 1 && (n.Pod == c.pod || n.Pod == d.pod)
	}
	return span{}, false
}

// leaves reports whether packets of ours to d can leave switch from by the
// link, given that a path crosses it: going up on our side, down on d's.
func (c *Core) leaves(d *destination, link fabric.LinkID, from fabric.NodeID) bool {
	l := c.fabric.Link(link)
	near := l.A.Node == c.tor
	if n := c.fabric.Node(l.A.Node); n.Tier == fabric.Aggregation {
		near = n.Pod == c.pod
	}
	return near == (from == l.A.Node)
}

// recompute works out anew which paths to d are dead.
func (c *Core) recompute(d *destination) {
	was := d.dead.clone()
	d.dead.clear()
	for _, l := range c.deadLinks {
		if s, ok := c.over(d, l); ok {
			d.each(s, d.dead.set)
		}
	}
	c.setLossy(d)
	for p, until := range d.until {
		if until != 0 && until > c.now {
			d.dead.set(p)
		}
	}
	if !d.allDead() || was.count() == d.paths {
		return
	}
	// The last good path is kept; if several died at once, one of them.
	d.kept = -1
	for p := range d.paths {
		if !was.get(p) && (d.kept < 0 || c.order(d, p) < c.order(d, d.kept)) {
			d.kept = p
		}
	}
}

// movePieces makes the pieces of every dirty destination fit its dead paths.
func (c *Core) movePieces(why Reason) {
	for _, d := range c.destinations {
		if d == nil || !d.dirty {
			continue
		}
		d.dirty = false
		c.recompute(d)
		for p := d.first; p != nil; p = p.next {
			switch {
			case p.path != p.home && d.isGood(p.home):
				reason := why
				if !d.dead.get(p.path) {
					reason = Return
				}
				c.move(p, p.home, reason)
			case !d.isGood(p.path):
				c.move(p, c.leastLoaded(p, why), why)
			}
		}
	}
}

// move flips a piece.
func (c *Core) move(p *piece, to int, why Reason) {
	d := p.dst
	c.flip = append(c.flip, Flip{
		QP: p.qp, From: c.label(d, p.path), To: c.label(d, to), Reason: why, Dead: d.dead.get(p.path),
	})
	c.stats.Flips++
	if why == Return {
		c.stats.Returns++
	}
	c.load(d, p.path, -p.left)
	c.load(d, to, p.left)
	d.used.set(to)
	p.path, p.flipped = to, c.now
}

// leastLoaded returns the good path for a piece whose own is dead.
func (c *Core) leastLoaded(p *piece, why Reason) int {
	d := p.dst
	best := -1
	better := func(a, b int) bool {
		if why == ByTimeout || why == ByLoss {
			if x, y := d.shared(p.path, a), d.shared(p.path, b); x != y {
				return x < y
			}
		}
		if d.bytes[a] != d.bytes[b] {
			return d.bytes[a] < d.bytes[b]
		}
		if x, y := c.uplinkBytes[a/d.vs], c.uplinkBytes[b/d.vs]; x != y {
			return x < y
		}
		return c.order(d, a) < c.order(d, b)
	}
	c.paths = d.good(c.paths[:0])
	for _, q := range c.paths {
		if best < 0 || better(q, best) {
			best = q
		}
	}
	return best
}

// shared counts what two paths have in common: 0 when they differ in both
// tiers, 1 when only the ToR's uplinks differ, 2 when not even those.
func (d *destination) shared(a, b int) int {
	switch {
	case a/d.vs == b/d.vs:
		return 2
	case d.vs > 1 && a%d.vs == b%d.vs:
		return 1
	}
	return 0
}

// bitmap is a set of small numbers.
type bitmap []uint64

func newBitmap(n int) bitmap { return make(bitmap, (n+63)/64) }

func (b bitmap) get(i int) bool { return b[i/64]>>(i%64)&1 != 0 }
func (b bitmap) set(i int)      { b[i/64] |= 1 << (i % 64) }
func (b bitmap) clear()         { clear(b) }

func (b bitmap) clone() bitmap { return append(bitmap(nil), b...) }

func (b bitmap) count() (n int) {
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}
