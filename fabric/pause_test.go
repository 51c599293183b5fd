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
	at := func(l LinkID) Hop { return Hop{Link: l} }
	ring := map[Hop][]Hop{at(0): {at(1)}, at(1): {at(3), at(2)}, at(2): {at(4), at(1)}, at(3): nil, at(4): {at(3)}}
	c := cycleOf(ring)
	if len(c) != 2 || c[0].Link+c[1].Link != 3 {
		t.Errorf("cycle %v, want links 1 and 2", c)
	}
	ring[at(2)] = ring[at(2)][:1]
	if c := cycleOf(ring); c != nil {
		t.Errorf("cycle %v where there is none", c)
	}
}
