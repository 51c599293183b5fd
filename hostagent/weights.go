package hostagent

import (
	"math/bits"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// fullRate is the weight of a minimal path that is not slow and whose links have their full rate.
const fullRate = 1 << 12

// weight returns the relative capacity of a path to d, by the rates of its links and its slowness.
func (sl *slowPaths) weight(d *destination, path int) uint32 {
	w := sl.healthyWeight(d, path)
	for _, id := range sl.slowLinks {
		if sl.crosses(d, path, id) {
			w = min(w, sl.healthyWeight(d, path)*sl.links[id].weight/fullRate)
		}
	}
	if d.slow == nil && sl.byUplink == nil {
		return w
	}
	memory := sl.cfg.Slow.Memory
	found := min(d.slow.share(path, sl.now, memory), sl.byUplink.share(d.uplink(path), sl.now, memory))
	return max(1, w*found/fullShare)
}

// healthyWeight returns the weight of a path that is not slow and whose links have their full rate.
func (sl *slowPaths) healthyWeight(d *destination, path int) uint32 {
	if sl.fabric.Clos() || d.paths == 1 || sl.label(d, path) == sl.fabric.Minimal() {
		return fullRate
	}
	return fullRate / uint32(sl.cfg.Minimal)
}

// takesLonger reports whether a bytes on a path of weight wa take longer than b bytes on one of weight wb.
func takesLonger(a int64, wa uint32, b int64, wb uint32) bool {
	ah, al := bits.Mul64(uint64(a), uint64(wb))
	bh, bl := bits.Mul64(uint64(b), uint64(wa))
	return ah > bh || ah == bh && al > bl
}

// takeRate processes a controller's report of a link's rate. Pieces leave the paths over the link until the rest
// fits their weights.
func (c *Core) takeRate(id fabric.LinkID, l *linkState, rate uint64) {
	l.weight = rateWeight(rate, uint64(c.fabric.Link(id).Rate))
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
		if s, ok := c.pathsOver(d, id); ok {
			d.eachPath(s, func(path int) { c.unload(d, path, false) })
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
