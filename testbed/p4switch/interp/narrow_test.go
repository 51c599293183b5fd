package interp

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/p4switch/program"
)

// A witness settles a look-up: all keys that have its bits find the same.
func TestWitness(t *testing.T) {
	for _, c := range []struct {
		name string
		keys []keySpec
	}{
		{"exact", []keySpec{{24, "exact"}}},
		{"lpm", []keySpec{{32, "lpm"}}},
		{"lpm of two words", []keySpec{{128, "lpm"}}},
		{"ternary", []keySpec{{14, "ternary"}, {9, "ternary"}}},
		{"ternary of two words", []keySpec{{48, "ternary"}, {40, "ternary"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 1))
			few, looks := 0, 0
			for range 300 {
				s := NewSwitch(tableProgram(t, c.keys, 64), Config{})
				fill(t, s, c.keys, r)
				ts := &s.tables[0]
				n := ts.t.Words
				width := 0
				for _, k := range c.keys {
					width += k.width
				}
				for range 40 {
					key, other, masked, w := near(ts, r), near(ts, r), make([]uint64, n), make([]uint64, n)
					ts.witness(key, masked, w)
					size := 0
					for _, x := range w {
						size += bits.OnesCount64(x)
					}
					if looks++; size < width {
						few++
					}
					for i := range other {
						other[i] = other[i]&^w[i] | key[i]&w[i]
					}
					find := func(key []uint64) int32 {
						if n == 1 {
							return ts.lookup1(key[0])
						}
						return ts.lookup(key, masked)
					}
					if a, b := find(key), find(other); a != b {
						t.Fatalf("key %x finds %d, %x finds %d; witness %x", key, a, other, b, w)
					}
				}
			}
			if few < looks/2 {
				t.Errorf("%d of %d look-ups have a witness of fewer bits than the key", few, looks)
			}
		})
	}
}

// fill inserts and deletes entries at random, most of them alike in their upper
// bits, as routes are.
func fill(t *testing.T, s *Switch, keys []keySpec, r *rand.Rand) {
	t.Helper()
	m := must{t, s}
	table, target := m.target("t", "set", u32(1))
	var inserted []Handle
	for range r.IntN(24) {
		var match []program.FieldMatch
		for _, k := range keys {
			value, mask := make([]byte, (k.width+7)/8), make([]byte, (k.width+7)/8)
			last := len(value) - 1
			value[last] = byte(r.IntN(16))
			value[0] = byte(r.IntN(2)) & byte(1<<(k.width-8*last)-1)
			mask[last] = byte(r.Uint32())
			mask[0] = byte(r.IntN(2)) & byte(1<<(k.width-8*last)-1)
			f := program.FieldMatch{Value: value}
			switch k.kind {
			case "lpm":
				f.PrefixLen = []int{k.width, k.width, k.width - 4, k.width / 2, 0}[r.IntN(5)]
			case "ternary":
				f.Mask = mask
			}
			match = append(match, f)
		}
		prio := int32(0)
		if s.tables[0].t.Kind > program.LPM {
			prio = r.Int32N(8)
		}
		h, err := s.Insert(table, Entry{Match: match, Priority: prio, Target: target})
		if err == nil {
			inserted = append(inserted, h)
		}
		if len(inserted) > 0 && r.IntN(4) == 0 {
			i := r.IntN(len(inserted))
			if err := s.Delete(table, inserted[i]); err != nil {
				t.Fatal(err)
			}
			inserted = slices.Delete(inserted, i, i+1)
		}
	}
}

// near draws a key that is like an entry's.
func near(ts *tableState, r *rand.Rand) []uint64 {
	key := make([]uint64, ts.t.Words)
	if len(ts.entries) > 0 {
		copy(key, ts.keys[r.IntN(len(ts.entries))*ts.t.Words:])
	}
	for range r.IntN(3) {
		i := r.IntN(len(ts.t.Key))
		k := &ts.t.Key[i]
		bit := r.IntN(k.Width)
		key[int(k.Word)+bit/64] ^= 1 << (bit%64 + int(k.Shift))
	}
	return key
}

// A switch remembers the routes and labels of the packets it has met, not their
// addresses.
func TestRemembersRoutes(t *testing.T) {
	s := torSwitch(t)
	traces := NewTraces(s.p)
	s.bind(traces)
	const addresses = 4096
	for i := range uint32(addresses) {
		p := rocePacket(10<<24|1<<16|i, uint16(0xC000|i%16))
		traced(s, Input{Port: 1, Data: p, Length: 4200}, QueueState{DeqDepth: 50})
	}
	places := 0
	for _, m := range []*memoTable{&s.memo.small, &s.memo.large} {
		for at := 0; at < len(m.words); at += m.stride {
			if uint32(m.words[at]>>32) == s.generation && m.words[at] != 0 {
				places++
			}
		}
	}
	st := traces.Stats()
	const most = 16 + 8
	if places > most || st.Recalled < 2*addresses*98/100 {
		t.Errorf("%d places, at most %d are needed: 16 labels and the ports' egress; %d of %d halves recalled", places, most, st.Recalled, 2*addresses)
	}
	t.Logf("%d places, %+v", places, st)
}
