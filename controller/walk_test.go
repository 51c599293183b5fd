package controller

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// walker follows packets through tables alone: it knows the wiring, which links
// carry packets, and what the tables say, nothing of how they came about.
type walker struct {
	f      *fabric.Fabric
	tables map[fabric.NodeID]*walkTables
	live   func(fabric.LinkID) bool
}

// walkTables is a switch's tables, laid out for lookup.
type walkTables struct {
	routes map[Table]map[uint8]map[Value]Entry // by prefix length
	groups map[uint64]Entry
	labels []Entry
}

func newWalkTables(entries []Entry) *walkTables {
	w := &walkTables{routes: map[Table]map[uint8]map[Value]Entry{}, groups: map[uint64]Entry{}}
	for _, e := range entries {
		switch e.Table {
		case RouteV4, RouteV6: // of the prefix lengths that route knows
			if w.routes[e.Table] == nil {
				w.routes[e.Table] = map[uint8]map[Value]Entry{}
			}
			if w.routes[e.Table][e.PrefixLen] == nil {
				w.routes[e.Table][e.PrefixLen] = map[Value]Entry{}
			}
			w.routes[e.Table][e.PrefixLen][e.Value] = e
		case ECMP:
			w.groups[e.Value.Lo] = e
		case SourceRoute:
			w.labels = append(w.labels, e)
		}
	}
	return w
}

func (w *walkTables) route(dst netip.Addr) (Entry, bool) {
	t, lengths := RouteV4, []int{32, 24, 16, 0}
	if dst.Is6() {
		t, lengths = RouteV6, []int{128, 64, 48, 0}
	}
	for _, n := range lengths {
		byValue, ok := w.routes[t][uint8(n)]
		if !ok {
			continue
		}
		p, err := dst.Prefix(n)
		if err != nil {
			panic(err)
		}
		if e, ok := byValue[AddrValue(p.Addr())]; ok {
			return e, true
		}
	}
	return Entry{}, false
}

// outcome is where one choice of hashes leads a packet.
type outcome struct {
	hops  []fabric.Hop
	share float64       // of the packets
	host  fabric.NodeID // where it is delivered
	lost  string        // or why it is not
}

// noLabel is the label of a packet without one.
const noLabel = -1

// walk returns all outcomes for packets that enter the fabric at ToR src.
func (w *walker) walk(src fabric.NodeID, dst netip.Addr, label int) []outcome {
	return w.step(nil, outcome{share: 1}, src, dst, label)
}

func (w *walker) step(outs []outcome, o outcome, at fabric.NodeID, dst netip.Addr, label int) []outcome {
	lose := func(format string, args ...any) []outcome {
		o.lost = w.f.Name(at) + ": " + fmt.Sprintf(format, args...)
		return append(outs, o)
	}
	for _, h := range o.hops {
		if h.From == at {
			return lose("loop")
		}
	}
	t := w.tables[at]
	r, ok := t.route(dst)
	if !ok || r.Action == Discard {
		return lose("no route")
	}
	leave := func(o outcome, port fabric.PortNo) []outcome {
		link, ok := w.f.LinkAt(at, port)
		if !ok {
			return lose("no port %d", port)
		}
		o.hops = append(slices.Clip(o.hops), fabric.Hop{Link: link, From: at, Port: port})
		if !w.live(link) {
			o.lost = w.f.Name(at) + ": dead link " + w.f.LinkName(link)
			return append(outs, o)
		}
		next := w.f.Link(link).Peer(at).Node
		if w.f.Node(next).Tier == fabric.Host {
			o.host = next
			return append(outs, o)
		}
		return w.step(outs, o, next, dst, label)
	}
	switch r.Action {
	case Deliver, ForwardDown:
		return leave(o, fabric.PortNo(r.Args[0]))
	case ForwardUp:
	default:
		return lose("action %v in a route", r.Action)
	}
	if label != noLabel {
		for _, e := range t.labels {
			if uint64(label)&e.Mask == e.Value.Lo {
				return leave(o, fabric.PortNo(e.Args[0]))
			}
		}
	}
	g, ok := t.groups[r.Args[0]]
	if !ok {
		return lose("no group %d", r.Args[0])
	}
	total := int32(0)
	for _, m := range g.Members {
		total += m.Weight
	}
	for _, m := range g.Members {
		branch := o
		branch.share *= float64(m.Weight) / float64(total)
		outs = leave(branch, m.Port)
	}
	return outs
}

// livePaths returns the labels of the live paths between two ToRs, the host
// links aside: what fabric says, not what the controller computed.
func livePaths(f *fabric.Fabric, src, dst fabric.NodeID, live func(fabric.LinkID) bool) []fabric.Label {
	var ls []fabric.Label
	for _, l := range f.PathLabels(src, dst) {
		hops, ok := f.Path(nil, src, dst, l)
		for _, h := range hops {
			ok = ok && live(h.Link)
		}
		if ok {
			ls = append(ls, l)
		}
	}
	return ls
}
