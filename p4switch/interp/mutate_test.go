package interp_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// TestMutatedPrograms loads programs with a few bytes changed, most of all in
// numbers, which reach further than a fuzzer's random bytes. Whatever loads
// has to take packets without a panic or an endless loop.
func TestMutatedPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of programs, one goroutine")
	}
	ss := samples(t)
	r := rand.New(rand.NewPCG(1, 2))
	digit := func(b []byte, from int) int {
		if i := bytes.IndexAny(b[from:], "0123456789"); i >= 0 {
			return from + i
		}
		return bytes.IndexAny(b, "0123456789")
	}
	loaded := 0
	for range 400 {
		b := bytes.Clone(ss[r.IntN(len(ss))])
		for range 1 + r.IntN(4) {
			at := digit(b, r.IntN(len(b)))
			switch r.IntN(4) {
			case 0:
				b[at] = byte('0' + r.IntN(10))
			case 1:
				b = append(b[:at:at], append([]byte{byte('1' + r.IntN(9))}, b[at:]...)...)
			case 2:
				b = append(b[:at:at], append([]byte("-"), b[at:]...)...)
			default: // one name where another was
				from := r.IntN(len(b) - 40)
				copy(b[r.IntN(len(b)-40):], b[from:from+r.IntN(12)])
			}
		}
		p, err := program.Load(b)
		if err != nil {
			continue
		}
		loaded++
		s := interp.NewSwitch(p, interp.Config{MaxPasses: 8, MaxLoops: 1 << 16})
		for _, n := range []int{0, 1, 64, 300} {
			d := make([]byte, n)
			for i := range d {
				d[i] = byte(r.Uint32())
			}
			s.Process(interp.Input{Data: d}, func(interp.Output) {})
		}
	}
	if loaded == 0 {
		t.Error("nothing loaded: the test reaches nothing")
	}
}
