package controller

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"pgregory.net/rapid"
)

func dragonflyCore(t interface{ Fatal(...any) }, tors, global, hosts int) (*Core, *fabric.Fabric) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindDragonfly, ToRsPerPod: tors, GlobalLinks: global, HostsPerToR: hosts})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Fabric: f, CarrierV4: UDPSourcePort})
	if err != nil {
		t.Fatal(err)
	}
	return c, f
}

// next follows a switch's IPv4 tables as the P4 program does: the port of a packet to a host. labelled false: it has no
// label. choice selects a member of an ECMP group.
func next(es []Entry, dst uint64, l fabric.Label, labelled bool, choice int) (port fabric.PortNo, ok bool) {
	var route *Entry
	for i, e := range es {
		shift := 32 - e.PrefixLen
		if e.Table == RouteV4 && e.Value.Lo>>shift == dst>>shift && (route == nil || e.PrefixLen > route.PrefixLen) {
			route = &es[i]
		}
	}
	if route == nil || route.Action == Discard {
		return 0, false
	}
	if route.Action != ForwardUp {
		return fabric.PortNo(route.Args[0]), true
	}
	for _, e := range es {
		if labelled && e.Table == SourceRoute && uint64(l)&e.Mask == e.Value.Lo {
			return fabric.PortNo(e.Args[0]), true
		}
	}
	for _, e := range es {
		if e.Table == ECMP && e.Value.Lo == route.Args[0] {
			return e.Members[choice%len(e.Members)].Port, true
		}
	}
	return 0, false
}

// TestDragonflyTables: the tables lead each packet with a label along the label's path, and each one without along the
// minimal path.
func TestDragonflyTables(t *testing.T) {
	c, f := dragonflyCore(t, 3, 2, 2)
	tables := map[fabric.NodeID][]Entry{}
	for i := range f.ToRs() {
		tables[f.ToRID(i)] = c.Desired(f.ToRID(i))
	}
	for h := range fabric.NodeID(f.Hosts()) {
		addr, dst := AddrValue(f.HostAddr4(h)).Lo, f.ToROf(h)
		for i := range f.ToRs() {
			src := f.ToRID(i)
			for _, l := range append(f.PathLabels(src, dst), f.LabelSpan()) {
				labelled := l < f.LabelSpan()
				want := []fabric.Hop{}
				if src != dst {
					path := l
					if !labelled {
						path = f.Minimal()
					}
					want, _ = f.Path(want, src, dst, path)
				}
				at := src
				for k := 0; at != h; k++ {
					port, ok := next(tables[at], addr, l, labelled, 0)
					if !ok || k > len(want) || k < len(want) && (want[k].From != at || want[k].Port != port) {
						t.Fatalf("%s to %s, label %d: at %s port %d, %v; want %v", f.Name(src), f.Name(h), l, f.Name(at), port, ok, want)
					}
					at = f.Link(f.Node(at).Link(port)).Peer(at).Node
				}
			}
		}
	}
}

// TestDragonflyRefusals: what needs tiers is refused by name.
func TestDragonflyRefusals(t *testing.T) {
	_, f := dragonflyCore(t, 3, 2, 2)
	for field, edit := range map[string]func(*Config){
		"balancer": func(c *Config) { c.Balancer = Balancing{Rule: RandomSpray} },
		"segments": func(c *Config) { c.CarrierV4, c.CarrierV6 = NoCarrier, MicroSegments },
	} {
		cfg := Config{Fabric: f, CarrierV4: UDPSourcePort}
		edit(&cfg)
		if err := cfg.Validate(); err == nil {
			t.Errorf("%s: accepted", field)
		}
	}
}

