package interp

import (
	"encoding/binary"
	"slices"

	"github.com/ethereal-fabric/ethereal/testbed/p4switch/program"
)

// A memo is what a switch remembers of packets that went a recorded way: the
// header bits that decided the way and its table look-ups, and what the look-ups
// gave. A packet with the same bits needs neither guards nor look-ups: it takes
// the remembered numbers and runs the rest of the trace, the part that depends on
// registers, times, queues and the bits that decide nothing (see tracerest.go).
// Any change of a table makes a switch forget everything.
//
// Packets with equal decisive bits find each other by hashing, in a table that
// keeps the latest packet of a place and grows, up to a bound, when packets drive
// each other out. Which bits decide differs from way to way: the ways of a
// program have a few shapes, and the ones that a port's packets had last are
// tried.
type memo struct {
	small, large memoTable
	predicted    [memoPorts * memoLengths]prediction
	ports        [memoPorts]portMemo
}

// portMemo is what a switch remembers of a look-up by a port.
type portMemo struct {
	generation, port uint32
	took             uint64
	numbers          [4]uint64 // the entry and its arguments
}

// prediction is the shapes of a port's packets of some length, the latest first.
type prediction [4]uint8

// front puts a shape first.
func (p *prediction) front(id uint8) {
	at := slices.Index(p[:], id)
	if at < 0 {
		at = len(p) - 1
	}
	copy(p[1:at+1], p[:at])
	p[0] = id
}

const (
	memoPorts   = 64
	memoLengths = 8

	memoSmall    = 8  // words of a place: 64 B, a cache line
	memoLarge    = 16 // words
	memoFirst    = 64 // places at first
	memoMost     = 1 << 13
	maxShapes    = 250
	maxNarrowed  = 200 // the rest is for ways that have yet to be recorded
	maxKeyWindow = 6

	egressShape = 0xFFFF // stands for the way through ingress, the port and the priority
)

// memoTable is places of some words: the first is generation (32 bits), shape and
// leaf (16 each), then come the key and the numbers.
type memoTable struct {
	words  []uint64
	stride int
	shift  uint8 // 64 - log2 of the places
	driven int   // packets driven out since it grew
}

// shape is the header bits that decide a way: windows of eight bytes, masked.
type shape struct {
	need    int    // bytes that a packet must have
	took    uint64 // as way.took
	windows []window
	large   bool
}

type window struct {
	at   int
	mask uint64
}

// way is how to take a remembered packet to a leaf.
type way struct {
	rest  uint32 // code; 0: the way cannot be remembered
	shape uint16
	keep  []uint32 // registers whose numbers are remembered

	// Of the table that is looked up by the ingress port alone: the action and where that went on, plus 1, 0 if there is
	// no such table; the first of its registers, how many there are, and those that the rest reads.
	took        uint64
	portFrom    uint32
	portNumbers uint8
	portKeep    []uint32

	// The shape is that of all bits that can be decisive. Which of them are for a
	// packet depends on what the look-ups found (see witness.go).
	narrow []narrowing
	base   []window // the shape's, with the bits that always are
	last   uint16   // the shape of the packet before; 0: there was none

	// Of a field that must not be some number, one bit can decide. It decides
	// nothing for a packet that differs from the number elsewhere.
	proofs []proof
}

// proof is what a packet must have in a window to be remembered.
type proof struct {
	window
	bits uint64
}

var memoMultipliers = [8]uint64{
	fib, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53,
}

func (m *memo) table(large bool) *memoTable {
	t, stride := &m.small, memoSmall
	if large {
		t, stride = &m.large, memoLarge
	}
	if t.words == nil {
		t.stride = stride
		t.size(memoFirst)
	}
	return t
}

func (t *memoTable) size(places int) {
	t.words = make([]uint64, places*t.stride)
	t.driven = 0
	for t.shift = 64; places > 1; places >>= 1 {
		t.shift--
	}
}

// at returns the place of a hash.
func (t *memoTable) at(hash uint64) []uint64 {
	i := int(hash>>(t.shift&63)) * t.stride
	return t.words[i : i+t.stride : i+t.stride]
}

// changed says that a table has changed: everything remembered is void.
func (s *Switch) changed(id program.TableID) {
	s.generation++
	if s.watch != nil {
		s.watch(id)
	}
}

// stamp begins the first word of a place.
func (s *Switch) stamp(shape uint16) uint64 {
	return uint64(s.generation)<<32 | uint64(shape)<<16
}

// key puts the decisive bits of a packet together in t.window.
func (t *Traces) key(sh *shape, data []byte) (hash uint64, ok bool) {
	if len(data)-TraceSlack < sh.need {
		return 0, false
	}
	hash = sh.took
	for i := range sh.windows {
		w := &sh.windows[i]
		x := binary.BigEndian.Uint64(data[w.at:]) & w.mask
		t.window[i&7] = x
		hash += x * memoMultipliers[i&7]
	}
	return hash ^ hash<<23, true
}

