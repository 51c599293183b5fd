package hostagent

import (
	"math"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/splitmix"
)

// site is the state that all parts of a core share: the host's position in the fabric, the time, and the driver's
// pending work.
type site struct {
	cfg         Config
	fabric      *fabric.Fabric
	tor         fabric.NodeID // this host's ToR
	pod         int
	usedPerToR  int // number of uplinks of a ToR of this host that it uses
	firstUplink int // the first of them; the others follow, modulo the ToR's uplinks
	uplinks     int // used uplinks, over all planes: those of plane q are q*share to q*share+share-1
	uplinkSlots int // uplinks; with planes, then one per plane, which stands for the paths under the own ToR
	aggUplinks  int // uplinks of an aggregation switch; 1 in two tiers
	aggs        int // aggregation switches per pod; 0 in two tiers

	now              fabric.Time
	slowestAnswer    lateness // answer of the last while
	nextQP           QP
	stats            Stats
	ready, lastReady Ready // for the next call of Ready; returned by the last
}

func newSite(cfg Config) site {
	f := cfg.Fabric
	tor := f.ToROf(cfg.Host)
	h := site{cfg: cfg, fabric: f, tor: tor, pod: f.Node(tor).Pod, aggUplinks: 1, now: math.MinInt64}
	h.chooseUplinks()
	if !f.Clos() {
		h.uplinksFromLabels()
	}
	if f.ThreeTier() {
		h.aggs = f.Spec().AggsPerPod
		h.aggUplinks = f.Node(f.AggID(0)).Uplinks()
	}
	return h
}

// hostPath is a path, with a host to which it leads.
type hostPath struct {
	d    *destination
	path int
	host fabric.NodeID
}

// openProbe opens a queue pair without bytes to a host by a path, whose packet is in the data's class. Under the own
// ToR, where s.d is nil, there is one path and no label.
func (h *site) openProbe(s hostPath) QP {
	h.nextQP++
	p := Piece{QP: h.nextQP, Dst: s.host, Start: h.now}
	if s.d != nil {
		p.Label, p.Labelled = h.label(s.d, s.path), true
	}
	h.ready.Open = append(h.ready.Open, p)
	return h.nextQP
}

// reportFailedPath reports a path on whose links nothing was known: see [Failed].
func (h *site) reportFailedPath(s hostPath) {
	h.ready.Failed = append(h.ready.Failed, Failed{Dst: s.host, DstToR: s.d.tor, Label: h.label(s.d, s.path)})
}

// chooseUplinks computes the uplinks that this host uses: see [Config.Uplinks].
func (h *site) chooseUplinks() {
	all, planes := h.fabric.ToRUplinks(), h.fabric.Planes()
	h.usedPerToR = all
	if n := h.cfg.Uplinks; n > 0 && n < all {
		first, _ := h.fabric.HostsOf(h.tor)
		h.usedPerToR, h.firstUplink = n, int(h.cfg.Host-first)*n%all
	}
	h.uplinks = planes * h.usedPerToR
	h.uplinkSlots = h.uplinks
	if planes > 1 {
		h.uplinkSlots += planes
	}
}

// uplinksFromLabels makes uplinks of a dragonfly's labels, since all paths of a label begin with the same links: those
// of all pods but this host's. One more stands for the single paths within the pod.
func (h *site) uplinksFromLabels() {
	h.usedPerToR, h.firstUplink = h.fabric.ToRUplinks()-1, h.pod+1
	h.uplinks, h.uplinkSlots = h.usedPerToR, h.usedPerToR+1
}

// fabricUplink returns the fabric's number of a used uplink.
func (h *site) fabricUplink(used int) int {
	all := h.fabric.ToRUplinks()
	return used/h.usedPerToR*all + (h.firstUplink+used%h.usedPerToR)%all
}

// planeOf returns the plane of an uplink.
func (h *site) planeOf(uplink int) int {
	if uplink >= h.uplinks {
		return uplink - h.uplinks
	}
	return uplink / h.usedPerToR
}

// usedUplink is the inverse of fabricUplink. ok is false for an uplink that this host does not use.
func (h *site) usedUplink(uplink int) (used int, ok bool) {
	all := h.fabric.ToRUplinks()
	i := (uplink%all - h.firstUplink + all) % all
	return uplink/all*h.usedPerToR + i, i < h.usedPerToR
}