// connected returns the ToRs that live links join to a ToR.
func connected(c *Core, f *fabric.Fabric, from fabric.NodeID) map[fabric.NodeID]bool {
	seen := map[fabric.NodeID]bool{from: true}
	for queue := []fabric.NodeID{from}; len(queue) > 0; queue = queue[1:] {
		n := f.Node(queue[0])
		_, hosts := f.HostsOf(n.ID)
		for p := fabric.PortNo(hosts + 1); int(p) <= n.Ports(); p++ {
			peer := f.Link(n.Link(p)).Peer(n.ID).Node
			if c.LinkUp(n.Link(p)) && !seen[peer] {
				seen[peer] = true
				queue = append(queue, peer)
			}
		}
	}
	return seen
}

// follow returns the ToRs that a packet passes until it is delivered or dropped, or has passed 40.
func follow(c *Core, f *fabric.Fabric, tables map[fabric.NodeID][]Entry, src, h fabric.NodeID, l fabric.Label, labelled bool) (passed []fabric.NodeID, delivered bool) {
	addr := AddrValue(f.HostAddr4(h)).Lo
	for at := src; len(passed) < 40; {
		passed = append(passed, at)
		port, ok := next(tables[at], addr, l, labelled, rand.IntN(64))
		if !ok {
			return passed, false
		}
		id := f.Node(at).Link(port)
		if !c.LinkUp(id) {
			return passed, false
		}
		if at = f.Link(id).Peer(at).Node; at == h {
			return passed, true
		}
	}
	return passed, false
}

// TestDragonflyDetours: with any dead links, a packet without label reaches each ToR that live links reach, and passes
// none twice; one whose label's path is live arrives, along that path unless its pods are split. One that does not
// arrive has the label of a pod whose own link to the destination's pod is dead. The writes of each change lead to the
// desired tables, and are empty after all links are back.
func TestDragonflyDetours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, f := dragonflyCore(t, rapid.IntRange(1, 4).Draw(t, "ToRs"), rapid.IntRange(1, 3).Draw(t, "global"), 1)
		tables, whole := map[fabric.NodeID][]Entry{}, map[fabric.NodeID][]Entry{}
		for i := range f.ToRs() {
			tables[f.ToRID(i)] = c.Desired(f.ToRID(i))
			whole[f.ToRID(i)] = tables[f.ToRID(i)]
		}
		set := func(links []int, up bool) {
			for _, i := range links {
				a := f.Link(fabric.LinkID(i)).A
				if err := c.PortState(0, a.Node, a.Port, up); err != nil {
					t.Fatal(err)
				}
			}
			for _, d := range c.Ready().Writes {
				tables[d.Node] = patch(t, tables[d.Node], d.Updates)
			}
			for id, es := range tables {
				if !slices.EqualFunc(es, c.Desired(id), Entry.Equal) {
					t.Fatalf("%s has %v, want %v", f.Name(id), es, c.Desired(id))
				}
			}
		}
		dead := rapid.SliceOfNDistinct(rapid.IntRange(f.HostLinks(), f.Links()-1), 0, 5, rapid.ID[int]).Draw(t, "dead")
		set(dead, false)
		for i := range f.ToRs() {
			checkDetours(t, c, f, tables, f.ToRID(i))
		}
		set(dead, true)
		for id, es := range tables {
			if !slices.EqualFunc(es, whole[id], Entry.Equal) {
				t.Fatalf("%s has not its first tables again", f.Name(id))
			}
		}
	})
}

// patch carries out updates.
func patch(t *rapid.T, es []Entry, us []Update) []Entry {
	out := slices.Clone(es)
	for _, u := range us {
		i, found := slices.BinarySearchFunc(out, u.Entry.Key, func(e Entry, k Key) int { return e.Compare(k) })
		switch {
		case found == (u.Op == Insert):
			t.Fatalf("%v: present %v", u, found)
		case u.Op == Insert:
			out = slices.Insert(out, i, u.Entry)
		case u.Op == Delete:
			out = slices.Delete(out, i, i+1)
		default:
			out[i] = u.Entry
		}
	}
	return out
}