// recall looks a packet at ingress up. It returns the code to run, 0 when the
// packet is not remembered.
func (t *Traces) recall(s *Switch, port uint32, data []byte) uint32 {
	if s.memo == nil {
		return 0
	}
	guess := &s.memo.predicted[port%memoPorts*memoLengths+uint32(len(data))>>2%memoLengths]
	for i, id := range guess {
		if id == 0 {
			return 0
		}
		sh := &t.shapes[id-1]
		of := &s.memo.ports[port%memoPorts]
		if sh.took != 0 && (sh.took != of.took || of.port != port || of.generation != s.generation) {
			continue
		}
		hash, ok := t.key(sh, data)
		if !ok {
			continue
		}
		tab := &s.memo.small
		if sh.large {
			tab = &s.memo.large
		}
		e := tab.at(hash)
		if e[0]&^0xFFFF != s.stamp(uint16(id)) {
			continue
		}
		n := len(sh.windows)
		differ := uint64(0)
		for k, x := range e[1 : 1+n] {
			differ |= x ^ t.window[k&7]
		}
		if differ != 0 {
			continue
		}
		if i > 0 {
			guess.front(id)
		}
		w := &t.ways[e[0]&0xFFFF]
		for _, reg := range w.portKeep {
			t.v[reg] = of.numbers[reg-w.portFrom]
		}
		return t.take(e[1+n:], w)
	}
	return 0
}

// take puts the remembered numbers where they belong.
func (t *Traces) take(numbers []uint64, w *way) uint32 {
	v, numbers := t.v, numbers[:len(w.keep)]
	for i, reg := range w.keep {
		v[reg] = numbers[i]
	}
	return w.rest
}

// recallEgress is recall for a packet at egress: leaf is its way through ingress.
func (t *Traces) recallEgress(s *Switch, key uint64) uint32 {
	if s.memo == nil || s.memo.small.words == nil {
		return 0
	}
	e := s.memo.small.at(key * fib)
	if e[0]&^0xFFFF != s.stamp(egressShape) || e[1] != key {
		return 0
	}
	return t.take(e[2:], &t.ways[e[0]&0xFFFF])
}

// egressKey is what decides a way through egress beside queues and bytes.
func (h *Held) egressKey() uint64 { return h[0] &^ (0xFFFF<<16 | 0xFF<<40) }

// remember notes the packet at hand, which has come to a leaf by its trace.
func (t *Traces) remember(s *Switch, leaf int32, port uint32, data []byte) {
	w := &t.ways[leaf]
	if w.rest == 0 {
		return
	}
	for i := range w.proofs {
		p := &w.proofs[i]
		if binary.BigEndian.Uint64(data[p.at:])&p.mask != p.bits {
			return
		}
	}
	sh, id := t.narrowed(s, w)
	hash, ok := t.key(sh, data)
	if !ok {
		return
	}
	if s.memo == nil {
		s.memo = &memo{}
	}
	if w.took != 0 {
		of := &s.memo.ports[port%memoPorts]
		of.generation, of.port, of.took = s.generation, port, w.took
		copy(of.numbers[:w.portNumbers], t.v[w.portFrom:])
	}
	guess := &s.memo.predicted[port%memoPorts*memoLengths+uint32(len(data))>>2%memoLengths]
	if guess[0] != uint8(id) {
		guess.front(uint8(id))
	}
	t.put(s, s.memo.table(sh.large), hash, id, leaf, t.window[:len(sh.windows)])
}

func (t *Traces) rememberEgress(s *Switch, leaf int32, key uint64) {
	if t.ways[leaf].rest == 0 {
		return
	}
	if s.memo == nil {
		s.memo = &memo{}
	}
	t.window[0] = key
	t.put(s, s.memo.table(false), key*fib, egressShape, leaf, t.window[:1])
}

func (t *Traces) put(s *Switch, tab *memoTable, hash uint64, shape uint16, leaf int32, key []uint64) {
	e := tab.at(hash)
	again := e[0]&^0xFFFF == s.stamp(shape) && slices.Equal(e[1:1+len(key)], key)
	if uint32(e[0]>>32) == s.generation && !again {
		if tab.driven++; tab.driven > len(tab.words)/tab.stride && len(tab.words)/tab.stride < memoMost {
			tab.size(2 * len(tab.words) / tab.stride)
			e = tab.at(hash)
		}
	}
	e[0] = s.stamp(shape) | uint64(leaf)
	copy(e[1:], key)
	for i, reg := range t.ways[leaf].keep {
		e[1+len(key)+i] = t.v[reg]
	}
}
