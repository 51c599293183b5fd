package cabling

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// plugged is a fabric whose cables can be moved: the other end of each place.
type plugged struct {
	f     *fabric.Fabric
	other map[Place]Place
}

func plug(t testing.TB, s fabric.Spec) *plugged {
	t.Helper()
	f, err := fabric.New(s)
	if err != nil {
		t.Fatal(err)
	}
	p := &plugged{f: f, other: map[Place]Place{}}
	for i := range f.Links() {
		l := f.Link(fabric.LinkID(i))
		p.connect(PlaceOf(l.A), PlaceOf(l.B))
	}
	return p
}

func (p *plugged) connect(a, b Place) { p.other[a], p.other[b] = b, a }

// exchange exchanges the plugs in two places.
func (p *plugged) exchange(a, b Place) {
	x, y := p.other[a], p.other[b]
	p.connect(a, y)
	p.connect(b, x)
}

func (p *plugged) pull(a Place) {
	delete(p.other, p.other[a])
	delete(p.other, a)
}

func (p *plugged) at(name string, port int) Place {
	id, err := p.f.NodeByName(name)
	if err != nil {
		panic(err)
	}
	return Place{Node: id, Port: fabric.PortNo(port)}
}

// evidence is what switches would receive.
func (p *plugged) evidence() Evidence {
	var ev Evidence
	for a, b := range p.other {
		if p.f.Node(a.Node).Tier != fabric.Host {
			ev.Received = append(ev.Received, Arrival{At: a, From: b})
		}
	}
	return ev
}

func (p *plugged) report() *Report { return Compare(p.f, p.evidence(), nil) }

var leafSpine = fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 2}

func TestHealthy(t *testing.T) {
	for _, s := range []fabric.Spec{leafSpine, {Kind: fabric.KindFatTree, K: 4}} {
		r := plug(t, s).report()
		if !r.OK() || len(r.Links) == 0 {
			t.Errorf("%v: %+v", s.Kind, r.Faults)
		}
	}
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name         string
		change       func(*plugged) Evidence
		what, remedy string
		links        []string // not confirmed
	}{
		{
			"two cables at one switch",
			func(p *plugged) Evidence { p.exchange(p.at("tor1", 3), p.at("tor1", 4)); return p.evidence() },
			"2 cables are exchanged: tor1 port 3 leads to spine1 port 2, tor1 port 4 leads to spine0 port 2",
			"exchange the plugs in tor1 port 3 and tor1 port 4",
			[]string{"tor1-spine0", "tor1-spine1"},
		},
		{
			"two cables of different switches",
			func(p *plugged) Evidence { p.exchange(p.at("tor0", 3), p.at("tor2", 4)); return p.evidence() },
			"2 cables are exchanged: tor0 port 3 leads to spine1 port 3, tor2 port 4 leads to spine0 port 1",
			"exchange the plugs in tor0 port 3 and tor2 port 4",
			[]string{"tor0-spine0", "tor2-spine1"},
		},
		{
			"hosts of one ToR",
			func(p *plugged) Evidence { p.exchange(p.at("tor0", 1), p.at("tor0", 2)); return p.evidence() },
			"2 cables are exchanged: h0 leads to tor0 port 2, h1 leads to tor0 port 1",
			"exchange the plugs in tor0 port 2 and tor0 port 1",
			[]string{"h0-tor0", "h1-tor0"},
		},
		{
			"three cables in a ring",
			func(p *plugged) Evidence {
				p.exchange(p.at("spine0", 1), p.at("spine0", 2))
				p.exchange(p.at("spine0", 2), p.at("spine0", 3))
				return p.evidence()
			},
			"3 cables are exchanged", "move the plug in spine0 port",
			[]string{"tor0-spine0", "tor1-spine0", "tor2-spine0"},
		},
		{
			"a plug in a port that is not the fabric's",
			func(p *plugged) Evidence {
				peer := p.other[p.at("tor0", 3)]
				p.pull(peer)
				p.connect(peer, Place{Node: p.at("tor0", 1).Node, ID: 44})
				return p.evidence()
			},
			"tor0 device port 44 (none of the fabric's) leads to spine0 port 1",
			"move the plug in tor0 device port 44 (none of the fabric's) to tor0 port 3",
			[]string{"tor0-spine0"},
		},
		{
			"no cable",
			func(p *plugged) Evidence {
				a := p.at("tor0", 3)
				b := p.other[a]
				p.pull(a)
				ev := p.evidence()
				ev.Down = map[Place]bool{a: true, b: true}
				return ev
			},
			"tor0 port 3 to spine0 port 1: tor0 port 3 and spine0 port 1 down", "plug the cable in",
			[]string{"tor0-spine0"},
		},
		{
			"a broken fibre",
			func(p *plugged) Evidence {
				ev := p.evidence()
				ev.Received = slices.DeleteFunc(ev.Received, func(h Arrival) bool { return h.At == p.at("spine1", 2) })
				return ev
			},
			"spine1 port 2 does not receive tor1 port 4, though the other way works", "clean or replace the fibre",
			[]string{"tor1-spine1"},
		},
		{
			"a host without an agent",
			func(p *plugged) Evidence { p.pull(p.at("h3", 1)); return p.evidence() },
			"h3 to tor1 port 2: nothing is received", "start ethereal host agent or tag on h3",
			[]string{"h3-tor1"},
		},
		{
			"a machine that nobody knows",
			func(p *plugged) Evidence {
				p.pull(p.at("h3", 1))
				ev := p.evidence()
				ev.Strangers = []Stranger{{p.at("tor1", 2), "printer eth0"}}
				return ev
			},
			"tor1 port 2 leads to printer eth0, which the fabric does not know", "connect it with h3",
			[]string{"h3-tor1"},
		},
		{
			"a loopback plug",
			func(p *plugged) Evidence {
				a := p.at("tor0", 3)
				p.pull(a)
				p.other[a] = a
				return p.evidence()
			},
			"tor0 port 3 receives its own frames", "loopback", []string{"tor0-spine0"},
		},
		{
			"a bridge between",
			func(p *plugged) Evidence {
				ev := p.evidence()
				ev.Received = append(ev.Received, Arrival{p.at("tor0", 3), p.at("spine1", 1)})
				return ev
			},
			"tor0 port 3 receives frames of spine0 port 1 and spine1 port 1: more than one", "one cable",
			[]string{"tor0-spine0", "tor0-spine1"},
		},
		{
			"two switches in each other's place",
			func(p *plugged) Evidence {
				for port := 1; port <= 3; port++ {
					p.exchange(p.at("spine0", port), p.at("spine1", port))
				}
				return p.evidence()
			},
			"spine0 and spine1 stand in each other's place", "exchange the addresses of spine0 and spine1 in the targets file",
			[]string{"tor0-spine0", "tor0-spine1", "tor1-spine0", "tor1-spine1", "tor2-spine0", "tor2-spine1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := plug(t, leafSpine)
			r := Compare(p.f, tt.change(p), nil)
			i := slices.IndexFunc(r.Faults, func(f Fault) bool {
				return strings.HasPrefix(f.What, tt.what) && strings.Contains(f.Remedy, tt.remedy)
			})
			if i < 0 {
				t.Errorf("faults: %+v\nwant %q, %q", r.Faults, tt.what, tt.remedy)
			}
			var not []string
			for _, l := range r.Links {
				if l.State != Confirmed {
					not = append(not, l.Name)
				}
			}
			if !slices.Equal(not, tt.links) || r.OK() {
				t.Errorf("links not confirmed: %v, want %v", not, tt.links)
			}
		})
	}
}

