package recording

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// Recording is the events and counters of a run over time, as the web page and Perfetto show them.
type Recording struct {
	Result *report.Result // without links, flips and timeline; nil during the run
	Fabric *fabric.Fabric
	Every  fabric.Time // between two readings of the counters

	Slices   []Slice   // ordered by start
	Instants []Instant // ordered by time

	// Counters, one reading after the other. A direction of a link, or a host, has one value per reading.
	Readings []fabric.Time
	Links    []LinkReading // reading r of link direction d is at r*2*links + d
	Hosts    []HostReading // reading r of host h is at r*hosts + h

	Left int64 // number of slices and instants omitted for lack of room
}

// SliceKind is the kind of a [Slice].
type SliceKind string

// Kinds of slices.
const (
	Collective SliceKind = "collective" // the collective of the run
	Phase      SliceKind = "phase"      // of a rank: from the posting of a step's messages to that of the next step's
	Message    SliceKind = "message"    // from its posting to its last acknowledgement
	Piece      SliceKind = "piece"      // of a message, on its own queue pair
	Probe      SliceKind = "probe"      // a queue pair without bytes
)

// Slice is something that lasts: a message, a piece of one, a phase.
type Slice struct {
	Kind       SliceKind
	Begin, End fabric.Time
	Open       bool          // it had not ended when the recording ended
	Node       fabric.NodeID // the host; -1: the whole run
	ID         uint64        // of a message; of a piece or a probe: its queue pair; of a phase: its number
	Message    uint64        // the message of which a piece is a part
	Dst        fabric.NodeID // of a message, piece or probe; otherwise -1
	Bytes      int64
	Path       []fabric.NodeID // of a piece or a probe, hosts included; nil: one path per packet, or unknown
	Label      fabric.Label    // path label of a piece that has one path
	Received   fabric.Time     // of a message: when its receiver had all of it; 0: never
}

// Kinds of instants that no run reports: a recorder detects them itself.
const (
	Mark   report.Kind = "mark"   // packets got an ECN mark here
	Drop   report.Kind = "drop"   // packets dropped in a switch
	Lost   report.Kind = "lost"   // packets lost on a link that is cut or lossy
	Impair report.Kind = "impair" // a direction of a link becomes lossy or slow
)

// Instant is something that happens at one moment, such as a cut or a loss.
type Instant struct {
	At    fabric.Time
	Kind  report.Kind   // Mark, Drop, Lost, Impair, or a reported kind: of quenches and time-outs all, of cuts one direction
	Node  fabric.NodeID // where it happened; -1: nowhere in particular
	Dir   sim.LinkDir   // the link direction; -1: none
	Count int64         // number of packets; otherwise 1
	QP    uint64        // queue pair of a flip or a time-out; otherwise 0
	Cause int32         // index of the instant that caused it; -1: none
	Text  string
}

// LinkReading is the use of a link direction between two readings of the counters.
type LinkReading struct {
	Use   uint16 // used share of its capacity, in 1/10,000
	Queue int32  // mean bytes of data waiting at its port
	Peak  int32  // largest number of bytes of data waiting at its port
}

// HostReading is the state of a host at a reading, or between two readings.
type HostReading struct {
	Rate     float32 // Gb/s of payload newly acknowledged
	InFlight int64   // bytes of payload sent and not acknowledged, at the reading
	Allowed  float32 // Gb/s that rate control allows a queue pair, the mean of the open ones; 0: none is open
}

// Link returns a direction's value in a reading.
func (r *Recording) Link(reading int, d sim.LinkDir) LinkReading {
	return r.Links[reading*2*r.Fabric.Links()+int(d)]
}

// Host returns a host's value in a reading.
func (r *Recording) Host(reading int, h fabric.NodeID) HostReading {
	return r.Hosts[reading*r.Fabric.Hosts()+int(h)]
}

// DirectionEnds returns the sender and the receiver of a direction.
func DirectionEnds(f *fabric.Fabric, d sim.LinkDir) (from, to fabric.End) {
	l := f.Link(d.Link())
	if d.Up() {
		return l.A, l.B
	}
	return l.B, l.A
}

// DirName names a direction, the sender first: "tor0>agg1".
func DirName(f *fabric.Fabric, d sim.LinkDir) string {
	from, to := DirectionEnds(f, d)
	return f.Name(from.Node) + ">" + f.Name(to.Node)
}

// DirByName is the inverse of DirName.
func DirByName(f *fabric.Fabric, name string) (sim.LinkDir, error) {
	from, to, ok := strings.Cut(name, ">")
	if !ok {
		return 0, fmt.Errorf("%q names no direction of a link, as tor0>agg1 does", name)
	}
	a, err := f.NodeByName(from)
	if err != nil {
		return 0, err
	}
	b, err := f.NodeByName(to)
	if err != nil {
		return 0, err
	}
	id, ok := f.LinkBetween(a, b)
	if !ok {
		return 0, fmt.Errorf("no link is between %s and %s", from, to)
	}
	if f.Link(id).A.Node == a {
		return sim.Upward(id), nil
	}
	return sim.Downward(id), nil
}

// pathOf returns the nodes of a path between hosts; nil if the label names none.
func pathOf(f *fabric.Fabric, src, dst fabric.NodeID, l fabric.Label) []fabric.NodeID {
	hops, ok := f.Path(nil, f.ToROf(src), f.ToROf(dst), l)
	if !ok {
		return nil
	}
	path := []fabric.NodeID{src, f.ToROf(src)}
	for _, h := range hops {
		path = append(path, f.Link(h.Link).Peer(h.From).Node)
	}
	return append(path, dst)
}

// PathText writes a path: "h0 tor0 agg1 tor1 h4".
func PathText(f *fabric.Fabric, path []fabric.NodeID) string {
	names := make([]string, len(path))
	for i, n := range path {
		names[i] = f.Name(n)
	}
	return strings.Join(names, " ")
}

// parsePath is the inverse of PathText.
func parsePath(f *fabric.Fabric, text string) ([]fabric.NodeID, error) {
	var path []fabric.NodeID
	for name := range strings.FieldsSeq(text) {
		n, err := f.NodeByName(name)
		if err != nil {
			return nil, err
		}
		path = append(path, n)
	}
	return path, nil
}

// sortAll sorts slices and instants by time, and keeps the references between instants.
func (r *Recording) sortAll() {
	slices.SortStableFunc(r.Slices, func(a, b Slice) int { return compare(a.Begin, b.Begin) })
	order := make([]int32, len(r.Instants))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return compare(r.Instants[a].At, r.Instants[b].At) })
	place := make([]int32, len(order))
	sorted := make([]Instant, len(order))
	for to, from := range order {
		place[from], sorted[to] = int32(to), r.Instants[from]
	}
	for i := range sorted {
		if c := sorted[i].Cause; c >= 0 {
			sorted[i].Cause = place[c]
		}
	}
	r.Instants = sorted
}

func compare(a, b fabric.Time) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
