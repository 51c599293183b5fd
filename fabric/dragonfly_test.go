package fabric

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func dragonfly(t interface{ Fatal(...any) }, tors, global, hosts int) *Fabric {
	f, err := New(Spec{Kind: KindDragonfly, ToRsPerPod: tors, GlobalLinks: global, HostsPerToR: hosts})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestDragonfly: each two ToRs of a pod and each two pods share one link; ports are in the documented order; each
// label's path leads through its pod, and back by the same label over the same links.
func TestDragonfly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := dragonfly(t, rapid.IntRange(1, 5).Draw(t, "ToRs"), rapid.IntRange(1, 4).Draw(t, "global"), rapid.IntRange(1, 3).Draw(t, "hosts"))
		s := f.Spec()
		between := map[[2]int]int{}
		for i := f.HostLinks(); i < f.Links(); i++ {
			l := f.Link(LinkID(i))
			a, b := f.Node(l.A.Node), f.Node(l.B.Node)
			if a.Pod == b.Pod {
				if l.LinkSpec != s.ToRUplink || a.Index >= b.Index {
					t.Fatalf("%s: %v", f.LinkName(l.ID), l)
				}
				continue
			}
			between[[2]int{a.Pod, b.Pod}]++
			if l.LinkSpec != s.AggUplink || f.Toward(a.ID, b.Pod) != l.A.Port || f.Toward(b.ID, a.Pod) != l.B.Port {
				t.Fatalf("%s: Toward does not lead over it", f.LinkName(l.ID))
			}
		}
		if len(between) != s.Pods*(s.Pods-1)/2 || f.Links() != f.Hosts()+s.Pods*s.ToRsPerPod*(s.ToRsPerPod-1)/2+len(between) {
			t.Fatalf("%d links between %d pods, %d in all", len(between), s.Pods, f.Links())
		}
		for i := range f.ToRs() {
			n := f.Node(f.ToRID(i))
			if n.Uplinks() != s.GlobalLinks || n.Ports() != s.HostsPerToR+s.ToRsPerPod-1+s.GlobalLinks {
				t.Fatalf("%s has %d ports, %d of them global", f.Name(n.ID), n.Ports(), n.Uplinks())
			}
			last := -1
			for p := n.FirstUplink(); int(p) <= n.Ports(); p++ {
				pod := f.Node(f.Link(n.Link(p)).Peer(n.ID).Node).Pod
				if pod <= last {
					t.Fatalf("%s: ports are not in the order of pods", f.Name(n.ID))
				}
				last = pod
			}
		}
		src, dst := f.ToRID(rapid.IntRange(0, f.ToRs()-1).Draw(t, "src")), f.ToRID(rapid.IntRange(0, f.ToRs()-1).Draw(t, "dst"))
		if src != dst {
			checkDragonflyPaths(t, f, src, dst)
		}
	})
}

func checkDragonflyPaths(t *rapid.T, f *Fabric, src, dst NodeID) {
	from, to := f.Node(src).Pod, f.Node(dst).Pod
	labels := f.PathLabels(src, dst)
	if want := f.Spec().Pods - 1; from != to && len(labels) != want || from == to && len(labels) != 1 {
		t.Fatalf("%d labels from %s to %s", len(labels), f.Name(src), f.Name(dst))
	}
	for _, l := range append(labels, f.LabelFor(from, 0)) {
		hops, ok := f.Path(nil, src, dst, l)
		via, _ := f.Through(l, dst)
		pods := []int{from}
		at := src
		for _, h := range hops {
			if h.From != at || f.Node(at).Link(h.Port) != h.Link {
				t.Fatalf("label %d: %v is not connected", l, hops)
			}
			at = f.Link(h.Link).Peer(at).Node
			pods = append(pods, f.Node(at).Pod)
		}
		pods = slices.Compact(pods)
		want := slices.Compact([]int{from, via, to})
		if from == to {
			want = []int{from}
		}
		if !ok || at != dst || !slices.Equal(pods, want) || len(hops) > 5 || len(hops) > 3 && len(want) < 3 {
			t.Fatalf("label %d from pod %d to %d: %d hops through pods %v, want %v", l, from, to, len(hops), pods, want)
		}
		back, _ := f.Path(nil, dst, src, l)
		slices.Reverse(back)
		if !slices.EqualFunc(hops, back, func(a, b Hop) bool { return a.Link == b.Link }) {
			t.Fatalf("label %d: %v there, %v back", l, hops, back)
		}
	}
	if short, _ := f.Path(nil, src, dst, f.Minimal()); len(short) > 3 {
		t.Fatalf("the minimal path has %d hops", len(short))
	}
	a, _ := f.HostsOf(src)
	b, _ := f.HostsOf(dst)
	if trip, longest := f.RoundTrip(a, b, 4096, 64), f.LongestRoundTrip(4096, 64); trip > longest || trip < f.RoundTrip(a, b, 64, 64) {
		t.Fatalf("a round trip of %v, the longest is %v", trip, longest)
	}
}