// checkThird checks a packet with the label of a pod: it arrives unless that pod has lost its link to the destination's
// pod, or this is split. Only such a packet may circulate.
func checkThird(t *rapid.T, f *fabric.Fabric, tables map[fabric.NodeID][]Entry, c *Core, src, h fabric.NodeID, via int) {
	passed, ok := follow(c, f, tables, src, h, f.LabelFor(via, 0), true)
	to := f.Node(f.ToROf(h)).Pod
	excused := c.detoursOf(c.now).split[to] || via != to && !c.LinkUp(f.GlobalLink(via, to))
	if !ok && !excused {
		t.Fatalf("%s to %s through pod %d: passes %v, and does not arrive", f.Name(src), f.Name(h), via, passed)
	}
}

// checkMinimal checks that a packet with the label of the minimal path goes as one without label, also as an ACK.
func checkMinimal(t *rapid.T, f *fabric.Fabric, tables map[fabric.NodeID][]Entry, c *Core, src, h fabric.NodeID, reached bool) {
	passed, ok := follow(c, f, tables, src, h, f.Minimal(), true)
	once := slices.Compact(slices.Sorted(slices.Values(passed)))
	if len(once) < len(passed) || ok != reached {
		t.Fatalf("%s to %s by the minimal path: passes %v, delivered %v, joined %v", f.Name(src), f.Name(h), passed, ok, reached)
	}
}

func checkDetours(t *rapid.T, c *Core, f *fabric.Fabric, tables map[fabric.NodeID][]Entry, src fabric.NodeID) {
	reached := connected(c, f, src)
	for h := range fabric.NodeID(f.Hosts()) {
		dst := f.ToROf(h)
		passed, ok := follow(c, f, tables, src, h, 0, false)
		seen := map[fabric.NodeID]bool{}
		for _, n := range passed {
			if seen[n] {
				t.Fatalf("%s to %s: a loop, %v", f.Name(src), f.Name(h), passed)
			}
			seen[n] = true
		}
		if ok != reached[dst] {
			t.Fatalf("%s to %s: passes %v, delivered %v, joined %v", f.Name(src), f.Name(h), passed, ok, reached[dst])
		}
		checkMinimal(t, f, tables, c, src, h, reached[dst])
		for via := range f.Spec().Pods { // also the source's own and the destination's
			if reached[dst] {
				checkThird(t, f, tables, c, src, h, via)
			}
		}
		for _, l := range f.PathLabels(src, dst) {
			hops, _ := f.Path(nil, src, dst, l)
			if slices.ContainsFunc(hops, func(x fabric.Hop) bool { return !c.LinkUp(x.Link) }) {
				continue
			}
			passed, ok := follow(c, f, tables, src, h, l, true)
			via, _ := f.Through(l, dst)
			x := c.detoursOf(c.now)
			if split := x.split[via] || x.split[f.Node(dst).Pod]; !ok || !split && len(passed) != len(hops)+1 {
				t.Fatalf("%s to %s by label %d: passes %v, delivered %v, want %v", f.Name(src), f.Name(h), l, passed, ok, hops)
			}
		}
	}
}

// TestDragonflyDrain: a link is drained unless it is the last between some ToRs.
func TestDragonflyDrain(t *testing.T) {
	c, f := dragonflyCore(t, 1, 2, 1) // three ToRs in a ring
	first, second := fabric.LinkID(f.HostLinks()), fabric.LinkID(f.HostLinks()+1)
	if _, _, cut := c.SeveredToRs([]fabric.LinkID{first}); cut {
		t.Error("one link of a ring parts it")
	}
	if err := c.Drain(0, first, true); err != nil || len(c.Ready().Writes) != 2 {
		t.Errorf("drain: %v, or not the tables of both ends change", err)
	}
	if _, _, cut := c.SeveredToRs([]fabric.LinkID{second}); !cut {
		t.Error("the second link does not part the ring")
	}
}
