package hostagent

import (
	"math/bits"
	"slices"
	"sort"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/splitmix"
)

// destination is the core's knowledge of one destination ToR, or, with planes, of one host that some plane does not
// reach. Its paths are numbered from 0: path u*vs+v takes the u-th used ToR uplink and, between pods, aggregation
// uplink v. Under the own ToR, with planes, path q takes plane q.
type destination struct {
	tor   fabric.NodeID
	host  fabric.NodeID // wholeRack: all hosts of the ToR
	pod   int
	way0  int // the way of path 0
	vs    int // number of aggregation uplinks; 1 where the ToR's uplink is the only choice
	paths int

	dead bitmap
	used bitmap // paths ever used by a piece or an acknowledgement
	kept int    // the path used when all are dead

	until []fabric.Time // by path: end of the memory of a time-out, 0: none; nil before the first time-out
	bytes []int64       // outstanding, by path

	records   []record // by path
	marks     marks
	trip      fabric.Time   // round trip of a full packet through the idle fabric
	probeTrip fabric.Time   // longest of a path probe
	answered  []fabric.Time // by path: time of its latest answer
	heard     [][2]answer   // by host of the ToR: its latest answers by two uplinks
	asked     bitmap        // paths with an open question
	silent    []uint8       // by path: number of questions that found it dead; nil: none did
	slow      *slowness     // by path; nil before the first mark

	first, last *piece
	batch       []Flow // scratch of Post
	dirty       bool   // scratch of movePieces
}

const wholeRack fabric.NodeID = -1

// takeShare computes the uplinks that this host uses: see [Config.Uplinks].
func (c *Core) takeShare() {
	all, planes := c.fabric.ToRUplinks(), c.fabric.Planes()
	c.share = all
	if n := c.cfg.Uplinks; n > 0 && n < all {
		first, _ := c.fabric.HostsOf(c.tor)
		c.share, c.from = n, int(c.cfg.Host-first)*n%all
	}
	c.uplinks = planes * c.share
	c.ways = c.uplinks
	if planes > 1 {
		c.ways += planes
	}
}

// uplink returns the fabric's number of a used uplink.
func (c *Core) uplink(used int) int {
	all := c.fabric.ToRUplinks()
	return used/c.share*all + (c.from+used%c.share)%all
}

// planeOf returns the plane of a way.
func (c *Core) planeOf(way int) int {
	if way >= c.uplinks {
		return way - c.uplinks
	}
	return way / c.share
}

// usedAs is the inverse of uplink. ok is false for an uplink that this host does not use.
func (c *Core) usedAs(uplink int) (used int, ok bool) {
	all := c.fabric.ToRUplinks()
	i := (uplink%all - c.from + all) % all
	return uplink/all*c.share + i, i < c.share
}

// choice reports whether there are several paths to a host; false for an id that is no host.
func (c *Core) choice(host fabric.NodeID) bool {
	return host >= 0 && int(host) < c.fabric.Hosts() && (c.fabric.Planes() > 1 || c.fabric.ToROf(host) != c.tor)
}

// towards returns the destination for a host, and makes it on first use: that of its ToR, or the host's own while
// some plane does not reach it, since the rack's other hosts can still be reached in that plane.
func (c *Core) towards(host fabric.NodeID) *destination {
	if c.cutOff[host] > 0 {
		return c.destination(c.fabric.ToROf(host), host)
	}
	return c.destination(c.fabric.ToROf(host), wholeRack)
}

// known returns a destination used before, or nil.
func (c *Core) known(tor, host fabric.NodeID) *destination {
	if d := c.recent; d != nil && d.tor == tor && d.host == host {
		return d
	}
	if i, ok := c.find(tor, host); ok {
		c.recent = c.destinations[i]
		return c.recent
	}
	return nil
}

// find returns the index of a destination, or the index at which to insert it.
func (c *Core) find(tor, host fabric.NodeID) (i int, ok bool) {
	i = sort.Search(len(c.destinations), func(i int) bool {
		d := c.destinations[i]
		return d.tor > tor || d.tor == tor && d.host >= host
	})
	return i, i < len(c.destinations) && c.destinations[i].tor == tor && c.destinations[i].host == host
}

