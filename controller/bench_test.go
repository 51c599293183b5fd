package controller

import (
	"fmt"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

func benchCore(b *testing.B, k int) *Core {
	b.Helper()
	return mustCore(b, testConfig(mustFabric(b, fabric.Spec{Kind: fabric.KindFatTree, K: k})))
}

// BenchmarkFull computes the tables of all switches.
func BenchmarkFull(b *testing.B) {
	for _, k := range []int{16, 64} {
		b.Run(fmt.Sprintf("k=%d", k), func(b *testing.B) {
			c := benchCore(b, k)
			b.ReportAllocs()
			entries := 0
			for b.Loop() {
				entries = 0
				for i := range c.f.Switches() {
					entries += len(c.Desired(fabric.NodeID(c.f.Hosts() + i)))
				}
			}
			b.ReportMetric(float64(entries), "entries")
		})
	}
}

// BenchmarkDelta takes one link down or up and computes all that follows. With
// failures, one in a hundred of the other links is down already.
func BenchmarkDelta(b *testing.B) {
	for _, k := range []int{16, 64} {
		for _, failures := range []bool{false, true} {
			for _, tier := range []string{"tor0-agg0", "agg0-core0"} {
				b.Run(fmt.Sprintf("k=%d/%s/failures=%v", k, tier, failures), func(b *testing.B) {
					c := benchCore(b, k)
					id, err := c.f.LinkByName(tier)
					if err != nil {
						b.Fatal(err)
					}
					if failures {
						for l := c.f.Hosts() + 50; l < c.f.Links(); l += 100 {
							setLink(b, c, fabric.LinkID(l), false)
						}
						c.Ready()
					}
					b.ReportAllocs()
					updates, up := 0, true
					for b.Loop() {
						up = !up
						setLink(b, c, id, up)
						updates = 0
						for _, d := range c.Ready().Writes {
							updates += len(d.Updates)
						}
					}
					b.ReportMetric(float64(updates), "updates")
				})
			}
		}
	}
}
