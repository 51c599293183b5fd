package fabric

import "testing"

// TestPauseCycle: paths that go up and then down never wait for each other, and
// the search finds a cycle where there is one.
func TestPauseCycle(t *testing.T) {
	for _, s := range []Spec{
		{Kind: KindFatTree, K: 4},
		reference,
		{Kind: KindLeafSpine, ToRs: 5, Spines: 3, HostsPerToR: 2},
	} {
		if c := mustNew(t, s).PauseCycle(); c != nil {
			t.Errorf("%+v: %v wait for each other", s, c)
		}
	}
	ring := [][]int32{{1}, {3, 2}, {4, 1}, nil, {3}}
	if c := cycleOf(ring); len(c) != 2 || c[0]+c[1] != 3 {
		t.Errorf("cycle %v, want 1 and 2", c)
	}
	ring[2] = ring[2][:1]
	if c := cycleOf(ring); c != nil {
		t.Errorf("cycle %v where there is none", c)
	}
}

// BenchmarkPauseCycle is of the largest fabric that packets are simulated for.
func BenchmarkPauseCycle(b *testing.B) {
	f, err := New(Spec{Kind: KindFatTree, K: 32})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if f.PauseCycle() != nil {
			b.Fatal("a cycle")
		}
	}
}

// TestPausePairs: the paths that PauseCycle looks at show every link that packets
// go on by after another.
func TestPausePairs(t *testing.T) {
	for _, s := range []Spec{
		{Kind: KindFatTree, K: 6},
		{Kind: KindFatTree, Pods: 3, ToRsPerPod: 4, AggsPerPod: 2, Cores: 4, HostsPerToR: 2},
		{Kind: KindLeafSpine, ToRs: 5, Spines: 3, HostsPerToR: 2},
	} {
		f := mustNew(t, s)
		all, shown := map[[2]Hop]bool{}, map[[2]Hop]bool{}
		for s := range f.tors {
			for d := range f.tors {
				for _, l := range f.PathLabels(f.ToRID(s), f.ToRID(d)) {
					hops, _ := f.Path(nil, f.ToRID(s), f.ToRID(d), l)
					for i := range len(hops) - 1 {
						e := [2]Hop{hops[i], hops[i+1]}
						all[e] = true
						if f.mustCheckPair(s, d) {
							shown[e] = true
						}
					}
				}
			}
		}
		if len(all) == 0 || len(shown) != len(all) {
			t.Errorf("%+v: %d of %d shown", s, len(shown), len(all))
		}
	}
}
