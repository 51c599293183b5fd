package interp

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// Entries are found by hashing. All entries with the same mask form a group
// with one hash table over the masked key: an exact table has one group, an
// LPM table one per prefix length, a ternary table one per mask (tuple-space
// search). Groups are tried longest prefix or highest priority first, and
// the search ends when no later group can do better. Range fields are left
// out of the mask and compared on the entries found.

// tableState is one table of one switch.
type tableState struct {
	t          *program.Table
	groups     []*maskGroup
	entries    []entry
	keys       []uint64         // t.words per entry
	args       []uint64         // t.argMax per entry
	ranges     []uint64         // per entry: low and high of every range field, in order
	rangeWords int              // slots of ranges per entry
	counts     []uint64         // packets and bytes per entry, of direct counters
	meters     map[int32]*meter // of an entry; -1: of the default entry
	missed     [2]uint64        // packets and bytes, the direct counter of the default entry
	free       []int32
	n          int
	linked     uint32 // how often an entry was
	def        defaultEntry
}

type entry struct {
	next       int32 // in the chain of equal keys, by falling priority; -1 ends it
	target     int32 // index into the table's actions, or of a member or group
	priority   int32
	generation uint32
	group      *maskGroup
	lastHit    int64 // ns
	timeout    int64 // ns
	kind       TargetKind
	live       bool
	konst      bool
	age        uint32 // larger than of entries that were linked before
}

type defaultEntry struct {
	set    bool
	kind   TargetKind
	target int32
	args   []uint64
}

// maskGroup holds the entries that share a mask.
type maskGroup struct {
	mask  []uint64
	slots []hashSlot // power of two
	shift uint8      // 64 - log2 len(tab)
	used  int        // keys in tab
	plen  int        // of an LPM group
	prio  int32      // no entry has a larger priority
}

// hashSlot is one slot of a mask's hash table: the key itself if it has one word, otherwise its hash.
type hashSlot struct {
	h   uint64
	idx int32 // of the first entry plus 1; 0: empty
}

const hashMultiplier = 0x9E3779B97F4A7C15

func hashWords(k []uint64) uint64 {
	h := uint64(len(k))
	for _, x := range k {
		h = (h ^ x) * hashMultiplier
		h ^= h >> 29
	}
	return h
}

// find returns the index of h in the hash table, or the index at which it would be inserted.
func (g *maskGroup) find(ts *tableState, h uint64, key []uint64) (at int, ok bool) {
	m := len(g.slots) - 1
	for at = int(h * hashMultiplier >> g.shift); ; at = (at + 1) & m {
		s := &g.slots[at]
		if s.idx == 0 {
			return at, false
		}
		if s.h == h && (len(key) == 1 || ts.sameKey(s.idx-1, key)) {
			return at, true
		}
	}
}

func (ts *tableState) sameKey(idx int32, key []uint64) bool {
	w := len(key)
	return slices.Equal(ts.keys[int(idx)*w:int(idx)*w+w], key)
}

func hashOf(key []uint64) uint64 {
	if len(key) == 1 {
		return key[0]
	}
	return hashWords(key)
}

// grow makes room for one more key.
func (g *maskGroup) grow() {
	if g.used*4 < len(g.slots)*3 && len(g.slots) > 0 {
		return
	}
	old := g.slots
	n := max(4, 2*len(old))
	g.slots = make([]hashSlot, n)
	g.shift = 64
	for k := n; k > 1; k >>= 1 {
		g.shift--
	}
	for _, s := range old {
		if s.idx == 0 {
			continue
		}
		at := int(s.h * hashMultiplier >> g.shift)
		for g.slots[at].idx != 0 {
			at = (at + 1) & (n - 1)
		}
		g.slots[at] = s
	}
}

