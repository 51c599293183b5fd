//go:build linux

package differential

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// TestOwnPrograms compares the programs that the tests of p4switch/interp use, so
// that what those expect is what BMv2 does. P4C names the compiler, which makes
// their P4Info.
func TestOwnPrograms(t *testing.T) {
	checked := checksIndices(t, reference(t))
	p4c := systemtest.Program(t, "p4c-bm2-ss", "P4C", "name p4c's compiler for BMv2 in P4C")
	cache := os.Getenv("P4C_CACHE") // of these sources as they are
	if cache == "" {
		cache = t.TempDir()
	}
	ports := []uint32{0, 1, 2, 3, 4, 5, 6, 7}
	for _, c := range []struct {
		source string
		frame  func(rng *rand.Rand) []byte
	}{
		{"../../p4switch/interp/testdata/headers.p4", func(rng *rand.Rand) []byte {
			f := noise(rng, 14, 60)
			f[0] = byte(rng.IntN(6))
			f[1] %= 12
			if f[0] == 3 {
				f[2] %= 10
			}
			for i := 4; f[0] == 1 && i < len(f); i += 4 {
				f[i] = byte(rng.IntN(2)) // the bottom of the stack
			}
			if f[0] == 2 {
				f[2] = []byte{0xaa, 0xbb, 0xcc}[rng.IntN(3)]
			}
			return f
		}},
		{"../../p4switch/interp/testdata/state.p4", func(rng *rand.Rand) []byte {
			f := noise(rng, 24, 60)
			f[0] = byte(rng.IntN(7))
			if f[0] == 1 {
				f[1] %= 16 // cells of the register
			}
			if f[0] == 4 && !checked {
				f[1] %= 4 // cells of the meter
			}
			return f
		}},
		{"../../p4switch/interp/testdata/replicate.p4", func(rng *rand.Rand) []byte {
			f := noise(rng, 14, 70)
			f[0] = []byte{0, 1, 2, 3, 4, 5, 6, 7, 9}[rng.IntN(9)] // 8 never ends, 10 ends BMv2
			f[1] %= 60
			f[2], f[3] = 0, byte(rng.IntN(8))
			return f
		}},
		{"../../p4switch/interp/testdata/zero.p4", func(rng *rand.Rand) []byte {
			f := noise(rng, 14, 60)
			if len(f) > 15 {
				f[14], f[15] = byte(rng.IntN(5)), byte(8+rng.IntN(3))
			}
			return f
		}},
		{"../../p4switch/stf/testdata/arith.p4", func(rng *rand.Rand) []byte {
			f := noise(rng, 24, 60)
			f[0] = byte(rng.IntN(5))
			if rng.IntN(2) == 0 {
				f[3] %= 20
			}
			return f
		}},
		{"../../p4switch/stf/testdata/route.p4", func(rng *rand.Rand) []byte {
			return Frame(rng, func() []byte { return []byte{byte(rng.IntN(2) * 10), 0, byte(rng.IntN(3)), byte(rng.IntN(8))} })
		}},
	} {
		t.Run(filepath.Base(c.source), func(t *testing.T) {
			text, err := os.ReadFile(c.source)
			if err != nil {
				t.Fatal(err)
			}
			// p4c names a union in a stack as a header there, and BMv2 dies of it.
			text = bytes.ReplaceAll(text, []byte("hdr.either[0].isValid()"), []byte("(hdr.either[0].s.isValid() || hdr.either[0].l.isValid())"))
			source := filepath.Join(t.TempDir(), filepath.Base(c.source))
			if err := os.WriteFile(source, text, 0o600); err != nil {
				t.Fatal(err)
			}
			program := compile(t, p4c, source, filepath.Join(cache, "own-"+filepath.Base(c.source)))
			pair := newPair(t, program, ports)
			rng := rand.New(rand.NewPCG(3, 4))
			for _, u := range Entries(rng, program.P4Info, 200) {
				params := u.GetEntity().GetTableEntry().GetAction().GetAction().GetParams()
				if len(params) == 1 && c.source == "../../p4switch/stf/testdata/route.p4" && (!checked || rng.IntN(2) == 0) {
					v := params[0].Value
					params[0].Value = []byte{v[len(v)-1] % 4} // hops that there are, cells of the counter that drop counts in
				}
				if err := pair.Write(u); err != nil {
					t.Error(err)
				}
			}
			runAndCompare(t, pair, program.P4Info, ports, count(t, 1000), func(uint32) []byte { return c.frame(rng) })
		})
	}
}

// checksIndices reports whether BMv2 checks indices of counters and meters. Built with NDEBUG, as by CMake's Release,
// it does not, and an index outside the array ends it. Then the test keeps all indices inside.
func checksIndices(t *testing.T, bmv2 string) bool {
	t.Helper()
	binary, err := os.ReadFile(bmv2)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(binary, []byte("at out-of-bounds index")) {
		return true
	}
	t.Log("BMv2 is built without its checks of indices (NDEBUG): no packet uses an index outside a counter or meter")
	return false
}

// noise returns least to most random bytes. What a program reads of headers that
// are not there is undefined, so a packet holds those that it always reads.
func noise(rng *rand.Rand, least, most int) []byte {
	f := make([]byte, least+rng.IntN(most-least))
	for i := range f {
		f[i] = byte(rng.Uint32())
	}
	return f
}
