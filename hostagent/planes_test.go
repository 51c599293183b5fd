package hostagent

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// With planes a host goes on towards a peer by all ways that no dead link is on, the ports of both among them, and by
// no other: a peer's port is no reason against its neighbours.
func TestPlanesGoodPaths(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := mustFabric(t, specs[rapid.SampledFrom([]int{4, 5}).Draw(rt, "fabric")])
		host := fabric.NodeID(rapid.IntRange(0, f.Hosts()-1).Draw(rt, "host"))
		c := mustCore(t, Config{Fabric: f, Host: host, Uplinks: rapid.IntRange(0, 2).Draw(rt, "uplinks")})
		post := func(peer fabric.NodeID) {
			if err := c.Post(0, []Flow{{Dst: peer, Bytes: 1000}}); err != nil {
				rt.Fatal(err)
			}
		}
		for peer := range fabric.NodeID(f.Hosts()) {
			if peer != host && rapid.Bool().Draw(rt, "sends") {
				post(peer)
			}
		}
		down := map[fabric.LinkID]bool{}
		for epoch := uint64(1); epoch <= 4; epoch++ {
			link := fabric.LinkID(rapid.IntRange(0, f.Links()-1).Draw(rt, "link"))
			if down[link] = !down[link]; !down[link] {
				delete(down, link)
			}
			c.Update(fabric.Time(epoch), &statepb.Update{Epoch: epoch, Instance: "one", Snapshot: epoch == 1, Links: []*statepb.LinkState{
				{Link: uint32(link), Up: !down[link], Epoch: epoch},
			}})
			checkInvariants(rt, c)
			for peer := range fabric.NodeID(f.Hosts()) {
				if peer != host {
					checkGoodPaths(rt, c, peer, down)
				}
			}
		}
		for range 2 { // what is sent then goes that way, and what was sent is on it
			post((host + 1) % fabric.NodeID(f.Hosts()))
		}
		checkInvariants(rt, c)
	})
}

func checkGoodPaths(rt *rapid.T, c *Core, peer fabric.NodeID, down map[fabric.LinkID]bool) {
	d := c.towards(peer)
	var want []fabric.Label
	for p := range d.paths {
		hops, _ := c.fabric.HostPath(nil, c.cfg.Host, peer, c.label(d, p))
		if !slices.ContainsFunc(hops, func(h fabric.Hop) bool { return down[h.Link] }) {
			want = append(want, c.label(d, p))
		}
	}
	if got := c.GoodPaths(peer); len(want) > 0 && !slices.Equal(got, want) {
		rt.Fatalf("host %d to %d with %v down: paths %v, want %v", c.cfg.Host, peer, down, got, want)
	}
	if len(want) == 0 {
		return // the last good one is kept
	}
	for p := d.first; p != nil; p = p.next {
		if p.host == peer && !slices.Contains(want, c.label(d, int(p.path))) {
			rt.Fatalf("a queue pair to %d stays on label %d with %v down", peer, c.label(d, int(p.path)), down)
		}
	}
}

// The hosts of a rack that use a share of its uplinks use each of them equally often, in each plane.
func TestShares(t *testing.T) {
	f := mustFabric(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 8, HostsPerToR: 16, Planes: 3})
	for _, share := range []int{1, 2, 3, 4, 8} {
		uses := map[fabric.Label]int{}
		for host := range fabric.NodeID(16) {
			c := mustCore(t, Config{Fabric: f, Host: host, Uplinks: share})
			for _, l := range c.GoodPaths(16) {
				uses[l]++
			}
		}
		for _, l := range f.PathLabels(f.ToRID(0), f.ToRID(1)) {
			if uses[l] != 16*share/8 {
				t.Errorf("%d uplinks each: label %d is used by %d hosts of 16, want %d", share, l, uses[l], 16*share/8)
			}
		}
	}
}

