package hostagent

import (
	"math/bits"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// fullRate is the weight of a path that is not slow and whose links have their full rate.
const fullRate = 1 << 12

// weight returns the relative capacity of a path to d, by the rates of its links and its slowness.
func (c *Core) weight(d *destination, path int) uint32 {
	w := uint32(fullRate)
	for _, id := range c.slowLinks {
		if c.crosses(d, path, id) {
			w = min(w, c.links[id].weight)
		}
	}
	if d.slow == nil && c.slowWays == nil {
		return w
	}
	memory := c.cfg.Slow.Memory
	found := min(d.slow.share(path, c.now, memory), c.slowWays.share(d.way(path), c.now, memory))
	return max(1, w*found/fullShare)
}

// weigh computes the weights of some paths to d, and reports whether they differ.
func (c *Core) weigh(d *destination, paths []int) bool {
	if d.slow == nil && c.slowWays == nil && len(c.slowLinks) == 0 {
		return false
	}
	c.weights = c.weights[:0]
	for _, p := range paths {
		c.weights = append(c.weights, c.weight(d, p))
	}
	return slices.ContainsFunc(c.weights, func(w uint32) bool { return w != c.weights[0] })
}

// splitWeighted cuts c.sizes over c.paths by their weights. With planes each flow is first cut into one part per
// plane, by the weights of the plane's paths: see [Core.split].
func (c *Core) splitWeighted(d *destination) []Cut {
	if c.fabric.Planes() == 1 {
		return SplitWeighted(c.cuts[:0], c.sizes, c.weights)
	}
	plane := func(path int) int { return c.planeOf(d.way(path)) }
	slices.SortStableFunc(c.paths, func(a, b int) int { return plane(a) - plane(b) })
	c.weigh(d, c.paths)
	var sum, before uint64
	for _, w := range c.weights {
		sum += uint64(w)
	}
	cuts := c.cuts[:0]
	for first, last := 0, 0; first < len(c.paths); first = last {
		upTo := before
		for last = first; last < len(c.paths) && plane(c.paths[last]) == plane(c.paths[first]); last++ {
			upTo += uint64(c.weights[last])
		}
		c.parts = c.parts[:0]
		for _, size := range c.sizes {
			c.parts = append(c.parts, portion(size, upTo, sum)-portion(size, before, sum))
		}
		dealt := len(cuts)
		cuts = SplitWeighted(cuts, c.parts, c.weights[first:last])
		for i := range cuts[dealt:] {
			cut := &cuts[dealt+i]
			cut.Path += first
			cut.Offset += portion(c.sizes[cut.Flow], before, sum)
		}
		before = upTo
	}
	return cuts
}

// portion returns size*part/whole; part is at most whole.
func portion(size int64, part, whole uint64) int64 {
	high, low := bits.Mul64(uint64(size), part)
	q, _ := bits.Div64(high, low, whole)
	return int64(q)
}

// heavier reports whether a bytes on a path of weight wa take longer than b bytes on one of weight wb.
func heavier(a int64, wa uint32, b int64, wb uint32) bool {
	ah, al := bits.Mul64(uint64(a), uint64(wb))
	bh, bl := bits.Mul64(uint64(b), uint64(wa))
	return ah > bh || ah == bh && al > bl
}

// has reports whether s contains a path to d.
func (s span) has(d *destination, path int) bool {
	way := d.way(path)
	return s.u <= way && way < s.u+s.n && (s.v < 0 || path%d.vs == s.v)
}

// takeRate processes a controller's report of a link's rate. Pieces leave the paths over the link until the rest
// fits their weights.
func (c *Core) takeRate(r *statepb.LinkRate) {
	if !c.hasChoice(r.GetLink()) {
		c.stats.LinksIgnored++
		return
	}
	id := fabric.LinkID(r.GetLink())
	l := c.link(id)
	if r.GetEpoch() <= l.rateEpoch {
		c.stats.LinksIgnored++
		return
	}
	l.rateEpoch, l.weight = r.GetEpoch(), rateWeight(r.GetBitsPerSecond(), uint64(c.fabric.Link(id).Rate))
	at, listed := slices.BinarySearch(c.slowLinks, id)
	switch slow := l.weight < fullRate; {
	case slow && !listed:
		c.slowLinks = slices.Insert(c.slowLinks, at, id)
	case !slow && listed:
		c.slowLinks = slices.Delete(c.slowLinks, at, at+1)
	}
	if l.weight == fullRate {
		return // the next batches use the new rate
	}
	for _, d := range c.destinations {
		if s, ok := c.over(d, id); ok {
			d.each(s, func(path int) { c.unload(d, path, false) })
		}
	}
}

// rateWeight returns the weight of a link's rate; a rate of 0 means full.
func rateWeight(rate, full uint64) uint32 {
	if rate == 0 || rate >= full {
		return fullRate
	}
	high, low := bits.Mul64(rate, fullRate)
	w, _ := bits.Div64(high, low, full)
	return max(1, uint32(w))
}
