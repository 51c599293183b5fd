package interp

import (
	"math/bits"
	"slices"

	"github.com/ethereal-fabric/ethereal/testbed/p4switch/program"
)

// When a way has been recorded, its instructions are sorted into what is settled
// by the packet's decisive header bits and the tables, which a memo remembers,
// and the rest, which every packet runs. Decisive are the bits that guards and
// table keys read; of a key that is cut out of the packet as it lies, those alone
// that settle a look-up (see witness.go). What reads registers, times or queues is
// never settled. What is looked up by the ingress port alone, a switch remembers by port:
// with the port in the memo's keys it would hold each way as often as there are ports.

// What a register of a way comes from, in rising order.
type origin uint8

const (
	fromTables origin = iota // constants and what tables gave
	fromHeader               // of the packet's bytes, too
	fromState                // anything else
)

// rester sorts one way.
type rester struct {
	t      *Traces
	path   []top
	egress bool
	from   map[uint32]origin
	bits   map[uint32]headerBits // of registers fromHeader
	lanes  map[uint32]lane       // of those that are cut out of the packet
	defs   map[uint32][]int      // instructions that write a register
	key    headerBits
	wide   headerBits // of table keys whose witnesses are decisive
	need   int
	proofs []proof
	narrow []narrowing

	ports  map[uint32]bool // registers that are the ingress port
	byPort int             // the look-up by it in path, counted from 1; 0: there is none
	took   uint64          // what that led to; 0: there is none
}

// headerBits is a set of bits of the packet, by byte.
type headerBits map[int]byte

func (h headerBits) add(o headerBits) {
	for at, b := range o {
		h[at] |= b
	}
}

func (h headerBits) has(o headerBits) bool {
	for at, b := range o {
		if h[at]&b != b {
			return false
		}
	}
	return true
}

// window adds the bits of eight bytes from a place on.
func (h headerBits) window(at int, mask uint64) {
	for i := range 8 {
		if b := byte(mask >> (56 - 8*i)); b != 0 {
			h[at+i] |= b
		}
	}
}

// remember works out how packets of the way that r has just recorded can be
// remembered. t.v holds the numbers of the packet at hand.
func (r *recorder) remember(l *traceLeaf) way {
	x := &rester{
		t: r.t, path: r.path, egress: r.egress,
		from: map[uint32]origin{}, bits: map[uint32]headerBits{}, lanes: map[uint32]lane{},
		defs: map[uint32][]int{}, key: headerBits{}, wide: headerBits{}, ports: map[uint32]bool{},
	}
	if l.drop && !r.egress {
		return way{} // rare
	}
	var guards []int // to be run
	for i := range x.path {
		in := &x.path[i]
		switch {
		case in.op == traceLen:
			x.need = max(x.need, int(in.imm))
		case in.op >= traceZ && in.op <= traceNoBits:
			if !x.guard(in) {
				guards = append(guards, i)
			}
		case in.op == traceTook: // right behind its table, and settled as that is
			if x.byPort == i { // the instruction before
				x.took = (uint64(in.a)<<32 | uint64(in.b)) + 1
			}
		default:
			if !x.define(i) {
				return way{}
			}
		}
	}
	return x.split(l, guards)
}

// settled reports whether a register is the same for all packets with the key.
func (x *rester) settled(reg uint32) bool {
	switch x.from[reg] {
	case fromTables:
		return true
	case fromHeader:
		return x.key.has(x.bits[reg])
	}
	return false
}

// guard makes what a guard reads decisive and reports whether that settles it.
func (x *rester) guard(in *top) bool {
	a, b := in.a, in.b
	if in.op == traceZ || in.op == traceNZ || in.op == traceBits || in.op == traceNoBits {
		b = program.SlotZero
	}
	if x.from[a] == fromState || x.from[b] == fromState {
		return false
	}
	if p, ok := x.oneBit(in); ok {
		x.key.window(p.at, p.mask)
		x.proofs = append(x.proofs, p)
		return true
	}
	x.key.add(x.bits[a])
	x.key.add(x.bits[b])
	return true
}

// oneBit finds a bit of the packet that settles by itself that a field is not a
// number: the highest in which they differ.
func (x *rester) oneBit(in *top) (p proof, ok bool) {
	if in.op != traceNe || len(x.defs[in.a]) != 1 || len(x.defs[in.b]) != 0 {
		return p, false
	}
	load := &x.path[x.defs[in.a][0]]
	if load.op != traceLoad || load.b != 0 {
		return p, false
	}
	v, c := x.t.v[in.a], x.t.v[in.b]
	shift := uint32(bits.Len64(v^c)-1) + load.a
	p = proof{window: window{int(load.n), 1 << shift}, bits: v >> (shift - load.a) & 1 << shift}
	return p, true
}