// remove removes the key at an index, and closes the gap in the hash table.
func (g *maskGroup) remove(at int) {
	m := len(g.slots) - 1
	g.used--
	hole := at
	for k := (at + 1) & m; g.slots[k].idx != 0; k = (k + 1) & m {
		home := int(g.slots[k].h * hashMultiplier >> g.shift)
		if (k-home)&m >= (k-hole)&m {
			g.slots[hole] = g.slots[k]
			hole = k
		}
	}
	g.slots[hole] = hashSlot{}
}

// inRanges compares the packet's range fields with an entry's.
func (ts *tableState) inRanges(idx int32, key []uint64) bool {
	r := ts.ranges[int(idx)*ts.rangeWords : (int(idx)+1)*ts.rangeWords]
	for _, f := range ts.t.Ranges {
		k := &ts.t.Key[f]
		n := int(k.Words)
		if n == 1 {
			x := key[k.Word] >> k.Shift & program.MaskOf(k.Width)
			if x < r[0] || x > r[1] {
				return false
			}
		} else {
			x := key[k.Word : int(k.Word)+n]
			if cmpWords(x, r[:n]) < 0 || cmpWords(x, r[n:2*n]) > 0 {
				return false
			}
		}
		r = r[2*n:]
	}
	return true
}

// lookupWord finds the entry for a one-word key, -1 when there is none.
func (ts *tableState) lookupWord(key uint64) int32 {
	best := int32(-1)
	var prio int32
	kind := ts.t.Kind
	for _, g := range ts.groups {
		if best >= 0 && g.prio <= prio {
			break
		}
		h := key & g.mask[0]
		m := len(g.slots) - 1
		for at := int(h * hashMultiplier >> (g.shift & 63)); ; at = (at + 1) & m {
			s := &g.slots[at]
			if s.idx == 0 {
				break
			}
			if s.h != h {
				continue
			}
			if kind <= program.LPM {
				return s.idx - 1
			}
			if i := ts.firstInRange(s.idx-1, []uint64{key}); i >= 0 && (best < 0 || ts.entries[i].priority > prio) {
				best, prio = i, ts.entries[i].priority
			}
			break
		}
	}
	return best
}

// firstInRange returns the entry of highest priority in a chain that the ranges let through.
func (ts *tableState) firstInRange(i int32, key []uint64) int32 {
	if ts.rangeWords == 0 {
		return i
	}
	for ; i >= 0; i = ts.entries[i].next {
		if ts.inRanges(i, key) {
			return i
		}
	}
	return -1
}

// lookup finds the entry for a key of any length.
func (ts *tableState) lookup(key, masked []uint64) int32 {
	best := int32(-1)
	var prio int32
	for _, g := range ts.groups {
		if best >= 0 && g.prio <= prio {
			break
		}
		for i := range masked {
			masked[i] = key[i] & g.mask[i]
		}
		at, ok := g.find(ts, hashWords(masked), masked)
		if !ok {
			continue
		}
		if ts.t.Kind <= program.LPM {
			return g.slots[at].idx - 1
		}
		if i := ts.firstInRange(g.slots[at].idx-1, key); i >= 0 && (best < 0 || ts.entries[i].priority > prio) {
			best, prio = i, ts.entries[i].priority
		}
	}
	return best
}

// lookupPacket builds the packet's key and looks it up.
func (s *Switch) lookupPacket(p *Packet, ts *tableState) int32 {
	t := ts.t
	v := p.v
	if len(ts.groups) == 0 {
		return -1
	}
	if t.Words == 1 {
		var key uint64
		for i := range t.Key {
			k := &t.Key[i]
			key |= v[k.Slot] & -v[k.Guard] << (k.Shift & 63)
		}
		if t.KeyMask != nil {
			key &= t.KeyMask[0]
		}
		return ts.lookupWord(key)
	}
	buf := s.keyBuf(2 * t.Words)
	key, masked := buf[:t.Words], buf[t.Words:]
	for i := range t.Key {
		k := &t.Key[i]
		g := -v[k.Guard]
		if k.Words == 1 {
			key[k.Word] |= v[k.Slot] & g << (k.Shift & 63)
			continue
		}
		for w := range k.Words {
			key[k.Word+w] = v[k.Slot+uint32(w)] & g
		}
	}
	if t.KeyMask != nil {
		for i := range key {
			key[i] &= t.KeyMask[i]
		}
	}
	return ts.lookup(key, masked)
}