// TestUnasked: a switch that could not be asked is no fault of a cable.
func TestUnasked(t *testing.T) {
	p := plug(t, leafSpine)
	spine := p.at("spine1", 1).Node
	ev := p.evidence()
	ev.Unasked = map[fabric.NodeID]error{spine: errors.New("no answer")}
	ev.Received = slices.DeleteFunc(ev.Received, func(h Arrival) bool { return h.At.Node == spine })
	r := Compare(p.f, ev, nil)
	if r.OK() || r.Count(OneWay) != 3 || len(r.Faults) > 0 {
		t.Errorf("%+v", r)
	}
}

// TestRemedy: whatever plugs are exchanged, all are named, and doing what the
// remedies say puts them right.
func TestRemedy(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := plug(t, leafSpine)
		var places []Place
		for a := range p.other {
			if p.f.Node(a.Node).Tier != fabric.Host {
				places = append(places, a)
			}
		}
		slices.SortFunc(places, comparePlaces)
		for range rapid.IntRange(1, 4).Draw(rt, "exchanges") {
			i := rapid.IntRange(0, len(places)-1).Draw(rt, "a")
			j := rapid.IntRange(0, len(places)-1).Draw(rt, "b")
			if a, b := places[i], places[j]; a != b && p.other[a] != b {
				p.exchange(a, b)
			}
		}
		c := &comparison{f: p.f, name: PlainNames(p.f), received: map[Arrival]bool{}, partner: map[Place]Place{}, crowded: map[Place][]Place{}, reported: map[Place]bool{}}
		c.ev = p.evidence()
		c.match()
		seen := map[Place]bool{}
		moved := map[Place]Place{}
		for _, w := range c.wrongPlugs() {
			if seen[w] {
				continue
			}
			cables := c.connectedCables(w, seen)
			side := 0
			if c.moveCost(cables, 1) < c.moveCost(cables, 0) {
				side = 1
			}
			for _, w := range cables {
				_, to, ok := c.moveOf(w, side)
				if !ok {
					rt.Fatalf("no move for %v", w)
				}
				moved[w.end[1-side]] = to
			}
		}
		for a, b := range moved {
			if want, _ := plannedPeer(p.f, a); b != want {
				rt.Fatalf("%v is moved to %v, want %v", a, b, want)
			}
		}
		r := p.report()
		if wrong := len(c.wrongPlugs()); (wrong == 0) != r.OK() {
			rt.Fatalf("%d wrong, %+v", wrong, r.Faults)
		}
		for i := range r.Links {
			l := p.f.Link(r.Links[i].ID)
			right := p.other[PlaceOf(l.A)] == PlaceOf(l.B)
			if right != (r.Links[i].State == Confirmed) {
				rt.Fatalf("%s: %v, but right is %v", r.Links[i].Name, r.Links[i].State, right)
			}
		}
	})
}

func ExampleCompare() {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1})
	if err != nil {
		panic(err)
	}
	ev := Evidence{}
	for i := range f.Links() {
		l := f.Link(fabric.LinkID(i))
		a, b := PlaceOf(l.A), PlaceOf(l.B)
		if f.Name(a.Node) == "tor0" { // its uplinks are in each other's port
			a.Port = 5 - a.Port
		}
		ev.Received = append(ev.Received, Arrival{a, b}, Arrival{b, a})
	}
	for _, fault := range Compare(f, ev, nil).Faults {
		fmt.Println(fault.What)
		fmt.Println(fault.Remedy)
	}
	// Output:
	// 2 cables are exchanged: tor0 port 2 leads to spine1 port 1, tor0 port 3 leads to spine0 port 1
	// exchange the plugs in tor0 port 2 and tor0 port 3
}