// define notes where what an instruction writes comes from. It reports false when
// ways with such an instruction cannot be remembered.
func (x *rester) define(i int) bool {
	in := &x.path[i]
	x.defs[in.dst] = append(x.defs[in.dst], i)
	switch in.op {
	case traceLoad, traceLoadOr:
		if x.egress { // each packet has its own, and they are few
			x.from[in.dst] = fromState
			return true
		}
		h := x.bits[in.dst]
		if h == nil {
			h = headerBits{}
			x.bits[in.dst] = h
		}
		l := laneOf(in)
		h.window(l.at, l.mask)
		x.from[in.dst] = fromHeader
		if in.op == traceLoad {
			x.lanes[in.dst] = l
		} else {
			delete(x.lanes, in.dst)
		}
	case traceInput:
		if !x.egress || in.a != inEgressPort && in.a != inQid {
			x.from[in.dst] = fromState
		}
		x.ports[in.dst] = !x.egress && in.a == inIngressPort
	case traceInputUs, traceHeld, traceRead:
		x.from[in.dst] = fromState
	case traceTable:
		tab := &x.t.p.Tables[in.a]
		if tab.Info.Profile >= 0 {
			return false // a hash may choose
		}
		pieces := x.t.keys[in.imm].pieces
		byPort := len(pieces) == 1 && x.ports[pieces[0].reg] && x.byPort == 0 && tab.ArgMax < len(portMemo{}.numbers)
		for _, p := range pieces {
			if x.from[p.reg] == fromState && !byPort {
				return false
			}
		}
		for k := range uint32(tab.ArgMax) {
			x.defs[in.dst+1+k] = append(x.defs[in.dst+1+k], i)
		}
		if !byPort {
			x.decisive(in)
			return true
		}
		x.byPort = i + 1
		for k := range uint32(1 + tab.ArgMax) {
			x.from[in.dst+k] = fromState
		}
	case traceMove, traceHash, traceRandom, traceShort:
		return false
	default:
		if in.op < traceOp(program.OpMov) || in.op > traceOp(program.OpSel) {
			return false
		}
		h := headerBits{}
		for _, arg := range []uint32{in.a, in.b, uint32(in.n)} {
			x.from[in.dst] = max(x.from[in.dst], x.from[arg])
			h.add(x.bits[arg])
		}
		if l, ok := x.cut(in); ok {
			h = headerBits{}
			h.window(l.at, l.mask)
			x.lanes[in.dst] = l
		}
		if len(h) > 0 {
			x.bits[in.dst] = h
		}
	}
	return true
}

// split writes the rest of the way and lists what is to be remembered.
func (x *rester) split(l *traceLeaf, guards []int) way {
	run := map[int]bool{}
	keep, portKeep := map[uint32]bool{}, map[uint32]bool{}
	var want func(reg uint32)
	want = func(reg uint32) {
		defs := x.defs[reg]
		switch {
		case len(defs) == 0: // a constant
			return
		case x.settled(reg):
			keep[reg] = true
			return
		case defs[0]+1 == x.byPort:
			portKeep[reg] = true
			return
		}
		for _, i := range defs {
			if run[i] {
				continue
			}
			run[i] = true
			switch in := &x.path[i]; in.op {
			case traceLoad, traceLoadOr, traceInput, traceInputUs, traceHeld:
			case traceRead:
				want(in.a)
			default:
				want(in.a)
				want(in.b)
				want(uint32(in.n))
			}
		}
	}
	for _, i := range guards {
		run[i] = true
		in := &x.path[i]
		want(in.a)
		if in.op != traceZ && in.op != traceNZ && in.op != traceBits && in.op != traceNoBits {
			want(in.b)
		}
	}
	if !l.drop && !x.egress {
		want(l.port)
		want(l.prio)
	}
	for _, e := range l.effects {
		want(e.a)
		if e.kind == effectWrite {
			want(e.b)
		}
	}
	for _, reg := range l.saves {
		want(reg)
	}
	for _, st := range l.stores {
		want(st.reg)
	}

	t := x.t
	w := way{shape: egressShape}
	words := 1
	if !x.egress {
		sh, ok := x.shape()
		if !ok || len(keep) >= memoLarge-len(sh.windows) {
			return way{}
		}
		sh.large = 1+len(sh.windows)+len(keep) > memoSmall
		if w.shape = t.shapeID(sh, maxShapes); w.shape == 0 {
			return way{}
		}
		words = len(sh.windows)
		w.narrow, w.base = x.narrow, x.base(sh.windows)
	}
	if x.egress && 1+words+len(keep) > memoSmall {
		return way{}
	}
	for reg := range keep {
		w.keep = append(w.keep, reg)
	}
	slices.Sort(w.keep)
	if w.took = x.took; w.took != 0 {
		in := &x.path[x.byPort-1]
		w.portFrom, w.portNumbers = in.dst, uint8(1+x.t.p.Tables[in.a].ArgMax)
		for reg := range portKeep {
			w.portKeep = append(w.portKeep, reg)
		}
	}
	w.proofs = x.proofs
	w.rest = uint32(len(t.code))
	for i := range x.path {
		if run[i] {
			in := x.path[i]
			in.alt = 0
			t.code = append(t.code, in)
		}
	}
	t.code = append(t.code, top{op: traceLeafOp, imm: uint64(len(t.leaves))})
	return w
}

// shape puts the decisive bits into windows.
func (x *rester) shape() (shape, bool) {
	sh := shape{need: x.need, took: x.took}
	all := headerBits{}
	all.add(x.key)
	all.add(x.wide)
	places := make([]int, 0, len(all))
	for at, b := range all {
		if b != 0 {
			places = append(places, at)
		}
	}
	slices.Sort(places)
	for _, at := range places {
		if k := len(sh.windows); k == 0 || at >= sh.windows[k-1].at+8 {
			sh.windows = append(sh.windows, window{at: at})
		}
		w := &sh.windows[len(sh.windows)-1]
		w.mask |= uint64(all[at]) << (56 - 8*(at-w.at))
	}
	return sh, len(sh.windows) <= maxKeyWindow
}

// base returns some windows with the bits that are decisive for every packet.
func (x *rester) base(windows []window) []window {
	base := slices.Clone(windows)
	for i := range base {
		w := &base[i]
		w.mask = 0
		for k := range 8 {
			w.mask |= uint64(x.key[w.at+k]) << (56 - 8*k)
		}
	}
	return base
}
