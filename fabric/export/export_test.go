package export

import (
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestPaths: a path's list is the switches that its label leads by, hop by hop over the switches' static routes, in two
// tiers and three.
func TestPaths(t *testing.T) {
	for _, spec := range []fabric.Spec{
		{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 3, HostsPerToR: 2}, {Kind: fabric.KindFatTree, K: 4},
	} {
		f, err := fabric.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(f)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for i := range f.Hosts() * f.Hosts() {
			src, dst := fabric.NodeID(i/f.Hosts()), fabric.NodeID(i%f.Hosts())
			paths := p.Paths(src, dst)
			if want := len(f.PathLabels(f.ToROf(src), f.ToROf(dst))); len(paths) != want {
				t.Errorf("%s to %s: %d paths, want %d", f.Name(src), f.Name(dst), len(paths), want)
			}
			for _, x := range paths {
				if at := walk(t, p, f.ToROf(src), x); at != dst {
					t.Fatalf("%s to %s, label %d: ends at %s", f.Name(src), f.Name(dst), x.Label, f.Name(at))
				}
				if key := f.Name(src) + x.SID.String(); seen[key] {
					t.Errorf("%v stands for two paths", x.SID)
				} else {
					seen[key] = true
				}
			}
		}
	}
}

// walk follows a list from a ToR as routers do: each takes itself off, and looks the next one up.
func walk(t *testing.T, p *Plan, at fabric.NodeID, x Path) fabric.NodeID {
	t.Helper()
	for left := x.Nodes; ; {
		if len(left) == 0 || left[0] != at || fabric.SID(left...) != fabric.SID(x.Nodes[len(x.Nodes)-len(left):]...) {
			t.Fatalf("%v: is at %s", x, p.Fabric.Name(at))
		}
		if left = left[1:]; len(left) == 0 {
			return at
		}
		next := at
		for _, r := range p.Routes(at) {
			if r.To.Bits() == fabric.USIDBlockBits+fabric.USIDBits && r.To.Contains(fabric.SID(left...)) {
				next = p.Fabric.Link(p.Fabric.Node(at).Link(r.Hops[0].Port)).Peer(at).Node
			}
		}
		if next == at {
			t.Fatalf("%s has no route to %v", p.Fabric.Name(at), fabric.SID(left...))
		}
		at = next
	}
}

// TestNCCL: queue pairs of all senders are a multiple of the paths, and no fewer would be.
func TestNCCL(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 6, HostsPerToR: 4})
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	for senders, want := range map[int]string{0: "", 1: "=6\n", 2: "=3\n", 3: "=2\n", 4: "=3\n", 6: "=1\n"} {
		var b strings.Builder
		if err := p.NCCL(&b, senders); (err == nil) != (want != "") || !strings.Contains(b.String(), want) {
			t.Errorf("%d senders: %v, %s", senders, err, b.String())
		}
	}
}
