//go:build linux

package ebpf_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// BenchmarkSync is what one new entry of a table of so many costs.
func BenchmarkSync(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			sw := own(b)
			id, _ := sw.Program().TableByName("route_v4")
			a, _ := sw.Program().ActionByName(id, "forward_up")
			add := func(i int) {
				e := interp.Entry{Match: []program.FieldMatch{{Value: binary.BigEndian.AppendUint32(nil, uint32(11<<24+i)), PrefixLen: 32}},
					Target: interp.Target{Call: interp.ActionCall{Action: a, Args: [][]byte{{1}}}}}
				if _, err := sw.Insert(id, e); err != nil {
					b.Fatal(err)
				}
			}
			for i := range n {
				add(i)
			}
			k := load(b, sw)
			i := n
			for b.Loop() {
				add(i)
				i++
				if err := k.Sync(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
