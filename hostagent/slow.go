package hostagent

import (
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Defaults of a [SlowTest].
const (
	DefaultSlowMemory = fabric.Millisecond
	// slowTrips is the number of round trips through an idle fabric for which a path's packets must be marked.
	slowTrips = 2
)

// SlowTest decides when a path counts as slow. Zeros mean the defaults.
type SlowTest struct {
	// After is the time for which a path's packets must be marked while packets by other paths to the same ToR are
	// not. 0: two round trips of a full packet through the idle fabric.
	After fabric.Time `json:",omitzero"`
	// Memory is the time after which the share of a slow path doubles.
	Memory fabric.Time `json:",omitzero"`
	Off    bool        `json:",omitzero"`
}

func (t SlowTest) withDefaults(f *fabric.Fabric) SlowTest {
	setZero(&t.After, slowTrips*f.LongestRoundTrip(DefaultPacket, 0))
	setZero(&t.Memory, DefaultSlowMemory)
	return t
}

func (t SlowTest) validate() error {
	switch {
	case t.After < 0:
		return fmt.Errorf("%w: Slow.After: %v is below zero", ErrConfig, t.After)
	case t.Memory < 0:
		return fmt.Errorf("%w: Slow.Memory: %v is below zero", ErrConfig, t.Memory)
	}
	return nil
}

const (
	fullShare  = 64 // of a path that is not slow
	leastShare = 8  // a slow path keeps an eighth, which tests it
	// cleanRun is the number of consecutive answers without a mark that end a streak of marks.
	cleanRun = 8
	// ratePeriods is the number of SlowTest.After over which the rates of paths are compared.
	ratePeriods = 4
	// A pause of longPause times SlowTest.After ends a streak as well.
	longPause = 20
)

// slowness is the knowledge of marks on some paths: the paths to one destination, or the uplinks of this host's
// ToR.
type slowness struct {
	streaks []streak
	shares  []share
	rates   []delivery
}

// delivery is the number of bytes that a path has delivered of late: a half of what was counted one period ago counts.
type delivery struct {
	bytes int64
	at    fabric.Time // when the present period began
}

// value returns the bytes now; period is the time after which they count half.
func (r *delivery) value(now, period fabric.Time) int64 {
	if halvings := (now - r.at) / period; halvings > 0 {
		r.bytes >>= min(halvings, 63)
		r.at += halvings * period
	}
	return r.bytes
}

// delivered counts bytes that a path has delivered.
func (s *slowness) delivered(path int, bytes int64, now fabric.Time, t SlowTest) {
	if s != nil {
		r := &s.rates[path]
		r.value(now, ratePeriods*t.After)
		r.bytes += bytes
	}
}

// streak is a series of marked answers by one path.
type streak struct {
	since, last fabric.Time   // time of its first mark and its latest
	fine        fabric.Time   // time of the latest answer without a mark, whether or not marks is 0
	host        fabric.NodeID // destination of its first packet
	marks       uint16        // 0: no streak
	fines       uint8         // answers without a mark since the latest mark
	several     bool          // packets to other hosts were marked too
}

// share is a slow path's part of a full path's load.
type share struct {
	of uint8 // 0: full
	at fabric.Time
}

func (s share) value(now, memory fabric.Time) uint32 {
	if s.of == 0 {
		return fullShare
	}
	doubled := (now - s.at) / memory
	if doubled > 6 {
		return fullShare
	}
	return min(fullShare, uint32(s.of)<<doubled)
}

func newSlowness(paths int) *slowness {
	s := &slowness{streaks: make([]streak, paths), shares: make([]share, paths), rates: make([]delivery, paths)}
	for i := range s.streaks {
		s.streaks[i].fine = fabric.LongAgo
	}
	return s
}

func (s *slowness) rebase(now fabric.Time) {
	if s == nil {
		return
	}
	for i := range s.streaks {
		k := &s.streaks[i]
		k.since, k.last, k.fine = k.since.Rebase(now), k.last.Rebase(now), k.fine.Rebase(now)
	}
	for i := range s.shares {
		s.shares[i].at = s.shares[i].at.Rebase(now)
		s.rates[i].at = s.rates[i].at.Rebase(now)
	}
}

// share returns a path's share of a full path's load.
func (s *slowness) share(path int, now, memory fabric.Time) uint32 {
	if s == nil {
		return fullShare
	}
	return s.shares[path].value(now, memory)
}

// fine processes an answer without a mark.
func (s *slowness) fine(path int, now fabric.Time) {
	if s == nil {
		return
	}
	k := &s.streaks[path]
	k.fine = now
	if k.marks > 0 {
		if k.fines++; k.fines >= cleanRun {
			k.marks = 0
		}
	}
}

// marked processes an answer with a mark. It reports whether the path's packets have been marked for long enough
// while some other path's were not, and that path has delivered more.
func (s *slowness) marked(path int, host fabric.NodeID, now fabric.Time, t SlowTest, load []int64) bool {
	k := &s.streaks[path]
	if k.marks == 0 || now-k.last > longPause*t.After {
		k.marks, k.since, k.host, k.several = 0, now, host, false
	}
	k.marks, k.fines, k.last = min(k.marks+1, 1<<15), 0, now
	k.several = k.several || host != k.host
	// The queue of the last verdict takes a while to drain.
	after := ratePeriods * t.After
	for x := s.share(path, now, t.Memory); x < fullShare; x *= 2 {
		after *= 2
	}
	if k.marks < 2 || now-k.since < after {
		return false
	}
	clean := false
	for q := range s.streaks {
		o := &s.streaks[q]
		switch marked := o.marks > 0 && o.last >= k.since; {
		case q == path:
		case marked && o.host == k.host && !k.several:
			return false // the host, or its link, is slow
		case !marked && o.fine > k.since && load[q] >= load[path]/2 && s.share(q, now, t.Memory) == fullShare &&
			s.rates[path].value(now, ratePeriods*t.After) < s.rates[q].value(now, ratePeriods*t.After)/2:
			clean = true
		}
	}
	return clean
}

// uneven reports whether some path to d is dead, or has a link that a controller reports slow.
func (c *Core) uneven(d *destination) bool {
	return d.dead.count() > 0 || slices.ContainsFunc(c.slowLinks, func(id fabric.LinkID) bool {
		_, ok := c.over(d, id)
		return ok
	})
}

// all reports whether all packets of a streak were marked, to several hosts.
func (s *slowness) all(path int) bool {
	return s.streaks[path].several && s.streaks[path].fine < s.streaks[path].since
}

// lower lowers the share of a slow path, or of all paths of a way, and restarts its streak. way is the path's first
// one.
func (c *Core) lower(s *slowness, path, way int, to uint32) {
	s.shares[path] = share{uint8(max(to, leastShare)), c.now}
	s.streaks[path].marks = 0
	if c.noteShift(); !slices.Contains(c.lowered, way) {
		c.lowered = append(c.lowered, way)
	}
	c.stats.Slow++
}

// noteShift records that load moves from one path to another.
func (c *Core) noteShift() {
	if !c.unsettled() {
		c.lowered, c.shiftedAt = c.lowered[:0], c.now
	}
	c.shiftedLast = c.now
}

// unsettled reports whether load has moved within the memory.
func (c *Core) unsettled() bool { return c.now-c.shiftedLast < c.cfg.Slow.Memory }

// shifted reports whether uneven load may explain a way's marks since a time: pieces moved before, not because this
// way is slow, or some path is dead or known to be slow.
func (c *Core) shifted(way int, since fabric.Time) bool {
	if c.unsettled() && since >= c.shiftedAt && !slices.Contains(c.lowered, way) {
		return true
	}
	return slices.ContainsFunc(c.destinations, func(d *destination) bool { return d.first != nil && c.uneven(d) })
}

// trial is the move of a host's packets off a path that may be slow. If they are marked on the next path too, the
// host is the cause.
type trial struct {
	d     *destination // nil: the trial is over, and the host was the cause
	path  int
	was   share
	at    fabric.Time
	marks int
}

const trialMarks = 2

// noteMark processes an answer with a mark, of a packet to a host by a path to d, and unloads the path if it is
// slow.
func (c *Core) noteMark(d *destination, path int, host fabric.NodeID) {
	t := c.cfg.Slow
	if t.Off || d.paths < 2 {
		return
	}
	c.watch(d)
	c.markedPath, c.markedDst = path, d
	if c.blamed(d, path, host) {
		return
	}
	if way := d.way(path); c.slowWays.marked(way, host, c.now, t, c.uplinkBytes) && c.slowWays.all(way) &&
		!c.shifted(way, c.slowWays.streaks[way].since) {
		c.lower(c.slowWays, way, way, c.slowWays.share(way, c.now, t.Memory)/2)
		c.unloadWay(way)
		return
	}
	since := d.slow.streaks[path].since
	if !d.slow.marked(path, host, c.now, t, d.bytes) || d.bytes[path] == 0 || c.shifted(d.way(path), since) {
		return
	}
	if !d.slow.streaks[path].several {
		c.trials[host] = trial{d: d, path: path, was: d.slow.shares[path], at: c.now}
	}
	c.lower(d.slow, path, d.way(path), d.slow.share(path, c.now, t.Memory)/2)
	c.unload(d, path, false)
}

// watch allocates the state of d's paths, and of the uplinks.
func (c *Core) watch(d *destination) {
	if d.slow == nil {
		d.slow = newSlowness(d.paths)
	}
	if c.slowWays == nil {
		c.slowWays = newSlowness(c.ways)
	}
}

// blamed processes a mark of a host's packet, and reports whether the host, not the path, is the cause.
func (c *Core) blamed(d *destination, path int, host fabric.NodeID) bool {
	t, ok := c.trials[host]
	switch {
	case !ok:
		return false
	case c.now-t.at > c.cfg.Slow.Memory:
		delete(c.trials, host)
		return false
	case t.d == nil:
		return true
	case t.d != d || t.path == path || c.now-t.at < c.cfg.Slow.After:
		return false
	}
	if t.marks++; t.marks < trialMarks {
		c.trials[host] = t
		return false
	}
	d.slow.shares[t.path] = t.was
	c.trials[host] = trial{at: c.now}
	c.stats.SlowHosts++
	return true
}

// noteFine processes an answer to a packet by a path to d, without a mark unless noteMark was called for it.
func (c *Core) noteFine(d *destination, path int, bytes int64) {
	d.slow.delivered(path, bytes, c.now, c.cfg.Slow)
	c.slowWays.delivered(d.way(path), bytes, c.now, c.cfg.Slow)
	if c.markedDst == d && c.markedPath == path {
		c.markedDst = nil
		return
	}
	c.markedDst = nil
	d.slow.fine(path, c.now)
	c.slowWays.fine(d.way(path), c.now)
}

// unload moves pieces off a slow path to d until the rest fits its share; with byWay, its share of the uplink's
// whole load.
func (c *Core) unload(d *destination, path int, byWay bool) {
	for p := d.first; p != nil; p = p.next {
		if int(p.path) != path || c.now-p.flipped < c.cfg.Slow.Memory {
			continue
		}
		best, w := -1, c.weight(d, path)
		load := func(q int) int64 {
			if byWay {
				return c.uplinkBytes[d.way(q)]
			}
			return d.bytes[q]
		}
		for q := range d.paths {
			if q == path || !d.isGood(q) || byWay && d.way(q) == d.way(path) {
				continue
			}
			if best < 0 || c.lighter(d, q, best, load(q)+p.left, load(best)+p.left) {
				best = q
			}
		}
		if best < 0 || !heavier(load(path), w, load(best)+p.left, c.weight(d, best)) {
			return
		}
		p.home = int16(best)
		c.move(p, best, BySlow)
	}
}

// lighter reports whether onA bytes on path a take less time than onB bytes on path b.
func (c *Core) lighter(d *destination, a, b int, onA, onB int64) bool {
	x, y := c.weight(d, a), c.weight(d, b)
	if heavier(onB, y, onA, x) {
		return true
	}
	return !heavier(onA, x, onB, y) && c.order(d, a) < c.order(d, b)
}

func (c *Core) unloadWay(way int) {
	for _, d := range c.destinations {
		d.each(span{way, 1, -1}, func(path int) { c.unload(d, path, true) })
	}
}
