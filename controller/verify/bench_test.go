package verify

import (
	"context"
	"fmt"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// BenchmarkCheck proves a whole fabric, with every single further failure.
func BenchmarkCheck(b *testing.B) {
	for _, k := range []int{4, 8} {
		b.Run(fmt.Sprintf("k=%d", k), func(b *testing.B) {
			n := network(newCore(b, fabric.Spec{Kind: fabric.KindFatTree, K: k}))
			walks := 0
			for b.Loop() {
				r, err := Check(context.Background(), n, Options{})
				if err != nil || !r.OK() {
					b.Fatal(r, err)
				}
				walks = r.Walks
			}
			b.ReportMetric(float64(walks), "walks")
		})
	}
}