// destination returns the state of a ToR, or of a host under it, and makes it on first use.
func (c *Core) destination(tor, host fabric.NodeID) *destination {
	if d := c.known(tor, host); d != nil {
		return d
	}
	n := c.fabric.Node(tor)
	d := &destination{tor: tor, host: host, pod: n.Pod, vs: 1}
	if c.fabric.ThreeTier() && n.Pod != c.pod {
		d.vs = c.aggUps
	}
	d.paths = c.uplinks * d.vs
	if tor == c.tor {
		d.way0, d.paths = c.uplinks, c.fabric.Planes()
	}
	d.dead, d.used = newBitmap(d.paths), newBitmap(d.paths)
	d.bytes = make([]int64, d.paths)
	d.records, d.marks.last = make([]record, d.paths), fabric.LongAgo
	first, hosts := c.fabric.HostsOf(tor)
	d.answered, d.asked = longAgo(d.paths), newBitmap(d.paths)
	d.heard = slices.Repeat([][2]answer{{{fabric.LongAgo, -1}, {fabric.LongAgo, -1}}}, hosts)
	far := first
	if far == c.cfg.Host {
		far += fabric.NodeID(hosts - 1)
	}
	d.trip = c.fabric.RoundTrip(c.cfg.Host, far, c.cfg.Packet, askFrame)
	d.probeTrip = c.fabric.RoundTrip(c.cfg.Host, far, c.cfg.Packet+askFrame, c.cfg.Packet+askFrame)
	at, _ := c.find(tor, host)
	c.destinations = slices.Insert(c.destinations, at, d)
	c.recent = d
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

// good appends the usable paths, ascending; there is at least one.
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
	if d.way0 > 0 {
		return c.fabric.LabelFor(path*c.fabric.ToRUplinks(), 0)
	}
	return c.fabric.LabelFor(c.uplink(path/d.vs), path%d.vs)
}

// way returns the way of a path.
func (d *destination) way(path int) int { return d.way0 + path/d.vs }