// TestDragonflyNames: names, addresses and the spec are those of the fabric that they give again.
func TestDragonflyNames(t *testing.T) {
	f := dragonfly(t, 4, 2, 2)
	again, err := New(f.Spec())
	if err != nil || !reflect.DeepEqual(f, again) {
		t.Errorf("the spec %+v gives another fabric: %v", f.Spec(), err)
	}
	for id := range NodeID(f.Nodes()) {
		if got, err := f.NodeByName(f.Name(id)); err != nil || got != id {
			t.Errorf("%s: node %d, %v", f.Name(id), got, err)
		}
	}
	for h := range NodeID(f.Hosts()) {
		if got, ok := f.HostByAddr(f.HostAddr4(h)); !ok || got != h || f.Node(f.ToROf(h)).Pod != f.Node(h).Pod {
			t.Errorf("host %d has address %v of host %d", h, f.HostAddr4(h), got)
		}
	}
	if f.PauseCycle() == nil {
		t.Error("no cycle of pauses: local links precede and follow global ones")
	}
	if err := f.SinglePlane("a test"); !errors.Is(err, ErrSpec) {
		t.Errorf("a program for Clos fabrics got %v", err)
	}
}

func TestDragonflySpecErrors(t *testing.T) {
	good := Spec{Kind: KindDragonfly, ToRsPerPod: 4, GlobalLinks: 2, HostsPerToR: 2}
	for key, edit := range map[string]func(*Spec){
		"global_links": func(s *Spec) { s.GlobalLinks = 0 }, "tors_per_pod": func(s *Spec) { s.ToRsPerPod = 0 },
		"hosts_per_tor": func(s *Spec) { s.HostsPerToR = 0 }, "planes": func(s *Spec) { s.Planes = 2 },
		"pods": func(s *Spec) { s.Pods = 5 }, "k": func(s *Spec) { s.K = 4 }, "spines": func(s *Spec) { s.Spines = 4 },
		"agg_uplink.delay": func(s *Spec) { s.AggUplink = LinkSpec{Gbps, -1} },
	} {
		s := good
		edit(&s)
		var e *SpecError
		if err := s.Validate(); !errors.As(err, &e) || e.Key != key || e.Remedy == "" && e.Problem == "" {
			t.Errorf("%s: %v", key, err)
		}
	}
	for _, s := range []Spec{{Kind: KindFatTree, K: 4, GlobalLinks: 2}, {Kind: KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1, GlobalLinks: 2}} {
		var e *SpecError
		if err := s.Validate(); !errors.As(err, &e) || e.Key != "global_links" {
			t.Errorf("%s with global links: %v", s.Kind, err)
		}
	}
	if s := (Spec{Kind: KindDragonfly, ToRsPerPod: 64, GlobalLinks: 8, HostsPerToR: 1}); s.Validate() == nil {
		t.Error("513 pods do not fit the addresses")
	}
}

// TestDragonflyClasses: with one class of data, the pauses of lossless switches can wait for each other in a cycle.
// With a class that rises by one with each global link, of three in all, they cannot.
func TestDragonflyClasses(t *testing.T) {
	f := dragonfly(t, 3, 2, 1)
	if f.PauseCycle() == nil {
		t.Error("no cycle with one class")
	}
	type use struct {
		Hop
		class int
	}
	number := map[use]int32{}
	var next [][]int32
	for s := range f.ToRs() {
		for d := range f.ToRs() {
			src, dst := f.ToRID(s), f.ToRID(d)
			for _, l := range f.PathLabels(src, dst) {
				hops, _ := f.Path(nil, src, dst, l)
				class, before := 0, int32(-1)
				for _, h := range hops {
					u := use{h, class}
					if _, known := number[u]; !known {
						number[u] = int32(len(next))
						next = append(next, nil)
					}
					if before >= 0 {
						next[before] = append(next[before], number[u])
					}
					before = number[u]
					if end := f.Link(h.Link); f.Node(end.A.Node).Pod != f.Node(end.B.Node).Pod {
						class++
					}
				}
				if class > 2 {
					t.Fatalf("%s to %s by label %d needs class %d", f.Name(src), f.Name(dst), l, class)
				}
			}
		}
	}
	if c := cycleOf(next); c != nil {
		t.Errorf("%d links wait for each other", len(c))
	}
}
