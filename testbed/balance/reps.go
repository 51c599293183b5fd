package balance

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/params"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

const (
	defaultEntropies = 8
	maxEntropies     = 256
	maxExplore       = 1 << 20
	defaultFreeze    = fabric.Millisecond
)

// Values of the parameter recycle.
const (
	recycleOnce        = "once"
	recycleUntilMarked = "until-marked"
)

// reps recycles entropies (arXiv 2407.21625): the entropy of an unmarked ACK is kept in a small ring and used
// again, once. While the ring is empty, and for the first bandwidth-delay product of a queue pair, packets explore
// at random. A time-out, unless packets still explore, freezes the ring: until a fixed time has passed, packets
// cycle through its entropies, used before or not, since these have worked. Then the ring is emptied, and packets
// explore as in the beginning.
//
// The paper's artifact does that (reps, EuroSys: nextEntropy_freezing), with three differences. It freezes at a
// time-out only if no round trip was long recently, as after losses by congestion; here any time-out counts. It
// leaves the ring frozen until an ACK comes after the fixed time. And it can keep the ring from message to message;
// here each queue pair begins with its own.
//
// The parameter recycle set to until-marked is the opponent in the Ethereal paper's simulator, by its description:
// entropies that came back unmarked are an ordered set, and packets use its head until that comes back marked,
// which removes it.
type reps struct {
	pieces
	entropies int
	explore   int // packets; 0: the bandwidth-delay product
	freeze    fabric.Time
	ports     bool
	ordered   bool // recycle: until-marked
	wire      wireLengths
	qps       qpStates[recycler]
}

// recycler is a queue pair's ring.
type recycler struct {
	dst      fabric.NodeID
	paths    []fabric.Label // nil: ports
	ring     []repsEntry
	filled   int // entries ever written
	head     int // next entry to write
	valid    int // number of valid entries before head
	explore  int // number of packets that still explore
	window   int // number of packets that explore at first
	thawAt   fabric.Time
	freezing bool
	frozen   int            // next entry to use while frozen
	set      []fabric.Label // of until-marked, in order
}

type repsEntry struct {
	label fabric.Label
	valid bool
}

// REPS is the name of recycled entropy packet spraying.
const REPS = "reps"

func repsSpec() Spec {
	return Spec{
		Name: REPS, Summary: "hosts choose random paths, and use a path again if its packet was not marked",
		Params: []transport.Param{
			{Name: "entropies", Meaning: "size of a queue pair's ring; 8 when absent"},
			{Name: "explore", Meaning: "packets that draw an entropy at random first; a bandwidth-delay product when absent"},
			{Name: "freeze", Meaning: "time for which a time-out freezes the ring; 1ms when absent"},
			{Name: "recycle", Meaning: "once, until-marked: use an unmarked entropy once more, or keep it until it comes back marked"},
			entropyDoc, lossDoc, newsDoc,
		},
		Receiver: transport.Ideal, Flows: Spread, host: readREPS,
	}
}

func readREPS(a *params.Reader) hostFactory {
	n := a.Integer("entropies", defaultEntropies, 1, maxEntropies)
	explore := a.Integer("explore", 0, 0, maxExplore)
	freeze := a.Time("freeze", defaultFreeze, defaultFreeze)
	recycle, entropy := a.Choice("recycle", recycleOnce, recycleUntilMarked), a.Choice("entropy", byPath, byPort)
	late := a.Choice(lossParam, "timer", lossByTime) == lossByTime
	return func(c Config) (Host, error) {
		p, err := newPieces(c)
		if err != nil {
			return nil, err
		}
		s := &reps{
			pieces: p, entropies: n, explore: explore, freeze: freeze,
			ports: entropy == byPort, ordered: recycle == recycleUntilMarked, wire: wireOf(c), qps: newQPStates[recycler](),
		}
		if late {
			return lossyREPS{s}, nil
		}
		return s, nil
	}
}

// Post opens a queue pair per flow.
func (s *reps) Post(now fabric.Time, batch []hostagent.Flow) error {
	return s.postPieces(now, batch, 1, func(p *hostagent.Piece) {
		r := s.qps.begin(p.QP)
		ring := r.ring
		if ring == nil {
			ring = make([]repsEntry, s.entropies)
		}
		clear(ring)
		*r = recycler{dst: p.Dst, ring: ring, window: s.explore, set: r.set[:0]}
		if r.window == 0 {
			rate := s.f.Link(s.f.Node(s.host).Link(1)).Rate
			r.window = max(1, int(s.baseRTT(p.Dst, s.wire)/rate.TimeFor(s.wire.data)))
		}
		r.explore = r.window
		if !s.ports {
			r.paths = s.pathLabels(p.Dst)
		}
		p.Label = s.randomLabel(r.paths)
		p.Labelled = p.Label < s.span
	})
}

