package controller

import (
	"math/bits"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// group numbers an ECMP group within a switch. The number follows from the group's purpose, so that it needs no
// memory; groups with one purpose are shared:
//
//	default       all routes without another group
//	pod           one pod, when its paths differ from the default's
//	minusRemote   ToRs of other pods that miss only one uplink, by uplink;
//	              at an aggregation switch, pods that miss only one
//	minusOwn      ToRs of the own pod that miss only one uplink, by uplink
//	perToR        one ToR, in any other case
type group uint32

const (
	defaultGroup     group = 0
	podGroup         group = 1
	minusRemoteGroup       = podGroup + fabric.MaxPods
	minusOwnGroup          = minusRemoteGroup + fabric.MaxUplinks
	perToRGroup            = minusOwnGroup + fabric.MaxUplinks

	noGroup group = 1<<32 - 1 // the less specific route serves as well
)

func isSingleBit(set uint64) bool { return set != 0 && set&(set-1) == 0 }

// planner computes one switch's groups and routes in one state. It caches approximations, which take long to
// compute, by their input.
type planner struct {
	groupLimit int
	reduced    map[weights]weights
}

// maxKnown bounds the planner's cache, to about 8 MB.
const maxKnown = 1 << 16

func (pl *planner) reduceWeights(w weights, n int) weights {
	sum := 0
	for _, x := range w[:n] {
		sum += int(x)
	}
	if sum <= pl.groupLimit {
		return reduceToLimit(w, n, pl.groupLimit)
	}
	r, ok := pl.reduced[w]
	if !ok {
		if pl.reduced == nil || len(pl.reduced) >= maxKnown {
			pl.reduced = make(map[weights]weights)
		}
		r = reduceToLimit(w, n, pl.groupLimit)
		pl.reduced[w] = r
	}
	return r
}

// torView is one ToR in one state.
type torView struct {
	*state
	pl       *planner
	tor, pod int
	live     uint64
	base     weights // the default group's
}

func (pl *planner) torViewOf(s *state, t int) torView {
	v := torView{state: s, pl: pl, tor: t, pod: s.podOfToR(t), live: s.tor[t]}
	v.base = v.pathsUp(v.live, v.pod)
	if v.base == (weights{}) {
		// No path to a core. Whatever the group holds, the data plane drops the packet and answers; an empty group
		// would be a second error.
		v.base = equalWeights(v.live)
		if v.live == 0 {
			v.base = equalWeights(v.torAll)
		}
	}
	v.base = pl.reduceWeights(v.base, s.torUp)
	return v
}

// toPod returns the weights towards pod q. ok is false if they lead nowhere, or the default's weights serve as
// well.
func (v *torView) toPod(q int) (weights, bool) {
	// Towards a whole other pod, the default's weights already include the own pod's failures. Within the own pod
	// the failures exist but do not matter.
	if v.aggsPerPod == 0 || v.deadAggUplinks[q] == 0 {
		return weights{}, false
	}
	w := v.pathsToward(v.live, v.pod, q)
	if w == (weights{}) {
		return w, false
	}
	if fitsWeights(v.base, w, v.torUp) {
		return w, false
	}
	w = v.pl.reduceWeights(w, v.torUp)
	return w, w != v.base
}

// groupOf returns the group for ToR d, or noGroup.
func (v *torView) groupOf(d int) group {
	gone := v.torAll &^ v.state.tor[d]
	if gone&v.live == 0 || d == v.tor {
		return noGroup
	}
	q := v.podOfToR(d)
	reach := v.uplinksToward(v.live, v.pod, q)
	if gone&reach == 0 || reach&^gone == 0 {
		return noGroup
	}
	if isSingleBit(gone) {
		u := group(bits.TrailingZeros64(gone))
		switch {
		case q == v.pod:
			return minusOwnGroup + u
		case v.deadAggUplinks[q] == 0:
			return minusRemoteGroup + u
		}
	}
	return perToRGroup + group(d)
}

// groupWeights returns the weights of group g. ok is false if the ToR does not have the group.
func (v *torView) groupWeights(g group) (weights, bool) {
	switch {
	case g == defaultGroup:
		return v.base, true
	case g >= perToRGroup:
		d := int(g - perToRGroup)
		if v.groupOf(d) != g {
			return weights{}, false
		}
		w := v.pathsToward(v.live&v.state.tor[d], v.pod, v.podOfToR(d))
		return v.pl.reduceWeights(w, v.torUp), true
	case g >= minusOwnGroup:
		u := uint64(1) << (g - minusOwnGroup)
		if v.missingOnly[v.pod][g-minusOwnGroup] == 0 || v.live&u == 0 || v.live == u {
			return weights{}, false
		}
		return equalWeights(v.live &^ u), true
	case g >= minusRemoteGroup:
		u := uint64(1) << (g - minusRemoteGroup)
		users := v.missingOnlyTotal[g-minusRemoteGroup]
		if v.deadAggUplinks[v.pod] == 0 {
			users -= v.missingOnly[v.pod][g-minusRemoteGroup]
		}
		if users == 0 || v.live&u == 0 {
			return weights{}, false
		}
		w := v.pathsUp(v.live, v.pod)
		rest := w.without(u)
		if rest == w || rest == (weights{}) {
			return weights{}, false
		}
		return v.pl.reduceWeights(rest, v.torUp), true
	}
	return v.toPod(int(g - podGroup))
}

// aggView is one aggregation switch in one state.
type aggView struct {
	*state
	agg, pod, pos int
	live          uint64
}

func (s *state) aggView(a int) aggView {
	return aggView{state: s, agg: a, pod: s.podOfAgg(a), pos: a % s.aggsPerPod, live: s.agg[a]}
}

// uplinksMissing returns the uplinks that do not reach pod q.
func (v *aggView) uplinksMissing(q int) uint64 { return v.aggAll &^ v.state.agg[q*v.aggsPerPod+v.pos] }

// groupOf returns the group for pod q, or noGroup.
func (v *aggView) groupOf(q int) group {
	gone := v.uplinksMissing(q)
	switch {
	case q == v.pod || gone&v.live == 0 || v.live&^gone == 0:
		return noGroup
	case isSingleBit(gone):
		return minusRemoteGroup + group(bits.TrailingZeros64(gone))
	}
	return podGroup + group(q)
}

// groupUplinks returns the live uplinks of group g. ok is false if the switch does not have the group.
func (v *aggView) groupUplinks(g group) (uint64, bool) {
	if g == defaultGroup {
		if v.live == 0 {
			return v.aggAll, true
		}
		return v.live, true
	}
	if g < minusRemoteGroup {
		q := int(g - podGroup)
		return v.live & v.state.agg[q*v.aggsPerPod+v.pos], v.groupOf(q) == g
	}
	for q := range v.pods {
		if v.groupOf(q) == g {
			return v.live &^ (1 << (g - minusRemoteGroup)), true
		}
	}
	return 0, false
}
