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

// SlowTest decides when a path counts as slower than others, by the ECN marks of its packets. Zeros mean the defaults.
type SlowTest struct {
	// After is how long packets of a path must be marked, while packets on other paths to the same ToR are not, before
	// the path counts as slow. 0: two round trips of a full packet through the idle fabric.
	After fabric.Time `json:",omitzero"`
	// Memory is the time after which the share of traffic on a slow path doubles again.
	Memory fabric.Time `json:",omitzero"`
	Off    bool        `json:",omitzero"`
}

func (t SlowTest) withDefaults(f *fabric.Fabric) SlowTest {
	setZero(&t.After, slowTrips*f.LongestRoundTrip(DefaultPacketBytes, 0))
	setZero(&t.Memory, DefaultSlowMemory)
	t.Off = t.Off || !f.Clos() // see the package comment, Slow paths
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
	fullShare = 64 // share of a path that is not slow
	minShare  = 8  // a slow path keeps an eighth, which tests it
	// cleanRun is the number of consecutive answers without a mark that end a streak of marks.
	cleanRun = 8
	// ratePeriods is the number of SlowTest.After over which the rates of paths are compared.
	ratePeriods = 4
	// markedPeriods is the number of SlowTest.After for which a path must be marked before it is doubted.
	markedPeriods = 2
	// A pause of longPause times SlowTest.After ends a streak as well.
	longPause = 20
)

// slowPaths finds paths that are slower than others, by ECN marks and by comparing pieces of one flow, and keeps their
// shares.
type slowPaths struct {
	*paths
	byUplink               *slowness // by uplink; nil before the first mark
	lowered                []int     // uplinks whose share, or the share of a path on them, was lowered since shiftedAt
	shiftedAt, shiftedLast fabric.Time
	checks                 []*slowCheck
	markedAnswerDst        *destination // of the answer being processed, if it has a mark
	markedAnswerPath       int
}

// slowness is the knowledge of marks on some paths: the paths to one destination, or the uplinks of this host's
// ToR.
type slowness struct {
	streaks []streak
	shares  []share
	rates   []delivery
}

// delivery is a moving average of the bytes that a path has delivered: bytes counted one period ago weigh half.
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

// streak is a series of consecutive ECN-marked answers by one path.
type streak struct {
	since, last  fabric.Time   // time of its first mark and its latest
	unmarkedAt   fabric.Time   // time of the latest answer without a mark, whether or not marks is 0
	host         fabric.NodeID // destination of its first packet
	marks        uint16        // 0: no streak
	unmarked     uint8         // answers without a mark since the latest mark
	severalHosts bool          // packets to other hosts were marked too
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
		s.streaks[i].unmarkedAt = fabric.LongAgo
	}
	return s
}

