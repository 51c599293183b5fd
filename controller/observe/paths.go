package observe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/controller/view"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// PathsKept is how long a path's results are kept after its last answer.
const PathsKept = 10 * time.Minute

// Limits of the stored paths.
const (
	maxPaths  = 256         // above it, the path with the oldest report is dropped
	maxTrip   = time.Minute // larger values in reports are nonsense
	viewPaths = 64          // maximum number of paths per update of the page
)

// Paths stores the results of path probes. Agents probe only paths over links that agents suspect; nothing is known of
// others. It is not safe for concurrent use.
type Paths struct {
	seen    map[suspicion.ProbedPath]*probed
	changed bool // since the page was last updated
}

// probed is the state of a path.
type probed struct {
	sent, lost  uint64
	trip, least time.Duration // 0: not measured
	first, last time.Time
}

// Store stores the result of a probe; package suspicion has checked that it was requested.
func (p *Paths) Store(path suspicion.ProbedPath, now time.Time, r *statepb.ProbeResult) {
	if p.seen == nil {
		p.seen = map[suspicion.ProbedPath]*probed{}
	}
	p.expire(now)
	x := p.seen[path]
	if x == nil {
		if len(p.seen) >= maxPaths {
			delete(p.seen, p.oldest())
		}
		x = &probed{first: now}
		p.seen[path] = x
	}
	x.sent, x.lost, x.last = x.sent+uint64(r.GetSent()), x.lost+uint64(r.GetLost()), now
	if trip := time.Duration(r.GetTripNs()); trip > 0 && trip <= maxTrip {
		x.trip = trip
		if least := time.Duration(r.GetLeastNs()); least > 0 && least <= trip && (x.least == 0 || least < x.least) {
			x.least = least
		}
	}
	p.changed = true
}

// expire drops paths without a recent result.
func (p *Paths) expire(now time.Time) {
	before := len(p.seen)
	maps.DeleteFunc(p.seen, func(_ suspicion.ProbedPath, x *probed) bool { return now.Sub(x.last) > PathsKept })
	p.changed = p.changed || len(p.seen) < before
}

// sorted returns the paths in a stable order.
func (p *Paths) sorted() []suspicion.ProbedPath {
	return slices.SortedFunc(maps.Keys(p.seen), func(a, b suspicion.ProbedPath) int {
		return cmp.Or(cmp.Compare(a.SrcToR, b.SrcToR), cmp.Compare(a.DstToR, b.DstToR), cmp.Compare(a.Label, b.Label))
	})
}

func (p *Paths) oldest() suspicion.ProbedPath {
	return slices.MinFunc(p.sorted(), func(a, b suspicion.ProbedPath) int { return p.seen[a].last.Compare(p.seen[b].last) })
}

// PathStatus is the results of probing one path: a label between two ToRs.
type PathStatus struct {
	From  string        `json:"from"`
	To    string        `json:"to"`
	Label int           `json:"label"`
	Via   []string      `json:"via"`  // names of the switches, with both ToRs
	Sent  uint64        `json:"sent"` // number of probe packets sent on the path
	Lost  uint64        `json:"lost"`
	Trip  time.Duration `json:"trip_ns,omitempty"`       // mean round-trip time of the last answered probe
	Least time.Duration `json:"least_trip_ns,omitempty"` // shortest round-trip time of all probes
	Since time.Time     `json:"since"`
	Last  time.Time     `json:"last"` // time of the last probe's answer
}

// switchesVia returns the switches of a path.
func switchesVia(f *fabric.Fabric, path suspicion.ProbedPath) []fabric.NodeID {
	nodes := []fabric.NodeID{path.SrcToR}
	hops, _ := f.Path(nil, path.SrcToR, path.DstToR, path.Label) // it was probed, so it exists
	for _, h := range hops {
		nodes = append(nodes, f.Link(h.Link).Peer(nodes[len(nodes)-1]).Node)
	}
	return nodes
}

// Status returns the paths' states.
func (p *Paths) Status(f *fabric.Fabric, now time.Time) []PathStatus {
	p.expire(now)
	var out []PathStatus
	for _, path := range p.sorted() {
		x := p.seen[path]
		s := PathStatus{
			From: f.Name(path.SrcToR), To: f.Name(path.DstToR), Label: int(path.Label),
			Sent: x.sent, Lost: x.lost, Trip: x.trip, Least: x.least, Since: x.first, Last: x.last,
		}
		for _, n := range switchesVia(f, path) {
			s.Via = append(s.Via, f.Name(n))
		}
		out = append(out, s)
	}
	return out
}

// View returns the page's paths, those with the most losses first; ok is false if nothing is new.
func (p *Paths) View(f *fabric.Fabric, began, now time.Time) (flows []view.Flow, ok bool) {
	if p.expire(now); !p.changed {
		return nil, false
	}
	p.changed = false
	worst := p.sorted()
	slices.SortStableFunc(worst, func(a, b suspicion.ProbedPath) int {
		x, y := p.seen[a], p.seen[b]
		return cmp.Compare(y.lost*x.sent, x.lost*y.sent)
	})
	flows = []view.Flow{} // not null: null would clear the page's paths
	for _, path := range worst[:min(viewPaths, len(worst))] {
		x := p.seen[path]
		flow := view.Flow{
			Kind: "probes", Src: int(path.SrcToR), Dst: int(path.DstToR), Text: x.text(path.Label),
			Begin: float64(x.first.Sub(began).Microseconds()), End: float64(x.last.Sub(began).Microseconds()),
		}
		for _, n := range switchesVia(f, path) {
			flow.Path = append(flow.Path, int(n))
		}
		flows = append(flows, flow)
	}
	return flows, true
}

func (x *probed) text(label fabric.Label) string {
	text := fmt.Sprintf("label %d: %d of %d packets lost", label, x.lost, x.sent)
	if x.trip > 0 {
		text += fmt.Sprintf(", %v there and back, the least %v", x.trip, x.least)
	}
	return text
}
