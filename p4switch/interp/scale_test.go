package interp

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// BenchmarkScale fills large tables and looks up random keys that hit:
// inserts and lookups per second, bytes per entry.
func BenchmarkScale(b *testing.B) {
	for _, c := range []struct {
		name string
		keys []keySpec
		n    int
	}{
		{"exact-100k", []keySpec{{48, "exact"}}, 100_000},
		{"lpm-100k", []keySpec{{32, "lpm"}}, 100_000},
		{"ternary-10k-16masks", []keySpec{{32, "ternary"}, {16, "ternary"}}, 10_000},
	} {
		b.Run(c.name, func(b *testing.B) {
			var s *Switch
			p := tableProgram(b, c.keys, c.n)
			fill := func() []uint64 {
				s = NewSwitch(p, Config{})
				r := rand.New(rand.NewPCG(1, 1))
				keys := make([]uint64, 0, c.n)
				for i := range c.n {
					x := r.Uint64() & program.MaskOf(c.keys[0].width)
					e := Entry{Target: Target{Call: ActionCall{Args: [][]byte{{byte(i)}}}}}
					v := binary.BigEndian.AppendUint64(nil, x)
					f := program.FieldMatch{Value: v}
					switch c.keys[0].kind {
					case "lpm":
						f.PrefixLen = 16 + r.IntN(17)
					case "ternary":
						f.Mask = u32(^uint32(0) << (4 * (i % 16) / 2))
						e.Priority = int32(i) + 1
					}
					e.Match = append(e.Match, f)
					if len(c.keys) > 1 {
						e.Match = append(e.Match, program.FieldMatch{Any: true})
					}
					if _, err := s.Insert(0, e); err == nil {
						keys = append(keys, x)
					}
				}
				return keys
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			keys := fill()
			runtime.GC()
			runtime.ReadMemStats(&after)
			q := s.newPacket()
			f := &p.Headers[1].Type.Fields[1]
			at := p.Headers[1].Base + f.Offset
			i := 0
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(keys)), "B/entry")
			b.Run("lookup", func(b *testing.B) {
				for b.Loop() {
					i = (i + 7919) % len(keys)
					q.v[at] = keys[i]
					if s.lookupPacket(q, &s.tables[0]) < 0 {
						b.Fatal("miss")
					}
				}
			})
			b.Run("insert", func(b *testing.B) {
				for b.Loop() {
					fill()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.n), "ns/insert")
			})
		})
	}
}

// BenchmarkNewSwitch says how large a switch of the project's own program is.
func BenchmarkNewSwitch(b *testing.B) {
	p := ownProgram(b)
	b.ReportAllocs()
	for b.Loop() {
		NewSwitch(p, Config{})
	}
}
