package interp

import (
	"math/bits"

	"github.com/ethereal-fabric/ethereal/testbed/p4switch/program"
)

// What a look-up finds depends on few bits of its key. Where an entry is found, on
// those of its mask. Where a group has none, often on one byte in which all entries
// of the group are alike and the key is not: a switch that has routes to its own
// hosts and one to all others finds the latter for any address of another ToR. The
// bits that settle a look-up are its witness: a key with the same bits there finds
// the same.

// agree notes that a key has joined g, if alone it has.
func (g *group) agree(key []uint64, alone bool) {
	if alone {
		g.common = append(g.common[:0], key...)
		g.same = append(g.same[:0], g.mask...)
		return
	}
	for i, x := range key {
		g.same[i] &^= x ^ g.common[i]
	}
}

// strange adds to w the bits that settle that g has no entry for a key. ok is false
// when no byte settles it.
func (g *group) strange(key, w []uint64) (ok bool) {
	for i, x := range key {
		if d := (x ^ g.common[i]) & g.same[i]; d != 0 {
			at := (bits.Len64(d) - 1) &^ 7
			w[i] |= g.same[i] & (0xFF << at)
			return true
		}
	}
	return false
}

// witness adds to w the bits of a key that settle what the table finds under it;
// masked is scratch. The table has no ranges.
func (ts *tableState) witness(key, masked, w []uint64) {
	best := int32(-1)
	var prio int32
	for _, g := range ts.groups {
		if best >= 0 && g.prio <= prio {
			return
		}
		if g.used == 0 || g.strange(key, w) {
			continue
		}
		for i := range masked {
			masked[i] = key[i] & g.mask[i]
			w[i] |= g.mask[i]
		}
		at, ok := g.find(ts, hashOf(masked), masked)
		switch i := g.tab[at].idx - 1; {
		case !ok:
		case ts.t.Kind <= program.LPM:
			return
		case best < 0 || ts.entries[i].prio > prio:
			best, prio = i, ts.entries[i].prio
		}
	}
}