// hasPathChoice reports whether there are several paths to a host; false for an id that is no host.
func (h *site) hasPathChoice(host fabric.NodeID) bool {
	return host >= 0 && int(host) < h.fabric.Hosts() && (h.fabric.Planes() > 1 || h.fabric.ToROf(host) != h.tor)
}

func (h *site) label(d *destination, path int) fabric.Label {
	if !h.fabric.Clos() && (d.pod == h.pod || h.fabricUplink(path) == d.pod) {
		return h.fabric.Minimal()
	}
	if d.firstUplink > 0 {
		return h.fabric.LabelFor(path*h.fabric.ToRUplinks(), 0)
	}
	return h.fabric.LabelFor(h.fabricUplink(path/d.aggUplinks), path%d.aggUplinks)
}

// pathOf is the inverse of label. A label's lower tier does not matter where there is no choice in it.
func (h *site) pathOf(d *destination, l fabric.Label) (path int, ok bool) {
	if !h.fabric.Clos() {
		return h.pathThrough(d, l)
	}
	u, v, ok := h.fabric.SplitLabel(l)
	if !ok {
		return 0, false
	}
	if d.firstUplink > 0 {
		return h.fabric.PlaneOf(l), true
	}
	if u, ok = h.usedUplink(u); !ok {
		return 0, false
	}
	if d.aggUplinks == 1 {
		return u, true
	}
	return u*d.aggUplinks + v, true
}

// pathThrough is pathOf in a dragonfly. This host's pod means the minimal path.
func (h *site) pathThrough(d *destination, l fabric.Label) (path int, ok bool) {
	pod, ok := h.fabric.Through(l, d.tor)
	switch {
	case !ok || d.firstUplink > 0:
		return 0, ok
	case pod == h.pod:
		pod = d.pod
	}
	return h.usedUplink(pod)
}

// pathOrder is a total order of d's paths, random by the seed but constant.
func (h *site) pathOrder(d *destination, path int) uint64 {
	x := h.cfg.Seed ^ uint64(h.cfg.Host)<<40 ^ uint64(d.tor)<<16 ^ uint64(path)
	return splitmix.Mix(x + splitmix.Step)
}

// pathSet is a set of paths: those of n uplinks from u on, and of aggregation uplink v; v = -1: all. If only is not
// nil, it is the set.
type pathSet struct {
	firstUplink, uplinkCount, aggUplink int
	only                                bitmap
}

// pathsOver returns the paths to d that cross a link, in either direction. ok is false if there are none.
func (h *site) pathsOver(d *destination, link fabric.LinkID) (s pathSet, ok bool) {
	if !h.fabric.Clos() {
		s.only = newBitmap(d.paths)
		for path := range d.paths {
			if h.crosses(d, path, link) {
				s.only.set(path)
				ok = true
			}
		}
		return s, ok
	}
	low := h.fabric.Link(link).A
	n := h.fabric.Node(low.Node)
	up := int(low.Port) - int(n.FirstUplink())
	first := n.Plane * h.fabric.ToRUplinks()
	switch n.Tier {
	case fabric.Host:
		return h.pathsOverHostLink(d, link, low.Node)
	case fabric.ToR:
		// Uplink u of either ToR belongs to the paths over the spine u, or
		// over the aggregation switches u of both pods.
		rack := h.fabric.InPlane(low.Node, 0)
		u, used := h.usedUplink(first + up)
		return pathSet{firstUplink: u, uplinkCount: 1, aggUplink: -1}, used && d.firstUplink == 0 && (rack == h.tor || rack == d.tor)
	case fabric.Aggregation:
		u, used := h.usedUplink(first + n.Index%h.aggs)
		return pathSet{firstUplink: u, uplinkCount: 1, aggUplink: up}, used && d.pod != h.pod && (n.Pod == h.pod || n.Pod == d.pod)
	}
	return pathSet{}, false
}