// applyTable applies a table. It returns the address of the action's code (0: none), and the next address of the
// pipeline.
func (s *Switch) applyTable(p *Packet, id int) (act uint32, next int32) {
	ts := &s.tables[id]
	t := ts.t
	hit := s.lookupPacket(p, ts)
	if p.trace != nil {
		s.noteLookup(p, ts, hit)
	}
	if hit >= 0 {
		e := &ts.entries[hit]
		if t.Timeout {
			e.lastHit = s.now
		}
		if t.Info.HasDirectCounter {
			c := ts.counts[2*hit : 2*hit+2]
			c[0]++
			c[1] += uint64(p.ingressLen)
		}
		if t.MeterTo.Field != nil {
			s.directMeter(p, ts, hit)
		}
		if e.kind == ByAction {
			a := &t.Actions[e.target]
			if a.Words > 0 {
				to, from := p.v[s.p.Args:], ts.args[int(hit)*t.ArgMax:]
				for i := range int(a.Words) {
					to[i] = from[i]
				}
			}
			return a.PC, a.Hit
		}
		if m := s.resolveMember(p, t, e.kind, e.target); m != nil {
			return s.enterAction(p, m.act, m.args), t.Actions[t.Local[m.act]].Hit
		}
	}
	if t.Info.HasDirectCounter {
		ts.missed[0]++
		ts.missed[1] += uint64(p.ingressLen)
	}
	if t.MeterTo.Field != nil && ts.meters[-1] != nil {
		s.directMeter(p, ts, -1)
	}
	d := &ts.def
	if !d.set {
		return 0, t.MissPC
	}
	if d.kind == ByAction {
		a := &t.Actions[d.target]
		copy(p.v[s.p.Args:], d.args)
		return a.PC, a.Miss
	}
	if m := s.resolveMember(p, t, d.kind, d.target); m != nil {
		return s.enterAction(p, m.act, m.args), t.Actions[t.Local[m.act]].Miss
	}
	return 0, t.MissPC
}

// enterAction sets an action's arguments and returns the address of its code.
func (s *Switch) enterAction(p *Packet, id program.ActionID, args []uint64) uint32 {
	copy(p.v[s.p.Args:], args)
	if p.trace != nil {
		p.trace.Events[len(p.trace.Events)-1].Action = s.p.Actions[id].Info.Name
	}
	return s.p.Actions[id].PC
}

func (s *Switch) directMeter(p *Packet, ts *tableState, hit int32) {
	color := uint8(0)
	if m := ts.meters[hit]; m != nil {
		color = m.meterPacket(s.p.Meters[ts.t.Info.DirectMeter].Packets, p.ingressLen, s.now)
	}
	p.v[ts.t.MeterTo.Slot] = uint64(color) & program.MaskOf(ts.t.MeterTo.Field.Width)
}

// resolveMember resolves an indirect target; nil when the group has no live member.
func (s *Switch) resolveMember(p *Packet, t *program.Table, kind TargetKind, target int32) *member {
	ps := &s.profiles[t.Info.Profile]
	if kind == ByMember {
		return &ps.members.at[target]
	}
	g := &ps.groups.at[target]
	if len(g.live) == 0 {
		return nil
	}
	i := uint64(0)
	if len(g.live) > 1 {
		i = s.runCalculation(p, s.p.Profiles[t.Info.Profile].Calculation) % uint64(len(g.live))
	}
	return &ps.members.at[g.live[i]]
}
