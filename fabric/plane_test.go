package fabric

import (
	"errors"
	"strings"
	"testing"
)

var planes = []Spec{
	{Kind: KindLeafSpine, ToRs: 3, Spines: 3, HostsPerToR: 3, Planes: 3},
	{Kind: KindFatTree, Pods: 3, ToRsPerPod: 2, AggsPerPod: 3, Cores: 6, HostsPerToR: 2, Planes: 2},
}

// TestPlanes: each plane is the fabric that its spec without planes gives, and all have the same hosts.
func TestPlanes(t *testing.T) {
	for _, s := range planes {
		f := mustNew(t, s)
		s.Planes = 0
		one := mustNew(t, s)
		if f.Hosts() != one.Hosts() || f.Links() != f.Planes()*one.Links() || f.Switches() != f.Planes()*one.Switches() {
			t.Fatalf("%d hosts, %d links, %d switches; one plane has %d, %d, %d", f.Hosts(), f.Links(), f.Switches(),
				one.Hosts(), one.Links(), one.Switches())
		}
		links := map[string]bool{}
		for id := range LinkID(f.Links()) {
			a, b := f.Node(f.Link(id).A.Node), f.Node(f.Link(id).B.Node)
			if a.Tier != Host && a.Plane != b.Plane {
				t.Errorf("%s joins planes %d and %d", f.LinkName(id), a.Plane, b.Plane)
			}
			links[f.LinkName(id)] = true
		}
		for id := range LinkID(one.Links()) {
			for q := range f.Planes() {
				low, high, _ := strings.Cut(one.LinkName(id), "-")
				if q > 0 {
					high = "p" + string(rune('0'+q)) + high
					if one.Node(one.Link(id).A.Node).Tier != Host {
						low = "p" + string(rune('0'+q)) + low
					}
				}
				if !links[low+"-"+high] {
					t.Errorf("plane %d has no %s-%s", q, low, high)
				}
			}
		}
	}
}

// TestWay: a label names one path between two hosts, in its own plane from end to end, and no two the same.
func TestWay(t *testing.T) {
	for _, s := range append(planes, Spec{Kind: KindFatTree, K: 4}) {
		f := mustNew(t, s)
		for src := range NodeID(f.Hosts()) {
			for dst := range NodeID(f.Hosts()) {
				if src == dst {
					continue
				}
				labels := f.PathLabels(f.ToROf(src), f.ToROf(dst))
				if labels == nil {
					labels = []Label{0}
				}
				seen := map[string]bool{}
				for _, l := range labels {
					if path := checkPath(t, f, src, dst, l); seen[path] {
						t.Fatalf("label %d from %s to %s is another's %s", l, f.Name(src), f.Name(dst), path)
					} else {
						seen[path] = true
					}
				}
			}
		}
	}
}

func checkPath(t *testing.T, f *Fabric, src, dst NodeID, l Label) (path string) {
	t.Helper()
	hops, ok := f.HostPath(nil, src, dst, l)
	if !ok {
		t.Fatalf("label %d names no path from %s to %s", l, f.Name(src), f.Name(dst))
	}
	at := src
	for _, h := range hops {
		if h.From != at || f.Node(at).Link(h.Port) != h.Link {
			t.Fatalf("hop %+v of label %d does not leave %s", h, l, f.Name(at))
		}
		at = f.Link(h.Link).Peer(at).Node
		if n := f.Node(at); n.Tier != Host && n.Plane != f.PlaneOf(l) {
			t.Fatalf("label %d of plane %d leads to %s", l, f.PlaneOf(l), f.Name(at))
		}
		path += " " + f.Name(at)
	}
	if at != dst {
		t.Fatalf("label %d from %s to %s ends at %s", l, f.Name(src), f.Name(dst), f.Name(at))
	}
	return path
}

func TestPlanesRefused(t *testing.T) {
	for _, tt := range []struct {
		spec Spec
		want string
	}{
		{Spec{Kind: KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2, Planes: -1}, "planes: -1 is outside 0 to 64"},
		{Spec{Kind: KindFatTree, K: 4, Planes: 65}, "planes: 65 is outside 0 to 64"},
		{Spec{Kind: KindLeafSpine, ToRs: 2, Spines: 4096, HostsPerToR: 2, Planes: 8}, "need 15 label bits"},
		{Spec{Kind: KindLeafSpine, ToRs: 4096, Spines: 2, HostsPerToR: 4096, Planes: 2}, "16777216 hosts"},
		{Spec{Kind: KindLeafSpine, ToRs: 1024, Spines: 1024, HostsPerToR: 256, Planes: 16}, "20971520 links"},
		{Spec{Kind: KindLeafSpine, ToRs: 4, Spines: 65, HostsPerToR: 2, Planes: 1}, "spines: 65 is outside 1 to 64"},
	} {
		if _, err := New(tt.spec); !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.spec, err, tt.want)
		}
	}
	f := mustNew(t, planes[0])
	if err := f.SinglePlane("the oven"); !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), "planes: 3; the oven takes one plane") {
		t.Error(err)
	}
}

// TestPlaneByItself: a plane by itself is that part of the whole, by other numbers and with the same labels.
func TestPlaneByItself(t *testing.T) {
	for _, s := range planes {
		f := mustNew(t, s)
		for q := range f.Planes() {
			p, err := f.Plane(q)
			if err != nil {
				t.Fatal(err)
			}
			for id := range NodeID(p.Nodes()) {
				whole := f.PlaneNode(q, id)
				if n := f.Node(whole); n.Tier != p.Node(id).Tier || n.Tier != Host && (n.Plane != q || f.InOwnPlane(whole) != id) {
					t.Fatalf("%s of plane %d is %s", p.Name(id), q, f.Name(whole))
				}
				for i, m := range p.UplinkMatches(id) {
					if f.UplinkMatches(whole)[i] != m {
						t.Fatalf("%s takes %v by uplink %d, in the whole %v", f.Name(whole), m, i, f.UplinkMatches(whole)[i])
					}
				}
			}
			for id := range LinkID(p.Links()) {
				whole := f.PlaneLink(q, id)
				if in, back := f.LinkInPlane(whole); in != q || back != id {
					t.Fatalf("link %d of plane %d is %d, which is link %d of plane %d", id, q, whole, back, in)
				}
				a, b := p.Link(id), f.Link(whole)
				if f.PlaneNode(q, a.A.Node) != b.A.Node || f.PlaneNode(q, a.B.Node) != b.B.Node || a.B.Port != b.B.Port {
					t.Fatalf("%s of plane %d is %s", p.LinkName(id), q, f.LinkName(whole))
				}
			}
			for l := range f.LabelSpan() {
				if _, _, ok := p.SplitLabel(l); ok != (f.PlaneOf(l) == q && valid(f, l)) {
					t.Fatalf("label %d of plane %d: %v by itself", l, f.PlaneOf(l), ok)
				}
			}
		}
	}
}

func valid(f *Fabric, l Label) bool {
	_, _, ok := f.SplitLabel(l)
	return ok
}
