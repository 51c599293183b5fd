package collective

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGrouped: groups post, each among its own ranks, what a job of one group posts.
func TestGrouped(t *testing.T) {
	for _, stride := range []int{0, 1, 3} {
		for _, s := range []Spec{
			{Kind: AllToAll, Bytes: 400},
			{Kind: AllReduce, Algorithm: Ring, Bytes: 400},
			{Kind: AllReduce, Algorithm: HalvingDoubling, Bytes: 400},
			{Kind: AllReduce, Algorithm: DoubleBinaryTree, Bytes: 400},
			{Kind: AllReduce, Algorithm: WholeVectorDoubling, Bytes: 400},
			{Kind: Incast, Target: 1, Bytes: 400},
			{Kind: Permutation, Bytes: 400},
		} {
			s.Ranks = 4
			want := posted(t, s)
			s.Ranks, s.Group, s.Stride = 24, 4, stride
			got := map[int][]Send{} // by the group's first rank, as ranks of it
			for _, m := range posted(t, s) {
				by := max(stride, 1)
				first := m.Src/(4*by)*4*by + m.Src%by
				if (m.Dst-first)%by != 0 || m.Dst < first || m.Dst >= first+4*by {
					t.Fatalf("%+v: rank %d sends to %d of another group", s, m.Src, m.Dst)
				}
				m.Src, m.Dst = (m.Src-first)/by, (m.Dst-first)/by
				m.ID = newID(0, m.Step, m.Src, m.Dst)
				got[first] = append(got[first], m)
			}
			if len(got) != 6 {
				t.Errorf("%+v: %d groups, want 6", s, len(got))
			}
			for first, g := range got {
				if d := cmp.Diff(want, g); d != "" {
					t.Errorf("%+v: the group of rank %d (-alone +in a group):\n%s", s, first, d)
				}
			}
		}
	}
}

// posted runs a job, of which messages arrive in the order of their posting, and returns what it posts.
func posted(t *testing.T, s Spec) (all []Send) {
	t.Helper()
	j, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	emit := func(m Send) { all = append(all, m) }
	j.Start(emit)
	for i := 0; i < len(all); i++ {
		if err := j.Received(all[i].ID, emit); err != nil {
			t.Fatal(err)
		}
		if err := j.Sent(all[i].ID); err != nil {
			t.Fatal(err)
		}
	}
	if !j.Finished() {
		t.Fatalf("%+v: not finished after %d messages", s, len(all))
	}
	return all
}