// pathsOverHostLink is over for a host's link: the paths of its plane, from this host or to that host.
func (h *site) pathsOverHostLink(d *destination, link fabric.LinkID, host fabric.NodeID) (s pathSet, ok bool) {
	if h.fabric.Planes() == 1 {
		return pathSet{}, false
	}
	q := int(link) / h.fabric.Hosts()
	s = pathSet{firstUplink: q * h.usedPerToR, uplinkCount: h.usedPerToR, aggUplink: -1}
	if d.firstUplink > 0 {
		s = pathSet{firstUplink: d.firstUplink + q, uplinkCount: 1, aggUplink: -1}
	}
	return s, host == h.cfg.Host || host == d.host
}

// crosses reports whether a path to d leads over a link.
func (h *site) crosses(d *destination, path int, id fabric.LinkID) bool {
	if !h.fabric.Clos() {
		return h.fabric.PathUses(h.tor, d.tor, h.label(d, path), id)
	}
	s, ok := h.pathsOver(d, id)
	return ok && s.has(d, path)
}

// leavesSwitchBy reports whether this host's packets to d can leave switch from by the link, if a path crosses it: up
// on this host's side, down on d's side.
func (h *site) leavesSwitchBy(d *destination, link fabric.LinkID, from fabric.NodeID) bool {
	if !h.fabric.Clos() {
		return h.pathLeavesBy(d.tor, link, from)
	}
	l := h.fabric.Link(link)
	near := l.A.Node == h.cfg.Host
	switch n := h.fabric.Node(l.A.Node); n.Tier {
	case fabric.ToR:
		near = h.fabric.InPlane(n.ID, 0) == h.tor
	case fabric.Aggregation:
		near = n.Pod == h.pod
	}
	return near == (from == l.A.Node)
}

// pathLeavesBy reports whether a path of a dragonfly to a ToR leaves switch from by a link.
func (h *site) pathLeavesBy(tor fabric.NodeID, link fabric.LinkID, from fabric.NodeID) bool {
	var hops []fabric.Hop
	for _, l := range h.fabric.PathLabels(h.tor, tor) {
		hops, _ = h.fabric.Path(hops[:0], h.tor, tor, l)
		if slices.ContainsFunc(hops, func(x fabric.Hop) bool { return x.Link == link && x.From == from }) {
			return true
		}
	}
	return false
}

// hasChoice reports whether a link exists and has alternatives: a host's only link has none.
func (h *site) hasChoice(id uint32) bool {
	return int64(id) < int64(h.fabric.Links()) && (h.fabric.Planes() > 1 || int(id) >= h.fabric.Hosts())
}

// linksOf returns the links of a path to a host, from this host on.
func (h *site) linksOf(d *destination, path int, host fabric.NodeID) []fabric.LinkID {
	hops, ok := h.fabric.HostPath(nil, h.cfg.Host, host, h.label(d, path))
	if !ok {
		return nil
	}
	links := make([]fabric.LinkID, len(hops))
	for i, h := range hops {
		links[i] = h.Link
	}
	return links
}

// graceTime returns the time after a flip during which losses and time-outs do not count against the new path.
func (h *site) graceTime(d *destination) fabric.Time {
	if h.cfg.TimeoutGrace < 0 {
		return 0
	}
	return max(h.cfg.TimeoutGrace, graceTrips*d.trip)
}

const graceTrips = 2

// has reports whether s contains a path to d.
func (s pathSet) has(d *destination, path int) bool {
	if s.only != nil {
		return s.only.get(path)
	}
	uplink := d.uplink(path)
	return s.firstUplink <= uplink && uplink < s.firstUplink+s.uplinkCount && (s.aggUplink < 0 || path%d.aggUplinks == s.aggUplink)
}

// eachPath calls f for the paths of s.
func (d *destination) eachPath(s pathSet, f func(path int)) {
	if s.only != nil {
		for path := range d.paths {
			if s.only.get(path) {
				f(path)
			}
		}
		return
	}
	for u := max(s.firstUplink-d.firstUplink, 0); u < min(s.firstUplink+s.uplinkCount-d.firstUplink, d.paths/d.aggUplinks); u++ {
		if s.aggUplink >= 0 {
			f(u*d.aggUplinks + s.aggUplink)
			continue
		}
		for v := range d.aggUplinks {
			f(u*d.aggUplinks + v)
		}
	}
}