// pathOf is the inverse of label. A label's lower tier does not matter where there is no choice in it.
func (c *Core) pathOf(d *destination, l fabric.Label) (path int, ok bool) {
	u, v, ok := c.fabric.SplitLabel(l)
	if !ok {
		return 0, false
	}
	if d.way0 > 0 {
		return c.fabric.PlaneOf(l), true
	}
	if u, ok = c.usedAs(u); !ok {
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
	c.uplinkBytes[d.way(path)] += bytes
}

// order is a total order of d's paths, random by the seed but constant.
func (c *Core) order(d *destination, path int) uint64 {
	x := c.cfg.Seed ^ uint64(c.cfg.Host)<<40 ^ uint64(d.tor)<<16 ^ uint64(path)
	return splitmix.Mix(x + splitmix.Step)
}

// span is a set of paths: those of n ways from u on and aggregation uplink v; v -1 means all.
type span struct{ u, n, v int }

// each calls f for the paths of s.
func (d *destination) each(s span, f func(path int)) {
	for u := max(s.u-d.way0, 0); u < min(s.u+s.n-d.way0, d.paths/d.vs); u++ {
		if s.v >= 0 {
			f(u*d.vs + s.v)
			continue
		}
		for v := range d.vs {
			f(u*d.vs + v)
		}
	}
}

// over returns the paths to d that cross a link, in either direction. ok is false if there are none.
func (c *Core) over(d *destination, link fabric.LinkID) (s span, ok bool) {
	low := c.fabric.Link(link).A
	n := c.fabric.Node(low.Node)
	up := int(low.Port) - int(n.FirstUplink())
	first := n.Plane * c.fabric.ToRUplinks()
	switch n.Tier {
	case fabric.Host:
		return c.overHost(d, link, low.Node)
	case fabric.ToR:
		// Uplink u of either ToR belongs to the paths over the spine u, or
		// over the aggregation switches u of both pods.
		rack := c.fabric.InPlane(low.Node, 0)
		u, used := c.usedAs(first + up)
		return span{u, 1, -1}, used && d.way0 == 0 && (rack == c.tor || rack == d.tor)
	case fabric.Aggregation:
		u, used := c.usedAs(first + n.Index%c.aggs)
		return span{u, 1, up}, used && d.pod != c.pod && (n.Pod == c.pod || n.Pod == d.pod)
	}
	return span{}, false
}

// crosses reports whether a path to d leads over a link.
func (c *Core) crosses(d *destination, path int, id fabric.LinkID) bool {
	s, ok := c.over(d, id)
	return ok && s.has(d, path)
}

// overHost is over for a host's link: the paths of its plane, from this host or to that host.
func (c *Core) overHost(d *destination, link fabric.LinkID, host fabric.NodeID) (s span, ok bool) {
	if c.fabric.Planes() == 1 {
		return span{}, false
	}
	q := int(link) / c.fabric.Hosts()
	s = span{q * c.share, c.share, -1}
	if d.way0 > 0 {
		s = span{d.way0 + q, 1, -1}
	}
	return s, host == c.cfg.Host || host == d.host
}

// leaves reports whether this host's packets to d can leave switch from by the link, if a path crosses it: up on
// this host's side, down on d's side.
func (c *Core) leaves(d *destination, link fabric.LinkID, from fabric.NodeID) bool {
	l := c.fabric.Link(link)
	near := l.A.Node == c.cfg.Host
	switch n := c.fabric.Node(l.A.Node); n.Tier {
	case fabric.ToR:
		near = c.fabric.InPlane(n.ID, 0) == c.tor
	case fabric.Aggregation:
		near = n.Pod == c.pod
	}
	return near == (from == l.A.Node)
}

// recompute computes which paths to d are dead.
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
	c.setSilent(d)
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

// movePieces moves the pieces of every dirty destination off its dead paths.
func (c *Core) movePieces(why Reason) {
	for _, d := range c.destinations {
		if !d.dirty {
			continue
		}
		d.dirty = false
		c.recompute(d)
		for p := d.first; p != nil; p = p.next {
			switch {
			case p.path != p.home && d.isGood(int(p.home)):
				reason := why
				if !d.dead.get(int(p.path)) {
					reason = Return
				}
				c.move(p, int(p.home), reason)
			case !d.isGood(int(p.path)):
				c.move(p, c.leastLoaded(p, why, d.good(c.paths[:0])), why)
			}
		}
	}
}

// move flips a piece.
func (c *Core) move(p *piece, to int, why Reason) {
	d, from := p.dst, int(p.path)
	c.flip = append(c.flip, Flip{
		QP: p.qp, From: c.label(d, from), To: c.label(d, to), Reason: why, Dead: d.dead.get(from),
	})
	c.stats.Flips++
	if why != BySlow {
		c.noteShift()
	}
	if why == Return {
		c.stats.Returns++
	}
	c.load(d, from, -p.left)
	c.load(d, to, p.left)
	d.used.set(to)
	p.path, p.flipped, p.race = int16(to), c.now, nil
}

// leastLoaded returns the path, of some paths, to which a piece moves if its own is dead.
func (c *Core) leastLoaded(p *piece, why Reason, of []int) int {
	c.paths = of
	d := p.dst
	best := -1
	better := func(a, b int) bool {
		if why == ByTimeout || why == ByLoss || why == BySilence {
			if x, y := c.doubtful(d, a), c.doubtful(d, b); x != y {
				return y
			}
			if x, y := d.shared(int(p.path), a), d.shared(int(p.path), b); x != y {
				return x < y
			}
		}
		if x, y := c.weight(d, a), c.weight(d, b); heavier(d.bytes[b], y, d.bytes[a], x) || heavier(d.bytes[a], x, d.bytes[b], y) {
			return heavier(d.bytes[b], y, d.bytes[a], x)
		}
		if x, y := c.uplinkBytes[d.way(a)], c.uplinkBytes[d.way(b)]; x != y {
			return x < y
		}
		return c.order(d, a) < c.order(d, b)
	}
	for _, q := range of {
		if best < 0 || better(q, best) {
			best = q
		}
	}
	return best
}

// shared returns the number of tiers in which two paths agree: 0 if they differ in both, 1 if only the ToR's
// uplinks differ, 2 if neither.
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
func (b bitmap) unset(i int)    { b[i/64] &^= 1 << (i % 64) }
func (b bitmap) clear()         { clear(b) }

func (b bitmap) clone() bitmap { return append(bitmap(nil), b...) }

func (b bitmap) count() (n int) {
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}
