package imbalance

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
)

func k4(t testing.TB) *fabric.Fabric {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestReport(t *testing.T) {
	f := k4(t)
	s := Of(f)
	use := make([]float64, 2*f.Links())
	for d := range use {
		use[d] = 10
	}
	uplink := func(tor, agg string) int {
		l, err := f.LinkByName(tor + "-" + agg)
		if err != nil {
			t.Fatal(err)
		}
		return int(2 * l)
	}
	hot, cold := uplink("tor0", "agg0"), uplink("tor0", "agg1")
	use[hot], use[cold] = 18, 2
	r := s.Report(use)
	tier := slices.Index(s.Tiers(), "tor up")
	got := &r.Tiers[tier]
	if got.Links != 16 || got.Mean != 10 || got.Busiest != hot || got.Imbalance() != 0.8 {
		t.Errorf("%+v, imbalance %g", got, got.Imbalance())
	}
	if !slices.Equal(got.Hot, []int{hot}) || !slices.Equal(got.Cold, []int{cold}) {
		t.Errorf("hot %v, cold %v", got.Hot, got.Cold)
	}
	if g := r.Uneven[0]; f.Name(g.Switch) != "tor0" || g.Most != hot || g.Least != cold || g.Difference() != 1.6 {
		t.Errorf("%+v", g)
	}
	want := []string{"busiest tor0>agg0, 1.800 of the mean; 1 links hot, 1 cold", "most uneven: tor0, tor0>agg0 1.80 and tor0>agg1 0.20 of its mean"}
	if lines := r.Text(f, tier); !slices.Equal(lines, want) {
		t.Errorf("%q", lines)
	}
	// A switch with a little traffic on one uplink alone is more uneven by ratio, and matters less.
	use[uplink("tor1", "agg0")], use[uplink("tor1", "agg1")] = 9, 0
	if r := s.Report(use); f.Name(r.Uneven[0].Switch) != "tor0" || f.Name(r.Uneven[1].Switch) != "tor1" {
		t.Errorf("most uneven: %s, then %s", f.Name(r.Uneven[0].Switch), f.Name(r.Uneven[1].Switch))
	}
}

// TestScale: what a report says does not depend on the unit of use, and links used alike are none of them hot or cold.
func TestScale(t *testing.T) {
	f := k4(t)
	s := Of(f)
	rapid.Check(t, func(rt *rapid.T) {
		use, more, same := make([]float64, 2*f.Links()), make([]float64, 2*f.Links()), make([]float64, 2*f.Links())
		level := rapid.Float64Range(0, 1e9).Draw(rt, "level")
		for d := range use {
			use[d] = float64(rapid.IntRange(0, 1000).Draw(rt, "use"))
			more[d], same[d] = 4*use[d], level
		}
		a, b, c := s.Report(use), s.Report(more), s.Report(same)
		for i := range a.Tiers {
			if !slices.Equal(a.Tiers[i].Hot, b.Tiers[i].Hot) || a.Tiers[i].Imbalance() != b.Tiers[i].Imbalance() {
				rt.Fatalf("%+v and %+v", a.Tiers[i], b.Tiers[i])
			}
			if len(c.Tiers[i].Hot)+len(c.Tiers[i].Cold) > 0 || c.Tiers[i].Imbalance() > 1e-9 {
				rt.Fatalf("all alike: %+v", c.Tiers[i])
			}
		}
	})
}
