package controller

import (
	"math/bits"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// state is the link states on which tables depend: the live uplinks. It also counts the ToRs with exactly one dead
// uplink, which share groups; see tor.go.
type state struct {
	shape
	tor []uint64 // by ToR: bit i is set if uplink i is live
	agg []uint64 // by aggregation switch, likewise

	deadAggUplinks   []int                      // by pod: number of dead uplinks of its aggregation switches
	missingOnly      [][fabric.MaxUplinks]int32 // by pod and uplink: number of ToRs that miss only this uplink
	missingOnlyTotal [fabric.MaxUplinks]int32   // single, over the pods with dead == 0

	deadLinks []bool   // of a dragonfly: the dead links, by number
	detour    *detours // of a dragonfly: what follows from them; nil: not computed
}

// shape is the often-used part of the fabric's shape.
type shape struct {
	pods, torsPerPod, aggsPerPod int
	torAll, aggAll               uint64 // all uplinks of a ToR, of an aggregation switch
	torUp, aggUp                 int    // their numbers
}

func newState(f *fabric.Fabric) *state {
	spec := f.Spec()
	s := &state{
		shape: shape{pods: spec.Pods, torsPerPod: spec.ToRsPerPod, aggsPerPod: spec.AggsPerPod},
		tor:   make([]uint64, f.ToRs()),
		agg:   make([]uint64, f.Aggs()),
	}
	s.torUp = f.Node(f.ToRID(0)).Uplinks()
	s.torAll = 1<<s.torUp - 1
	if f.ThreeTier() {
		s.aggUp = f.Node(f.AggID(0)).Uplinks()
		s.aggAll = 1<<s.aggUp - 1
	}
	for i := range s.tor {
		s.tor[i] = s.torAll
	}
	for i := range s.agg {
		s.agg[i] = s.aggAll
	}
	if !f.Clos() {
		s.deadLinks = make([]bool, f.Links())
	}
	s.deadAggUplinks = make([]int, s.pods)
	s.missingOnly = make([][fabric.MaxUplinks]int32, s.pods)
	return s
}

func (s *state) podOfToR(t int) int { return t / s.torsPerPod }
func (s *state) podOfAgg(a int) int { return a / s.aggsPerPod }

// setToR replaces the live uplinks of ToR t.
func (s *state) setToR(t int, live uint64) {
	s.countSingle(t, -1)
	s.tor[t] = live
	s.countSingle(t, 1)
}

func (s *state) countSingle(t int, by int32) {
	gone := s.torAll &^ s.tor[t]
	if bits.OnesCount64(gone) != 1 {
		return
	}
	p, u := s.podOfToR(t), bits.TrailingZeros64(gone)
	s.missingOnly[p][u] += by
	if s.deadAggUplinks[p] == 0 {
		s.missingOnlyTotal[u] += by
	}
}

// setAgg replaces the live uplinks of aggregation switch a.
func (s *state) setAgg(a int, live uint64) {
	p := s.podOfAgg(a)
	was := s.deadAggUplinks[p]
	s.deadAggUplinks[p] += bits.OnesCount64(s.agg[a]) - bits.OnesCount64(live)
	s.agg[a] = live
	by := int32(0)
	switch {
	case was == 0 && s.deadAggUplinks[p] > 0:
		by = -1
	case was > 0 && s.deadAggUplinks[p] == 0:
		by = 1
	default:
		return
	}
	for u := range s.missingOnlyTotal {
		s.missingOnlyTotal[u] += by * s.missingOnly[p][u]
	}
}

// pathsToward returns, per uplink in set live of a ToR in pod p, the number of live paths to the aggregation switches
// of pod q. Within a pod, and in two tiers, that is one.
func (s *state) pathsToward(live uint64, p, q int) (w weights) {
	if p == q || s.aggsPerPod == 0 {
		return equalWeights(live)
	}
	for ; live != 0; live &= live - 1 {
		u := bits.TrailingZeros64(live)
		w[u] = uint8(bits.OnesCount64(s.agg[p*s.aggsPerPod+u] & s.agg[q*s.aggsPerPod+u]))
	}
	return w
}

// pathsUp returns, per uplink in set live of a ToR in pod p, the number of live paths to the cores, or to the spines.
func (s *state) pathsUp(live uint64, p int) (w weights) {
	if s.aggsPerPod == 0 {
		return equalWeights(live)
	}
	for ; live != 0; live &= live - 1 {
		u := bits.TrailingZeros64(live)
		w[u] = uint8(bits.OnesCount64(s.agg[p*s.aggsPerPod+u]))
	}
	return w
}

// uplinksToward returns the uplinks in set live that have a path to pod q.
func (s *state) uplinksToward(live uint64, p, q int) uint64 {
	if p == q || s.aggsPerPod == 0 || s.deadAggUplinks[p] == 0 && s.deadAggUplinks[q] == 0 {
		return live
	}
	for rest := live; rest != 0; rest &= rest - 1 {
		u := bits.TrailingZeros64(rest)
		if s.agg[p*s.aggsPerPod+u]&s.agg[q*s.aggsPerPod+u] == 0 {
			live &^= 1 << u
		}
	}
	return live
}
