package interp

import (
	"math/bits"
	"slices"

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

// Few of the bits that a table's key is made of settle what is found there, and
// which do depends on the switch's entries. A way whose keys are
// cut out of the packet is remembered with those bits alone, so that a switch needs
// a place for each of its routes and not for each address it has seen.

// lane is a number that lies in the packet as it is: the bits in mask of the eight
// bytes from at on, shifted.
type lane struct {
	at    int
	mask  uint64
	right int // the shift, to the right; below 0: to the left
}

func laneOf(load *top) lane {
	return lane{int(load.n), load.imm << (load.a & 63), int(load.a&63) - int(load.b&63)}
}

// shifted returns x as the lane's number has it, or, back, as the packet has it.
func shifted(x uint64, right int) uint64 {
	if right < 0 {
		return x << min(-right, 64)
	}
	return x >> min(right, 64)
}

// cut returns the lane of what an operation makes of one, if it is one.
func (x *rester) cut(in *top) (lane, bool) {
	l, ok := x.lanes[in.a]
	c, isConst := x.t.v[in.b], len(x.defs[in.b]) == 0
	if in.op == traceOp(program.OpAnd) && !ok {
		l, ok = x.lanes[in.b]
		c, isConst = x.t.v[in.a], len(x.defs[in.a]) == 0
	}
	if !ok || len(x.defs[in.dst]) != 1 {
		return l, false
	}
	keep := in.imm
	switch in.op {
	case traceOp(program.OpMov):
	case traceOp(program.OpAnd):
		if !isConst {
			return l, false
		}
		keep &= c
	case traceOp(program.OpShr):
		if !isConst || c > 63 {
			return l, false
		}
		// What the shift drops at the bottom, and what the mask does.
		l.mask &= shifted(^uint64(0)<<c, -l.right)
		l.right += int(c)
	default:
		return l, false
	}
	l.mask &= shifted(keep, -l.right)
	return l, true
}

// narrowing is a table's look-up whose witness is decisive.
type narrowing struct {
	table uint32
	key   uint32
	parts []narrowPart
}

// narrowPart is a piece of the key: where it lies in the key and in the packet.
type narrowPart struct {
	word  uint16
	shift uint8
	lane
}

// decisive makes a table's key decisive, as far as it settles what is found.
func (x *rester) decisive(in *top) {
	n := narrowing{table: in.a, key: uint32(in.imm)}
	for _, p := range x.t.keys[in.imm].pieces {
		l, ok := x.lanes[p.reg]
		if !ok || len(x.t.p.Tables[in.a].Ranges) > 0 {
			x.key.add(x.bits[p.reg])
			continue
		}
		x.wide.window(l.at, l.mask)
		n.parts = append(n.parts, narrowPart{p.word, p.shift, l})
	}
	if len(n.parts) > 0 {
		x.narrow = append(x.narrow, n)
	}
}

// narrowed returns the shape, and its number, of the packet at hand, which has come
// to the end of a way in a switch.
func (t *Traces) narrowed(s *Switch, w *way) (*shape, uint16) {
	full := &t.shapes[w.shape-1]
	if len(w.narrow) == 0 {
		return full, w.shape
	}
	sh := shape{need: full.need, took: full.took, large: full.large, windows: append(t.windows[:0], w.base...)}
	for i := range w.narrow {
		n := &w.narrow[i]
		found := t.witness(s, &s.tables[n.table], &t.keys[n.key])
		for k := range n.parts {
			p := &n.parts[k]
			bits := shifted(found[p.word]>>(p.shift&63), -p.right) & p.mask
			for j := range sh.windows {
				win := &sh.windows[j]
				win.mask |= shifted(bits, 8*(p.at-win.at))
			}
		}
	}
	t.windows = sh.windows
	if w.last != 0 && slices.Equal(t.shapes[w.last-1].windows, sh.windows) {
		return &t.shapes[w.last-1], w.last
	}
	id := t.shapeID(sh, maxNarrowed)
	if id == 0 {
		return full, w.shape
	}
	w.last = id
	return &t.shapes[id-1], id
}

// witness returns the bits of a table's key that settle what is found.
func (t *Traces) witness(s *Switch, ts *tableState, k *traceKey) []uint64 {
	n := len(k.base)
	buf := s.keyBuf(3 * n)
	key, masked, w := buf[:n], buf[n:2*n], buf[2*n:]
	clear(w)
	copy(key, k.base)
	for i := range k.pieces {
		p := &k.pieces[i]
		key[p.word] |= t.v[p.reg] << (p.shift & 63)
	}
	for i := range ts.t.KeyMask {
		key[i] &= ts.t.KeyMask[i]
	}
	ts.witness(key, masked, w)
	return w
}

// shapeID returns a shape's number, counted from 1; 0 when there are most already.
func (t *Traces) shapeID(sh shape, most int) uint16 {
	for i := range t.shapes {
		o := &t.shapes[i]
		if o.need == sh.need && o.took == sh.took && o.large == sh.large && slices.Equal(o.windows, sh.windows) {
			return uint16(i + 1)
		}
	}
	if len(t.shapes) >= most {
		return 0
	}
	sh.windows = slices.Clone(sh.windows)
	t.shapes = append(t.shapes, sh)
	return uint16(len(t.shapes))
}
