package containerlab

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestDivide: links cross only above what stays whole, and no more of them than must: each core or spine keeps the
// machine to which most of its links go.
func TestDivide(t *testing.T) {
	for _, c := range []struct {
		spec              fabric.Spec
		machines, crosses int
	}{
		{fabric.Spec{Kind: fabric.KindFatTree, K: 4}, 1, 0},
		{fabric.Spec{Kind: fabric.KindFatTree, K: 4}, 2, 8}, // two of the four links of each of four cores
		{fabric.Spec{Kind: fabric.KindFatTree, K: 4}, 4, 12},
		{fabric.Spec{Kind: fabric.KindFatTree, K: 8}, 3, 16 * 5}, // pods 3, 3, 2: each of 16 cores keeps 3 of 8 links
		{fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 2, HostsPerToR: 2}, 2, 4},
	} {
		f := fabricOf(t, c.spec)
		at, err := machineOf(f, c.machines)
		if err != nil {
			t.Fatal(err)
		}
		crossing := (&placement{Fabric: f, at: at}).crossMachineLinks()
		if len(crossing) != c.crosses {
			t.Errorf("%+v on %d machines: %d links cross, want %d", c.spec, c.machines, len(crossing), c.crosses)
		}
		used := map[int]bool{}
		for _, m := range at {
			used[m] = true
		}
		if len(used) != c.machines {
			t.Errorf("%+v: %d of %d machines have nodes", c.spec, len(used), c.machines)
		}
		for _, l := range crossing {
			if int(f.Link(l).A.Node) < f.Hosts() || int(f.Link(l).B.Node) < f.Hosts() {
				t.Errorf("%s crosses: a host is not with its ToR", f.LinkName(l))
			}
		}
	}
	f := fabricOf(t, fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	for _, n := range []int{0, 5} {
		if _, err := machineOf(f, n); err == nil {
			t.Errorf("%d machines for four pods", n)
		}
	}
}
