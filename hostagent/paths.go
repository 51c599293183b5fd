package hostagent

import (
	"math/bits"
	"slices"
	"sort"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// destination is the core's knowledge of one destination ToR, or, with planes, of one host that some plane does not
// reach. Its paths are numbered from 0: path u*vs+v takes the u-th used ToR uplink and, between pods, aggregation
// uplink v. Under the own ToR, with planes, path q takes plane q. In a dragonfly a label takes the place of an uplink,
// and there is one path to a ToR of the own pod.
type destination struct {
	tor         fabric.NodeID
	host        fabric.NodeID // wholeRack: all hosts of the ToR
	pod         int
	firstUplink int // the uplink of path 0
	aggUplinks  int // number of aggregation uplinks; 1 where the ToR's uplink is the only choice
	paths       int

	dead     bitmap
	dirty    bool    // links or detectors have changed since dead was computed
	used     bitmap  // paths ever used by a piece or an acknowledgement
	keptPath int     // the path used when all are dead
	bytes    []int64 // outstanding, by path

	trip      fabric.Time // round trip of a full packet through the idle fabric
	probeTrip fabric.Time // longest of a path probe

	// timeouts alone
	timeoutUntil []fabric.Time // by path: end of the memory of a time-out, 0: none; nil before the first time-out

	// losses alone
	records []record // by path
	marks   marks

	// questions alone
	answered      []fabric.Time // by path: time of its latest answer
	latestAnswers [][2]answer   // by host of the ToR: its latest answers by two uplinks
	asked         bitmap        // paths with an open question
	foundDead     []uint8       // by path: number of questions that found it dead; nil: none did

	// slowPaths alone
	slow *slowness // by path; nil before the first mark

	first, last *piece
	batch       []Flow // scratch of Post
}

// paths knows which paths to each destination are dead or slow: those over links that are, and those that detectors
// hold dead. It has links' states, destinations, and the bytes outstanding.
type paths struct {
	site
	detectors    []detector
	destinations []*destination // used so far, in order of ToR and host
	recent       *destination   // one of destinations
	uplinkBytes  []int64        // outstanding, by uplink, over all destinations

	links     map[fabric.LinkID]*linkState
	deadLinks []fabric.LinkID       // ascending: those of links with evidence
	slowLinks []fabric.LinkID       // ascending: links with less than their full rate
	cutOff    map[fabric.NodeID]int // with planes: the number of dead links per other host
}

// detector finds single paths dead. Its verdict adds the paths to d that it holds dead to d.dead.
type detector interface{ addDeadPaths(d *destination) }

const wholeRack fabric.NodeID = -1

// towards returns the destination for a host, and makes it on first use: that of its ToR, or the host's own while
// some plane does not reach it, since the rack's other hosts can still be reached in that plane.
func (ps *paths) towards(host fabric.NodeID) *destination {
	if ps.cutOff[host] > 0 {
		return ps.destination(ps.fabric.ToROf(host), host)
	}
	return ps.destination(ps.fabric.ToROf(host), wholeRack)
}

// lookup returns a destination used before, or nil.
func (ps *paths) lookup(tor, host fabric.NodeID) *destination {
	if d := ps.recent; d != nil && d.tor == tor && d.host == host {
		return d
	}
	if i, ok := ps.find(tor, host); ok {
		ps.recent = ps.destinations[i]
		return ps.recent
	}
	return nil
}

// find returns the index of a destination, or the index at which to insert it.
func (ps *paths) find(tor, host fabric.NodeID) (i int, ok bool) {
	i = sort.Search(len(ps.destinations), func(i int) bool {
		d := ps.destinations[i]
		return d.tor > tor || d.tor == tor && d.host >= host
	})
	return i, i < len(ps.destinations) && ps.destinations[i].tor == tor && ps.destinations[i].host == host
}

// destination returns the state of a ToR, or of a host under it, and makes it on first use.
func (ps *paths) destination(tor, host fabric.NodeID) *destination {
	if d := ps.lookup(tor, host); d != nil {
		return d
	}
	n := ps.fabric.Node(tor)
	d := &destination{tor: tor, host: host, pod: n.Pod, aggUplinks: 1}
	if ps.fabric.ThreeTier() && n.Pod != ps.pod {
		d.aggUplinks = ps.aggUplinks
	}
	d.paths = ps.uplinks * d.aggUplinks
	if tor == ps.tor || !ps.fabric.Clos() && n.Pod == ps.pod {
		d.firstUplink, d.paths = ps.uplinks, ps.fabric.Planes()
	}
	d.dead, d.used = newBitmap(d.paths), newBitmap(d.paths)
	d.bytes = make([]int64, d.paths)
	d.records, d.marks.last = make([]record, d.paths), fabric.LongAgo
	first, hosts := ps.fabric.HostsOf(tor)
	d.answered, d.asked = allLongAgo(d.paths), newBitmap(d.paths)
	d.latestAnswers = slices.Repeat([][2]answer{{{fabric.LongAgo, -1}, {fabric.LongAgo, -1}}}, hosts)
	far := first
	if far == ps.cfg.Host {
		far += fabric.NodeID(hosts - 1)
	}
	d.trip = ps.fabric.RoundTrip(ps.cfg.Host, far, ps.cfg.Packet, probeFrameBytes)
	d.probeTrip = ps.fabric.RoundTrip(ps.cfg.Host, far, ps.cfg.Packet+probeFrameBytes, ps.cfg.Packet+probeFrameBytes)
	at, _ := ps.find(tor, host)
	ps.destinations = slices.Insert(ps.destinations, at, d)
	ps.recent = d
	ps.recompute(d)
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
	return !d.dead.get(path) || path == d.keptPath && d.allDead()
}

// goodPaths appends the usable paths, ascending; there is at least one.
func (d *destination) goodPaths(to []int) []int {
	for p := range d.paths {
		if !d.dead.get(p) {
			to = append(to, p)
		}
	}
	if len(to) == 0 {
		to = append(to, d.keptPath)
	}
	return to
}

// uplink returns the uplink of a path; with planes, under the own ToR: see site.uplinkSlots.
func (d *destination) uplink(path int) int { return d.firstUplink + path/d.aggUplinks }

// addOutstanding adds to the bytes outstanding on a path.
func (ps *paths) addOutstanding(d *destination, path int, bytes int64) {
	d.bytes[path] += bytes
	ps.uplinkBytes[d.uplink(path)] += bytes
}

// recompute computes which paths to d are dead.
func (ps *paths) recompute(d *destination) {
	was := d.dead.clone()
	d.dead.clear()
	for _, l := range ps.deadLinks {
		if s, ok := ps.pathsOver(d, l); ok {
			d.eachPath(s, d.dead.set)
		}
	}
	for _, of := range ps.detectors {
		of.addDeadPaths(d)
	}
	if !d.allDead() || was.count() == d.paths && !ps.linkDead(d, d.keptPath) {
		return
	}
	// The last good path is kept, or, if several died at once, one of them; but rather one that was left because it
	// loses packets than one that is silent, and rather that one than one with a link known to be dead.
	kept := -1
	if was.count() == d.paths {
		kept = d.keptPath
	}
	d.keptPath = -1
	for p := range d.paths {
		if d.keptPath < 0 || ps.preferKept(d, p, d.keptPath, was, kept) {
			d.keptPath = p
		}
	}
}

// preferKept reports whether path a to d, all of which are dead, is rather to be kept than b. was are those that were
// dead before, and kept the one that was kept then; -1: none.
func (ps *paths) preferKept(d *destination, a, b int, was bitmap, kept int) bool {
	if x, y := ps.harm(d, a), ps.harm(d, b); x != y {
		return x < y
	}
	if x, y := was.get(a), was.get(b); x != y {
		return y
	}
	if (a == kept) != (b == kept) {
		return a == kept
	}
	return ps.pathOrder(d, a) < ps.pathOrder(d, b)
}

// keepAnother keeps another path if all are left and the kept one does not work either, and reports whether it does.
// Paths with links known to be dead are no choice; see preferTried for the others.
func (ps *paths) keepAnother(s hostPath) bool {
	d := s.d
	if !d.allDead() || s.path != d.keptPath || d.paths == 1 {
		return false
	}
	best := -1
	for _, step := range []int{d.aggUplinks + 1, 1} {
		for i := 1; i < d.paths; i++ {
			p := (s.path + i*step) % d.paths
			if p != s.path && ps.harm(d, p) < linkDead && (best < 0 || ps.preferTried(d, p, best)) {
				best = p
			}
		}
	}
	if best >= 0 {
		d.keptPath, d.dirty = best, true
		return true
	}
	return false
}

// linkDead reports whether a link of a path to d is known to be dead.
func (ps *paths) linkDead(d *destination, path int) bool {
	return slices.ContainsFunc(ps.deadLinks, func(id fabric.LinkID) bool { return ps.crosses(d, path, id) })
}

// preferTried reports whether path a to d is rather to be tried than b: it does less harm, or its last time-out is
// longer ago.
func (ps *paths) preferTried(d *destination, a, b int) bool {
	if x, y := ps.harm(d, a), ps.harm(d, b); x != y {
		return x < y
	}
	return d.timeoutUntil != nil && d.timeoutUntil[a] < d.timeoutUntil[b]
}

// harm is what is known against a path that was left.
type harm uint8

const (
	losesSome harm = iota // it merely loses packets
	silent                // it does not answer, or timed out
	linkDead              // a link of it is known to be dead
)

func (ps *paths) harm(d *destination, path int) harm {
	switch {
	case ps.linkDead(d, path):
		return linkDead
	case d.foundDead != nil && d.foundDead[path] > 0 || d.timeoutUntil != nil && d.timeoutUntil[path] > ps.now:
		return silent
	}
	return losesSome
}

// crossesReportedDead reports whether a switch or a controller reports a link of a path to d dead.
func (ps *paths) crossesReportedDead(d *destination, path int) bool {
	return slices.ContainsFunc(ps.deadLinks, func(id fabric.LinkID) bool {
		l := ps.links[id]
		return l.evidence&^probedDead != 0 && ps.crosses(d, path, id)
	})
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
