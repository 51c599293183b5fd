package dragonfly

import (
	"errors"
	"fmt"
	"testing"
)

func specs() []Spec {
	return []Spec{
		{HostsPerRouter: 2, RoutersPerGroup: 4, GlobalLinks: 2},
		{HostsPerRouter: 2, RoutersPerGroup: 4, GlobalLinks: 2, Arrangement: Absolute},
		{HostsPerRouter: 3, RoutersPerGroup: 6, GlobalLinks: 3},
		{HostsPerRouter: 1, RoutersPerGroup: 1, GlobalLinks: 4},
		{HostsPerRouter: 2, RoutersPerGroup: 4, GlobalLinks: 2, Groups: 4},
		{HostsPerRouter: 2, RoutersPerGroup: 4, GlobalLinks: 3, Groups: 5, Arrangement: Absolute},
		{HostsPerRouter: 1, RoutersPerGroup: 2, GlobalLinks: 1, Groups: 2},
	}
}

// TestShape counts links: no port is used twice, and every two groups have as many links.
func TestShape(t *testing.T) {
	for _, s := range specs() {
		t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) {
			f, err := New(s)
			if err != nil {
				t.Fatal(err)
			}
			global := map[int]int{} // of a router
			between := map[[2]int]int{}
			for l := range f.Links() {
				if link := f.Link(l); link.Global {
					x, y := link.A-f.Hosts(), link.B-f.Hosts()
					global[x]++
					global[y]++
					between[[2]int{min(f.GroupOf(x), f.GroupOf(y)), max(f.GroupOf(x), f.GroupOf(y))}]++
				}
				back, err := f.LinkByName(f.LinkName(l))
				if x, y := f.Link(back), f.Link(l); err != nil || x.A != y.A || x.B != y.B {
					t.Fatalf("link %d is %s, and that is %d, %v", l, f.LinkName(l), back, err)
				}
			}
			for r, n := range global {
				if n > s.GlobalLinks || f.Spec().Groups == s.RoutersPerGroup*s.GlobalLinks+1 && n != s.GlobalLinks {
					t.Errorf("router %d has %d global links of %d", r, n, s.GlobalLinks)
				}
			}
			if want := f.Groups() * (f.Groups() - 1) / 2; len(between) != want {
				t.Errorf("%d pairs of groups are linked, of %d", len(between), want)
			}
			for pair, n := range between {
				if n != f.Layers() {
					t.Errorf("groups %v have %d links, want %d", pair, n, f.Layers())
				}
			}
		})
	}
}

// TestWays follows every name between all routers: channels join, no router is passed twice, no path
// has two names, and lengths are those of the field: minimal 3 links at most, by a group 5, by a router 6.
func TestWays(t *testing.T) {
	for _, s := range specs() {
		f, err := New(s)
		if err != nil {
			t.Fatal(err)
		}
		for src := range min(f.Routers(), 2*s.RoutersPerGroup) {
			for dst := range f.Routers() {
				seen := map[string]Name{}
				for n := range f.Names() {
					way, ok := f.Way(nil, src, dst, Name(n))
					if !ok {
						continue
					}
					at, passed := f.Hosts()+src, map[int]bool{f.Hosts() + src: true}
					for _, c := range way {
						from, to := f.Ends(c)
						if from != at || passed[to] {
							t.Fatalf("%+v: %d to %d by %d: %v leads from %s, not %s, to %s", s, src, dst, n, way,
								f.NodeName(from), f.NodeName(at), f.NodeName(to))
						}
						at, passed[to] = to, true
					}
					if at != f.Hosts()+dst {
						t.Fatalf("%+v: %d to %d by %d ends at %s", s, src, dst, n, f.NodeName(at))
					}
					most := 6
					switch {
					case n < f.Layers():
						most = 3
					case n < f.Layers()+f.Groups()*f.Layers()*f.Layers():
						most = 5
					}
					if len(way) > most {
						t.Errorf("%+v: %d to %d by %d has %d links", s, src, dst, n, len(way))
					}
					key := fmt.Sprint(way)
					if other, twice := seen[key]; twice && src != dst {
						t.Fatalf("%+v: %d to %d: names %d and %d are one path", s, src, dst, other, n)
					}
					seen[key] = Name(n)
				}
				if len(seen) == 0 {
					t.Fatalf("%+v: no path from %d to %d", s, src, dst)
				}
			}
		}
	}
}

// TestPathsAround cuts the only link of two groups: what is left begins with paths of two global links.
func TestPathsAround(t *testing.T) {
	f, err := New(specs()[0])
	if err != nil {
		t.Fatal(err)
	}
	l, err := f.LinkByName("g0-g1")
	if err != nil {
		t.Fatal(err)
	}
	dead := func(c int32) bool { return int(c/2) == l }
	for dst := 4; dst < 8; dst++ {
		paths := f.Paths(0, dst, MinimalPaths, dead)
		if len(paths) == 0 || len(paths[0].Channels) < 2 || len(paths[0].Channels) != len(paths[len(paths)-1].Channels) {
			t.Errorf("to router %d: %v", dst, paths)
		}
	}
}

func TestSpecErrors(t *testing.T) {
	for _, s := range []Spec{
		{}, {HostsPerRouter: 2, RoutersPerGroup: 4, GlobalLinks: 2, Groups: 10},
		{HostsPerRouter: 2, RoutersPerGroup: 4, GlobalLinks: 2, Arrangement: "random"},
		{HostsPerRouter: 256, RoutersPerGroup: 256, GlobalLinks: 256},
		{HostsPerRouter: 1, RoutersPerGroup: 32, GlobalLinks: 32, Groups: 2},
	} {
		if _, err := New(s); !errors.Is(err, ErrSpec) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
