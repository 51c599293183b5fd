package ebpf

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	bpf "github.com/cilium/ebpf"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// tableCopy is a table's copy in the kernel, and the changes that Sync has to write to it.
type tableCopy struct {
	lowered *loweredTable
	t       *program.Table
	entries *bpf.Map // nil: no path looks the table up
	masks   *bpf.Map
	dirty   map[string]int // by key of entries that may be wrong: the place of the entry that belongs there, -1: none

	// Of a table with masks, as the kernel has them (see prefixes):
	entriesByMaskedKey map[string][]maskedEntry    // by key: the entries that belong there, that of the largest rank first
	groups             map[string]map[string]*mask // by the interpreter's mask, by mask
	masksMade          uint64                      // masks ever
	oversized          map[int]struct{}            // places of entries with too many keys, which the kernel has not
	room               bool                        // keys are gone since then: some of these may fit
	array              []byte                      // the masks in use, as the kernel has them
	first              int                         // where they begin: 0 or MaxMasks
	tooManyMasks       bool                        // masks, more than MaxMasks
}

// maskedEntry is an entry of a table with masks.
type maskedEntry struct {
	place int
	rank  uint64
}

type mask struct {
	number uint64 // no other mask of the table has or had it
	words  []uint64
	keys   int // of entries
}

// maxKeys is how many keys an entry with ranges may have.
const maxKeys = 1024

func (s *Switch) newCopied(lt *loweredTable) *tableCopy {
	return &tableCopy{
		lowered: lt, t: &s.sw.Program().Tables[lt.ID], dirty: map[string]int{},
		entriesByMaskedKey: map[string][]maskedEntry{}, groups: map[string]map[string]*mask{}, oversized: map[int]struct{}{},
		entries: s.coll.Maps[fmt.Sprintf("t%d", lt.ID)], masks: s.coll.Maps[fmt.Sprintf("m%d", lt.ID)],
	}
}

// tableChanged notes what Sync has to copy; see [interp.Switch.WatchTables].
func (s *Switch) tableChanged(id program.TableID, place int, gone bool) {
	s.changed = true
	c := s.tables[id]
	if place == interp.DefaultPlace || c == nil || c.entries == nil {
		return
	}
	r := s.sw.Row(id, place)
	if c.lowered.MaxMasks > 0 {
		c.noteMasked(&r, place, gone)
		return
	}
	if gone {
		place = -1
	}
	c.dirty[string(c.lowered.keyOf(c.t, 0, r.Key, r.PrefixLen))] = place
}

// noteMasked records a changed entry of a table with masks.
func (c *tableCopy) noteMasked(r *interp.Row, place int, gone bool) {
	of := string(packed(r.Mask))
	g := c.groups[of]
	if g == nil {
		g = map[string]*mask{}
		c.groups[of] = g
	}
	_, wide := c.oversized[place]
	delete(c.oversized, place)
	switch {
	case wide && gone:
	case !gone && !c.fitsMap(g, r):
		c.oversized[place] = struct{}{}
	default:
		c.prefixes(r, func(key, words []uint64) {
			c.putRival(g, key, words, maskedEntry{place, rankOf(r.Priority, r.Age)}, gone)
		})
		c.room = c.room || gone
	}
	if len(g) == 0 {
		delete(c.groups, of)
	}
}

// fitsMap reports whether the kernel's map has room for an entry's keys. An entry that the kernel has keeps its keys.
func (c *tableCopy) fitsMap(g map[string]*mask, r *interp.Row) bool {
	keys := len(c.entriesByMaskedKey)
	if keys+maxKeys <= c.lowered.MaxKeys {
		return c.prefixes(r, func([]uint64, []uint64) {})
	}
	return c.prefixes(r, func(key, words []uint64) {
		if m := g[string(packed(words))]; m == nil || len(c.entriesByMaskedKey[string(c.lowered.keyOf(c.t, m.number, key, 0))]) == 0 {
			keys++
		}
	}) && keys <= c.lowered.MaxKeys
}

// retryUnfitted copies entries that did not fit before, if there is room now.
func (c *tableCopy) retryUnfitted(sw *interp.Switch) {
	if !c.room {
		return
	}
	c.room = false
	for _, place := range slices.Sorted(maps.Keys(c.oversized)) {
		r := sw.Row(c.lowered.ID, place)
		c.noteMasked(&r, place, false)
	}
}

// putRival adds an entry to the entries that share a key and mask, or with gone removes it.
func (c *tableCopy) putRival(g map[string]*mask, key, words []uint64, n maskedEntry, gone bool) {
	of := string(packed(words))
	m := g[of]
	if m == nil {
		c.masksMade++
		m = &mask{number: c.masksMade, words: slices.Clone(words)}
		g[of] = m
	}
	k := string(c.lowered.keyOf(c.t, m.number, key, 0))
	had := len(c.entriesByMaskedKey[k])
	list := slices.DeleteFunc(c.entriesByMaskedKey[k], func(o maskedEntry) bool { return o.place == n.place })
	if !gone {
		at, _ := slices.BinarySearchFunc(list, n, func(a, b maskedEntry) int { return cmp.Compare(b.rank, a.rank) })
		list = slices.Insert(list, at, n)
	}
	switch {
	case len(list) > 0:
		c.entriesByMaskedKey[k], c.dirty[k] = list, list[0].place
		m.keys += 1 - min(had, 1)
		return
	case had > 0:
		delete(c.entriesByMaskedKey, k)
		c.dirty[k] = -1
		m.keys--
	}
	if m.keys == 0 {
		delete(g, of)
	}
}

