package hostagent

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
				c.move(p, c.leastLoaded(p, why, d.goodPaths(c.usable[:0])), why)
			}
		}
	}
}

// move moves a queue pair to another path (a flip).
func (c *Core) move(p *piece, to int, why Reason) {
	d, from := p.dst, int(p.path)
	c.ready.Flip = append(c.ready.Flip, Flip{
		QP: p.qp, From: c.label(d, from), To: c.label(d, to), Reason: why, Dead: d.dead.get(from),
	})
	c.stats.Flips++
	if why != BySlow {
		c.slow.noteShift()
	}
	if why == Return {
		c.stats.Returns++
	}
	c.addOutstanding(d, from, -p.left)
	c.addOutstanding(d, to, p.left)
	d.used.set(to)
	p.path, p.flipped, p.race = int16(to), c.now, nil
	c.proofs.moves(p.qp)
}

// leastLoaded returns the path, of some paths, to which a piece moves if its own is dead.
func (c *Core) leastLoaded(p *piece, why Reason, of []int) int {
	c.usable = of
	d := p.dst
	best := -1
	better := func(a, b int) bool {
		if why == ByTimeout || why == ByLoss || why == BySilence {
			if x, y := c.questions.doubtful(d, a), c.questions.doubtful(d, b); x != y {
				return y
			}
			if x, y := d.sharedTiers(int(p.path), a), d.sharedTiers(int(p.path), b); x != y {
				return x < y
			}
		}
		if x, y := c.slow.weight(d, a), c.slow.weight(d, b); takesLonger(d.bytes[b], y, d.bytes[a], x) || takesLonger(d.bytes[a], x, d.bytes[b], y) {
			return takesLonger(d.bytes[b], y, d.bytes[a], x)
		}
		if x, y := c.uplinkBytes[d.uplink(a)], c.uplinkBytes[d.uplink(b)]; x != y {
			return x < y
		}
		return c.pathOrder(d, a) < c.pathOrder(d, b)
	}
	for _, q := range of {
		if best < 0 || better(q, best) {
			best = q
		}
	}
	return best
}

// sharedTiers returns the number of tiers in which two paths agree: 0 if they differ in both, 1 if only the ToR's
// uplinks differ, 2 if neither.
func (d *destination) sharedTiers(a, b int) int {
	switch {
	case a/d.aggUplinks == b/d.aggUplinks:
		return 2
	case d.aggUplinks > 1 && a%d.aggUplinks == b%d.aggUplinks:
		return 1
	}
	return 0
}

// unload moves pieces off a slow path to d until the rest fits its share; with byUplink, its share of the uplink's
// whole load.
func (c *Core) unload(d *destination, path int, byUplink bool) {
	for p := d.first; p != nil; p = p.next {
		if int(p.path) != path || c.now-p.flipped < c.cfg.Slow.Memory {
			continue
		}
		best, w := -1, c.slow.weight(d, path)
		load := func(q int) int64 {
			if byUplink {
				return c.uplinkBytes[d.uplink(q)]
			}
			return d.bytes[q]
		}
		for q := range d.paths {
			if q == path || !d.isGood(q) || byUplink && d.uplink(q) == d.uplink(path) {
				continue
			}
			if best < 0 || c.slow.takesLess(d, q, best, load(q)+p.left, load(best)+p.left) {
				best = q
			}
		}
		if best < 0 || !takesLonger(load(path), w, load(best)+p.left, c.slow.weight(d, best)) {
			return
		}
		p.home = int16(best)
		c.move(p, best, BySlow)
	}
}

// unloadSlow moves pieces off a slow path, or off all paths of a slow uplink.
func (c *Core) unloadSlow(d *destination, path int, what slowVerdict) {
	switch what {
	case pathSlow, pathBehind:
		c.unload(d, path, false)
	case uplinkSlow:
		uplink := d.uplink(path)
		for _, d := range c.destinations {
			d.eachPath(pathSet{firstUplink: uplink, uplinkCount: 1, aggUplink: -1}, func(path int) { c.unload(d, path, true) })
		}
	}
}