// Label returns the path label of the data packet that a queue pair sends now, for [PacketHost].
func (s *reps) Label(now fabric.Time, qp hostagent.QP) fabric.Label {
	r := s.qps.open[qp]
	return s.livePath(r.dst, s.pick(now, r))
}

// pick returns an unmarked entropy, or draws one.
func (s *reps) pick(now fabric.Time, r *recycler) fabric.Label {
	if r.freezing && now >= r.thawAt {
		r.freezing = false
		clear(r.ring)
		r.head, r.filled, r.valid, r.explore = 0, 0, 0, r.window
	}
	if r.explore > 0 {
		r.explore--
		return s.randomLabel(r.paths)
	}
	if r.freezing && r.filled > 0 {
		l := r.ring[r.frozen%r.filled].label
		r.frozen = (r.frozen + 1) % r.filled
		return l
	}
	if len(r.set) > 0 {
		return r.set[0]
	}
	if r.valid > 0 {
		e := &r.ring[(r.head-r.valid+len(r.ring))%len(r.ring)]
		r.valid--
		e.valid = false
		return e.label
	}
	return s.randomLabel(r.paths)
}

// Echo processes what an ACK says about the data packet that caused it: path, mark, round trip, for [PacketHost].
func (s *reps) Echo(_ fabric.Time, qp hostagent.QP, e transport.Echo) {
	r := s.qps.open[qp]
	if r == nil {
		return
	}
	if s.ordered {
		r.keep(e)
		return
	}
	if e.Marked {
		return
	}
	if !r.ring[r.head].valid {
		r.valid++
	}
	r.ring[r.head] = repsEntry{e.Label, true}
	r.filled = max(r.filled, r.head+1)
	r.head = (r.head + 1) % len(r.ring)
}

// keep adds an entropy to the ordered set, or removes it.
func (r *recycler) keep(e transport.Echo) {
	i, found := slices.BinarySearch(r.set, e.Label)
	switch {
	case found && e.Marked:
		r.set = slices.Delete(r.set, i, i+1)
	case !found && !e.Marked:
		r.set = slices.Insert(r.set, i, e.Label)
	}
}

// Timeout freezes the ring of recycled path labels: for a while only labels from before the failure are used.
func (s *reps) Timeout(now fabric.Time, qp hostagent.QP) {
	if r := s.qps.open[qp]; r != nil && !r.freezing && r.explore == 0 {
		r.freezing, r.thawAt, r.frozen = true, now+s.freeze, 0
	}
}

// lossyREPS is notified of the entropies of lost packets: it forgets them, and freezes as at a time-out. The
// paper's senders learn so that a path has failed.
type lossyREPS struct{ *reps }

// LostBy processes the loss of a data packet on the path with label l, for [transport.PathLosses].
func (s lossyREPS) LostBy(now fabric.Time, qp hostagent.QP, l fabric.Label) {
	r := s.qps.open[qp]
	if r == nil {
		return
	}
	r.forget(l)
	s.Timeout(now, qp)
}

// forget removes an entropy from the ring.
func (r *recycler) forget(l fabric.Label) {
	if i, found := slices.BinarySearch(r.set, l); found {
		r.set = slices.Delete(r.set, i, i+1)
	}
	kept := make([]repsEntry, 0, len(r.ring)) // oldest first
	for i := range r.filled {
		e := r.ring[(r.head-r.filled+i+len(r.ring))%len(r.ring)]
		if e.label != l {
			kept = append(kept, e)
		}
	}
	if len(kept) == r.filled {
		return
	}
	clear(r.ring)
	r.filled, r.head, r.valid, r.frozen = copy(r.ring, kept), len(kept)%len(r.ring), 0, 0
	for i := len(kept) - 1; i >= 0 && kept[i].valid; i-- {
		r.valid++
	}
}

// Done forgets a queue pair.
func (s *reps) Done(_ fabric.Time, qp hostagent.QP) { s.qps.end(qp) }