// rankOf is larger for the entry that wins: 32 bits of the priority, then the age.
func rankOf(priority int32, age uint32) uint64 {
	return uint64(uint32(priority)^1<<31)<<32 | uint64(maxAge-min(age, maxAge-1))
}

const maxAge = 1<<32 - 2

// prefixes gives f an entry's keys and masks: one for each combination of the prefixes that make up its ranges. It
// calls f not at all and returns false where that are more than maxKeys.
func (c *tableCopy) prefixes(r *interp.Row, f func(key, words []uint64)) bool {
	n := 1
	for i := range c.t.Ranges {
		k := 0
		for range prefixesOf(r.Ranges[2*i], r.Ranges[2*i+1]) {
			k++
		}
		if n *= k; n > maxKeys {
			return false
		}
	}
	key, words := slices.Clone(r.Key), slices.Clone(r.Mask)
	var field func(i int)
	field = func(i int) {
		if i == len(c.t.Ranges) {
			f(key, words)
			return
		}
		k := &c.t.Key[c.t.Ranges[i]]
		kw, mw := key[k.Word], words[k.Word]
		for low, size := range prefixesOf(r.Ranges[2*i], r.Ranges[2*i+1]) {
			key[k.Word] = kw | low<<k.Shift
			words[k.Word] = mw | program.MaskOf(k.Width)&^program.MaskOf(size)<<k.Shift
			field(i + 1)
		}
		key[k.Word], words[k.Word] = kw, mw
	}
	field(0)
	return true
}

// prefixesOf yields the smallest set of prefixes that has the numbers from low to high: the first number of each, and
// how many low bits are free.
func prefixesOf(low, high uint64) func(yield func(low uint64, free int) bool) {
	return func(yield func(uint64, int) bool) {
		for at := low; ; {
			free := bits.TrailingZeros64(at)
			for free > 0 && high-at < program.MaskOf(free) {
				free--
			}
			if !yield(at, free) || at+program.MaskOf(free) == high {
				return
			}
			at += program.MaskOf(free) + 1
		}
	}
}

func packed(words []uint64) []byte {
	b := make([]byte, 0, 8*len(words))
	for _, w := range words {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return b
}

// keyOf is the key of an entry in the table's map.
func (lt *loweredTable) keyOf(t *program.Table, number uint64, key []uint64, plen int) []byte {
	if t.Kind != program.LPM {
		if lt.MaxMasks > 0 {
			return append(packed([]uint64{number}), packed(key)...)
		}
		return packed(key)
	}
	b := make([]byte, 4, lt.KeySize)
	length := plen
	word := func(k *program.KeyPiece, w int) uint64 {
		if k.Words > 1 {
			return key[int(k.Word)+w]
		}
		return key[k.Word] >> k.Shift & program.MaskOf(k.Width)
	}
	for i := range t.Key {
		if k := &t.Key[i]; i != t.LPM {
			for w := range int(k.Words) {
				b = binary.NativeEndian.AppendUint64(b, word(k, w))
				length += 64
			}
		}
	}
	k := &t.Key[t.LPM]
	for w := int(k.Words) - 1; w >= 0; w-- {
		b = binary.BigEndian.AppendUint64(b, word(k, w)<<max(0, 64-k.Width))
	}
	binary.NativeEndian.PutUint32(b, uint32(length))
	return b
}

// appendValue appends the value of an entry in the table's map.
func (lt *loweredTable) appendValue(b []byte, r *interp.Row, place int) []byte {
	act := uint64(r.Target) + 1
	switch {
	case r.Metered:
		act = verdictUp
	case r.Kind == interp.ByMember:
		act = uint64(r.Target)<<32 | targetMember
	case r.Kind == interp.ByGroup:
		act = uint64(r.Target)<<32 | targetGroup
	}
	b = binary.NativeEndian.AppendUint64(b, act)
	b = binary.NativeEndian.AppendUint64(b, rankOf(r.Priority, r.Age))
	b = binary.NativeEndian.AppendUint64(b, uint64(place))
	for _, a := range r.Args {
		b = binary.NativeEndian.AppendUint64(b, a)
	}
	return b
}

// maskArray returns the content of the map of masks; ok is false if there are too many masks.
func (c *tableCopy) maskArray(sw *interp.Switch) (b []byte, ok bool) {
	b, n := []byte{}, 0
	for words, priority := range sw.Masks(c.lowered.ID) {
		g := c.groups[string(packed(words))]
		if n += len(g); n > c.lowered.MaxMasks {
			return nil, false
		}
		before := uint64(1<<32 - 1) // of entries with equal priorities, those of an earlier mask of the interpreter win
		for _, m := range slices.SortedFunc(maps.Values(g), func(a, b *mask) int { return cmp.Compare(a.number, b.number) }) {
			for _, w := range []uint64{m.number, rankOf(priority, 0), before} {
				b = binary.NativeEndian.AppendUint64(b, w)
			}
			b, before = append(b, packed(m.words)...), 0
		}
	}
	return b, true
}