func (s *slowness) rebase(now fabric.Time) {
	if s == nil {
		return
	}
	for i := range s.streaks {
		k := &s.streaks[i]
		k.since, k.last, k.unmarkedAt = k.since.Rebase(now), k.last.Rebase(now), k.unmarkedAt.Rebase(now)
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

// unmarkedAnswer processes an answer without an ECN mark.
func (s *slowness) unmarkedAnswer(path int, now fabric.Time) {
	if s == nil {
		return
	}
	k := &s.streaks[path]
	k.unmarkedAt = now
	if k.marks > 0 {
		if k.unmarked++; k.unmarked >= cleanRun {
			k.marks = 0
		}
	}
}

// markedAnswer processes an answer with a mark. If the path's packets have been marked for long enough, it returns a
// path whose packets were not, and which delivered half as much again; otherwise -1.
func (s *slowness) markedAnswer(path int, host fabric.NodeID, now fabric.Time, t SlowTest) (clean int) {
	k := &s.streaks[path]
	if k.marks == 0 || now-k.last > longPause*t.After {
		k.marks, k.since, k.host, k.severalHosts = 0, now, host, false
	}
	k.marks, k.unmarked, k.last = min(k.marks+1, 1<<15), 0, now
	k.severalHosts = k.severalHosts || host != k.host
	// The queue of the last verdict takes a while to drain.
	after := markedPeriods * t.After
	for x := s.share(path, now, t.Memory); x < fullShare; x *= 2 {
		after *= 2
	}
	clean = -1
	if k.marks < 2 || now-k.since < after {
		return clean
	}
	most := s.rates[path].value(now, ratePeriods*t.After) * 3 / 2
	for q := range s.streaks {
		o := &s.streaks[q]
		if q == path || o.marks > 0 && o.last >= k.since || o.unmarkedAt <= k.since || s.share(q, now, t.Memory) < fullShare {
			continue
		}
		if n := s.rates[q].value(now, ratePeriods*t.After); n > most {
			clean, most = q, n
		}
	}
	return clean
}

// uneven reports whether some path to d is dead, or has a link that a controller reports slow.
func (ps *paths) uneven(d *destination) bool {
	return d.dead.count() > 0 || slices.ContainsFunc(ps.slowLinks, func(id fabric.LinkID) bool {
		_, ok := ps.pathsOver(d, id)
		return ok
	})
}

// alwaysMarked reports whether all packets of a streak were marked, to several hosts.
func (s *slowness) alwaysMarked(path int) bool {
	return s.streaks[path].severalHosts && s.streaks[path].unmarkedAt < s.streaks[path].since
}

// lowerShare lowers the share of a slow path, or of all paths of an uplink, and restarts its streak. uplink is that of
// the path.
func (sl *slowPaths) lowerShare(s *slowness, path, uplink int, to uint32) {
	s.shares[path] = share{uint8(max(to, minShare)), sl.now}
	s.streaks[path].marks = 0
	if sl.noteShift(); !slices.Contains(sl.lowered, uplink) {
		sl.lowered = append(sl.lowered, uplink)
	}
	sl.stats.Slow++
}

// noteShift records that load moves from one path to another.
func (sl *slowPaths) noteShift() {
	if !sl.unsettled() {
		sl.lowered, sl.shiftedAt = sl.lowered[:0], sl.now
	}
	sl.shiftedLast = sl.now
}

// unsettled reports whether load has moved within the memory.
func (sl *slowPaths) unsettled() bool { return sl.now-sl.shiftedLast < sl.cfg.Slow.Memory }

// explainedByShift reports whether uneven load may explain an uplink's marks since a time: pieces moved before, not
// because this uplink is slow, or some path is dead or known to be slow.
func (sl *slowPaths) explainedByShift(uplink int, since fabric.Time) bool {
	if sl.unsettled() && since >= sl.shiftedAt && !slices.Contains(sl.lowered, uplink) {
		return true
	}
	return slices.ContainsFunc(sl.destinations, func(d *destination) bool { return d.first != nil && sl.uneven(d) })
}

// slowVerdict is what proved to be slow: a path or an uplink.
type slowVerdict uint8

const (
	pathSlow   slowVerdict = iota
	pathBehind             // a path delivered its piece later than the flow's other paths
	uplinkSlow             // all paths through a ToR uplink are slow
)

// noteMark processes an answer with a mark, of a packet to a host by a path to d.
func (sl *slowPaths) noteMark(d *destination, path int, host fabric.NodeID) {
	t := sl.cfg.Slow
	if t.Off || d.paths < 2 {
		return
	}
	sl.allocateState(d)
	sl.markedAnswerPath, sl.markedAnswerDst = path, d
	uplink := d.uplink(path)
	clean := sl.byUplink.markedAnswer(uplink, host, sl.now, t)
	if clean >= 0 && sl.byUplink.alwaysMarked(uplink) && !sl.explainedByShift(uplink, sl.byUplink.streaks[uplink].since) {
		sl.byUplink.streaks[uplink].marks = 0
		sl.startCheck(slowCheck{what: uplinkSlow, d: d, path: path, remainingShare: sl.byUplink.share(uplink, sl.now, t.Memory) / 2}, host, sl.pathByUplink(d, clean))
		return
	}
	since := d.slow.streaks[path].since
	if clean = d.slow.markedAnswer(path, host, sl.now, t); clean < 0 || d.bytes[path] == 0 || sl.explainedByShift(uplink, since) {
		return
	}
	d.slow.streaks[path].marks = 0
	sl.startCheck(slowCheck{what: pathSlow, d: d, path: path, remainingShare: d.slow.share(path, sl.now, t.Memory) / 2}, host, clean)
}

// allocateState allocates the state of d's paths, and of the uplinks.
func (sl *slowPaths) allocateState(d *destination) {
	if d.slow == nil {
		d.slow = newSlowness(d.paths)
	}
	if sl.byUplink == nil {
		sl.byUplink = newSlowness(sl.uplinkSlots)
	}
}

// noteUnmarked processes an answer to a packet by a path to d, without a mark unless noteMark was called for it.
func (sl *slowPaths) noteUnmarked(d *destination, path int, bytes int64) {
	d.slow.delivered(path, bytes, sl.now, sl.cfg.Slow)
	sl.byUplink.delivered(d.uplink(path), bytes, sl.now, sl.cfg.Slow)
	if sl.markedAnswerDst == d && sl.markedAnswerPath == path {
		sl.markedAnswerDst = nil
		return
	}
	sl.markedAnswerDst = nil
	d.slow.unmarkedAnswer(path, sl.now)
	sl.byUplink.unmarkedAnswer(d.uplink(path), sl.now)
}

// takesLess reports whether onA bytes on path a take less time than onB bytes on path b.
func (sl *slowPaths) takesLess(d *destination, a, b int, onA, onB int64) bool {
	x, y := sl.weight(d, a), sl.weight(d, b)
	if takesLonger(onB, y, onA, x) {
		return true
	}
	return !takesLonger(onA, x, onB, y) && sl.pathOrder(d, a) < sl.pathOrder(d, b)
}

func (sl *slowPaths) rebase(now fabric.Time) {
	sl.shiftedAt, sl.shiftedLast = sl.shiftedAt.Rebase(now), sl.shiftedLast.Rebase(now)
	sl.byUplink.rebase(now)
	for _, x := range sl.checks {
		x.at, x.due = x.at.Rebase(now), x.due.Rebase(now)
	}
	for _, d := range sl.destinations {
		d.slow.rebase(now)
	}
}