// Of flows of equal size every uplink used gets the same, and so does every port of each host that they go to.
func TestPlanesSplit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := mustFabric(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 4, HostsPerToR: 8, Planes: rapid.IntRange(2, 5).Draw(rt, "planes")})
		c := mustCore(t, Config{Fabric: f, Host: 0, Uplinks: rapid.SampledFrom([]int{0, 1, 2, 3}).Draw(rt, "uplinks")})
		const size = 5 * 4 * 3 * 2 * 1000
		var batch []Flow
		for _, to := range rapid.SliceOfN(rapid.IntRange(1, f.Hosts()-1), 1, 30).Draw(rt, "to") {
			batch = append(batch, Flow{ID: uint64(len(batch)), Dst: fabric.NodeID(to), Bytes: size})
		}
		if err := c.Post(0, batch); err != nil {
			rt.Fatal(err)
		}
		sent := map[uint64]int64{}
		ports := map[fabric.NodeID]map[int]int64{}
		labels := map[fabric.NodeID]map[fabric.Label]int64{} // by ToR
		for _, p := range c.Ready().Open {
			sent[p.Flow] += p.Bytes
			tor := f.ToROf(p.Dst)
			if ports[p.Dst] == nil {
				ports[p.Dst] = map[int]int64{}
			}
			if labels[tor] == nil {
				labels[tor] = map[fabric.Label]int64{}
			}
			ports[p.Dst][f.PlaneOf(p.Label)] += p.Bytes
			labels[tor][p.Label] += p.Bytes
		}
		for i := range batch {
			if sent[uint64(i)] != size {
				rt.Fatalf("of flow %d %d bytes of %d are sent", i, sent[uint64(i)], size)
			}
		}
		for host, by := range ports {
			for q, n := range by {
				if n != by[0] || len(by) != f.Planes() {
					rt.Fatalf("host %d gets %v, by plane: plane %d is not as plane 0", host, by, q)
				}
			}
		}
		for tor, by := range labels {
			for l, n := range by {
				if first := by[c.label(c.lookup(tor, wholeRack), 0)]; max(n-first, first-n) > int64(len(batch)*f.Planes()*4) {
					rt.Fatalf("to %s: %v, by label: %d is not as the first", f.Name(tor), by, l)
				}
			}
		}
	})
}

// What Theorem 1 over all uplinks of a rack, whatever their plane, would do to the ports of who receives, in an
// all-to-all.
func TestPlanesNeedMore(t *testing.T) {
	f := mustFabric(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 4, HostsPerToR: 4, Planes: 2})
	const size = 1 << 20
	alone, dealt := make(map[fabric.LinkID]int64), make(map[fabric.LinkID]int64)
	for host := range fabric.NodeID(f.Hosts()) {
		c := mustCore(t, Config{Fabric: f, Host: host, Seed: 1})
		var batch []Flow
		for to := range fabric.NodeID(f.Hosts()) {
			if to != host {
				batch = append(batch, Flow{Dst: to, Bytes: size})
			}
		}
		if err := c.Post(0, batch); err != nil {
			t.Fatal(err)
		}
		for _, p := range c.Ready().Open {
			dealt[f.HostLink(p.Dst, f.PlaneOf(p.Label))] += p.Bytes
		}
		for r := range f.Racks() {
			var to []fabric.NodeID
			for _, flow := range batch {
				if f.ToROf(flow.Dst) == f.ToRID(r) {
					to = append(to, flow.Dst)
				}
			}
			labels := f.PathLabels(c.tor, f.ToRID(r))
			shuffle(c.rng, to)
			shuffle(c.rng, labels)
			for _, cut := range Split(nil, slices.Repeat([]int64{size}, len(to)), len(labels)) {
				alone[f.HostLink(to[cut.Flow], f.PlaneOf(labels[cut.Path]))] += cut.Bytes
			}
		}
	}
	worst := func(ports map[fabric.LinkID]int64) (over float64) {
		for _, n := range ports {
			over = max(over, float64(n)/(size*float64(f.Hosts()-1)/float64(f.Planes()))-1)
		}
		return over
	}
	t.Logf("the fullest port of a receiver has %.1f %% too much by Theorem 1 over all uplinks, %.1f %% by planes first",
		100*worst(alone), 100*worst(dealt))
	if worst(alone) < 0.1 || worst(dealt) != 0 {
		t.Errorf("%.3f and %.3f, want more than a tenth, and none", worst(alone), worst(dealt))
	}
}

// TestWitnessesOfAllPlanes: whichever path is asked, the first other path that is asked beside it is in another plane,
// since the peer's port to a plane may be dead.
func TestWitnessesOfAllPlanes(t *testing.T) {
	f := mustFabric(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 16, HostsPerToR: 2, Planes: 2})
	for peer := fabric.NodeID(1); int(peer) < f.Hosts(); peer++ {
		c := mustCore(t, Config{Fabric: f, Asks: true, StartJitter: -1})
		if err := c.Post(0, []Flow{{Dst: peer, Bytes: 4000000}}); err != nil {
			t.Fatal(err)
		}
		for _, o := range slices.Clone(c.Ready().Open) {
			c.Overdue(fabric.Millisecond, o.QP, Overdue{Since: fabric.Millisecond})
			ask := c.Ready().Ask // two by the path and one by another
			if len(ask) != 3 || f.PlaneOf(ask[2].Label) == f.PlaneOf(ask[0].Label) {
				t.Errorf("to h%d: asked %v", peer, ask)
			}
		}
	}
}
