package hostagent

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// batch is the scratch space of [Core.Post].
type batch struct {
	touched []*destination
	usable  []int // paths
	sizes   []int64
	parts   []int64
	weights []uint32
	cuts    []Cut
}

// Post splits the flows of one batching window into pieces and chooses their paths; [Core.Ready] returns them. The
// error wraps [ErrFlow]; no flow of the batch was then accepted.
func (c *Core) Post(now fabric.Time, batch []Flow) error {
	c.advance(now)
	if err := c.checkBatch(batch); err != nil {
		return err
	}
	c.stats.Flows += uint64(len(batch))
	c.touched = c.touched[:0]
	for i, f := range batch {
		if !c.hasPathChoice(f.Dst) {
			c.openPiece(f, Cut{Flow: i, Bytes: f.Bytes}, nil)
			continue
		}
		d := c.towards(f.Dst)
		if f.Bytes <= c.cfg.Whole {
			c.openPiece(f, Cut{Flow: i, Bytes: f.Bytes, Path: c.leastLoaded(&piece{dst: d}, Return, d.goodPaths(c.usable[:0]))}, d)
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
		c.dealFlows(d)
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
	if most := uint64(len(batch)) * uint64(c.uplinks*c.aggUplinks); most > math.MaxUint32-uint64(c.nextQP) {
		return fmt.Errorf("%w: the numbers for queue pairs are used up; start a new core", ErrFlow)
	}
	return nil
}

// dealFlows splits d's batch over its good paths.
func (c *Core) dealFlows(d *destination) {
	c.usable = d.goodPaths(c.usable[:0])
	if !c.cfg.Unshuffled {
		shuffle(c.rng, d.batch)
		shuffle(c.rng, c.usable)
	}
	c.sizes = c.sizes[:0]
	for _, f := range d.batch {
		c.sizes = append(c.sizes, f.Bytes)
	}
	parts := 1
	if c.computeWeights(d, c.usable) {
		c.cuts = c.splitWeighted(d)
		c.openCuts(d, 1)
		return
	}
	if len(c.usable) < d.paths {
		all := make([]int, d.paths)
		for p := range all {
			all[p] = p
		}
		c.cuts = c.splitOver(d, all)
		parts = len(c.cuts)
	}
	c.cuts = c.splitOver(d, c.usable)
	parts = max(1, parts/len(c.cuts)) // fewer would halve a larger part of the rate at a mark
	c.openCuts(d, parts)
}

// openCuts opens the queue pairs of a batch's cuts, parts for each cut.
func (c *Core) openCuts(d *destination, parts int) {
	races := c.newRaces(len(d.batch))
	for _, cut := range c.cuts {
		path := c.usable[cut.Path]
		cut.Path = path
		cut.each(parts, func(part Cut) {
			p := c.openPiece(d.batch[part.Flow], part, d)
			if races != nil {
				races[part.Flow].enter(p)
			}
		})
	}
}

// splitOver cuts c.sizes over some paths to d, which it sorts by planes. Of each flow a plane gets its proportion of
// the paths: a sender does not know the other senders to a host, so the host's ports are loaded alike only if each
// flow loads them alike. Within a plane the parts are dealt by cut.
func (c *Core) splitOver(d *destination, paths []int) []Cut {
	if c.fabric.Planes() == 1 {
		return c.cutFlows(c.cuts[:0], c.sizes, len(paths))
	}
	plane := func(path int) int { return c.planeOf(d.uplink(path)) }
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
		cuts = c.cutFlows(cuts, c.parts, last-first)
		for i := range cuts[dealt:] {
			cut := &cuts[dealt+i]
			cut.Path += first
			cut.Offset += offset(c.sizes[cut.Flow], first)
		}
	}
	return cuts
}

// cutFlows is [Split] with the variations of the configuration.
func (c *Core) cutFlows(dst []Cut, sizes []int64, paths int) []Cut {
	if !c.cfg.Fewest && equalSizes(sizes) {
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
		c.addOutstanding(d, cut.Path, cut.Bytes)
		out.Label, out.Labelled = c.label(d, cut.Path), true
		if c.cfg.StartJitter > 0 {
			out.Start += fabric.Time(c.rng.Int64N(int64(c.cfg.StartJitter) + 1))
		}
	}
	c.ready.Open = append(c.ready.Open, out)
	return p
}

// computeWeights computes the weights of some paths to d, and reports whether they differ.
func (c *Core) computeWeights(d *destination, paths []int) bool {
	if d.slow == nil && c.slow.byUplink == nil && len(c.slowLinks) == 0 && c.fabric.Clos() {
		return false
	}
	c.weights = c.weights[:0]
	for _, p := range paths {
		c.weights = append(c.weights, c.slow.weight(d, p))
	}
	return slices.ContainsFunc(c.weights, func(w uint32) bool { return w != c.weights[0] })
}

// splitWeighted cuts c.sizes over c.usable by their weights. With planes each flow is first cut into one part per
// plane, by the weights of the plane's paths: see [Core.splitOver].
func (c *Core) splitWeighted(d *destination) []Cut {
	if c.fabric.Planes() == 1 {
		return SplitWeighted(c.cuts[:0], c.sizes, c.weights)
	}
	plane := func(path int) int { return c.planeOf(d.uplink(path)) }
	slices.SortStableFunc(c.usable, func(a, b int) int { return plane(a) - plane(b) })
	c.computeWeights(d, c.usable)
	var sum, before uint64
	for _, w := range c.weights {
		sum += uint64(w)
	}
	cuts := c.cuts[:0]
	for first, last := 0, 0; first < len(c.usable); first = last {
		upTo := before
		for last = first; last < len(c.usable) && plane(c.usable[last]) == plane(c.usable[first]); last++ {
			upTo += uint64(c.weights[last])
		}
		c.parts = c.parts[:0]
		for _, size := range c.sizes {
			c.parts = append(c.parts, scaled(size, upTo, sum)-scaled(size, before, sum))
		}
		dealt := len(cuts)
		cuts = SplitWeighted(cuts, c.parts, c.weights[first:last])
		for i := range cuts[dealt:] {
			cut := &cuts[dealt+i]
			cut.Path += first
			cut.Offset += scaled(c.sizes[cut.Flow], before, sum)
		}
		before = upTo
	}
	return cuts
}

// scaled returns size*part/whole; part is at most whole.
func scaled(size int64, part, whole uint64) int64 {
	high, low := bits.Mul64(uint64(size), part)
	q, _ := bits.Div64(high, low, whole)
	return int64(q)
}
