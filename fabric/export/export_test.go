package export

import (
	"bytes"
	"encoding/csv"
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
		if err := p.pairs(func(src, dst fabric.NodeID, paths []Path) error {
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
			return nil
		}); err != nil {
			t.Fatal(err)
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

// TestTables: a line for each path in CSV, and for each pair for HCCL, whose ports are of its paths.
func TestTables(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	var table, hccl bytes.Buffer
	if err := p.CSV(&table); err != nil {
		t.Fatal(err)
	}
	if err := p.HCCL(&hccl); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&table).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	// Of 16 hosts 2 share a ToR and 4 a pod: 2 hosts are reached by 2 paths, 12 by 4.
	if want := 1 + 16*(2*2+12*4); len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
	lines := strings.Split(strings.TrimSpace(hccl.String()), "\n")
	if want := 16 * 14; len(lines) != want || lines[0] != "10.0.0.2,10.0.1.2=49152,49154" {
		t.Errorf("%d lines, want %d; the first: %s", len(lines), want, lines[0])
	}
}

// TestTooLarge: what the forms cannot hold is refused.
func TestTooLarge(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 32, Spines: 2, HostsPerToR: 16})
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.HCCL(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "131072") {
		t.Errorf("512 hosts: %v", err)
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
