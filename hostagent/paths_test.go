package hostagent

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
)

var specs = []fabric.Spec{
	{Kind: fabric.KindFatTree, K: 4},
	{Kind: fabric.KindFatTree, Pods: 3, ToRsPerPod: 2, AggsPerPod: 3, Cores: 6, HostsPerToR: 2},
	{Kind: fabric.KindFatTree, Pods: 8, ToRsPerPod: 4, AggsPerPod: 4, Cores: 16, HostsPerToR: 16},
	{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 5, HostsPerToR: 2},
	{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 3, HostsPerToR: 3, Planes: 2},
	{Kind: fabric.KindFatTree, Pods: 3, ToRsPerPod: 2, AggsPerPod: 3, Cores: 6, HostsPerToR: 2, Planes: 3},
}

func mustFabric(t testing.TB, s fabric.Spec) *fabric.Fabric {
	t.Helper()
	f, err := fabric.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mustCore(t testing.TB, cfg Config) *Core {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestOver checks the closed form of which paths cross a link, and in which
// direction, against the fabric's own walk of every path.
func TestOver(t *testing.T) {
	var fabrics []*fabric.Fabric
	for _, s := range specs {
		fabrics = append(fabrics, mustFabric(t, s))
	}
	rapid.Check(t, func(rt *rapid.T) {
		f := rapid.SampledFrom(fabrics).Draw(rt, "fabric")
		host := fabric.NodeID(rapid.IntRange(0, f.Hosts()-1).Draw(rt, "host"))
		c := mustCore(t, Config{Fabric: f, Host: host, Uplinks: rapid.IntRange(0, 3).Draw(rt, "uplinks")})
		to := fabric.NodeID(rapid.IntRange(0, f.Hosts()-1).Draw(rt, "to"))
		tor := f.ToROf(to)
		if to == host || !c.hasPathChoice(to) {
			return
		}
		d := c.destination(tor, to)
		labels := f.PathLabels(c.tor, tor)
		if c.usedPerToR == f.ToRUplinks() && len(labels) != d.paths {
			rt.Fatalf("%d paths, want %d", d.paths, len(labels))
		}
		labels = labels[:0]
		for p := range d.paths {
			labels = append(labels, c.label(d, p))
		}
		for link := range fabric.LinkID(f.Links()) {
			over := make(map[int]bool)
			s, ok := c.pathsOver(d, link)
			if ok {
				d.eachPath(s, func(p int) { over[p] = true })
			}
			for p, l := range labels {
				if q, ok := c.pathOf(d, l); !ok || q != p {
					rt.Fatalf("label %d is path %d %v, want %d", l, q, ok, p)
				}
				hops, _ := f.HostPath(nil, host, to, l)
				want := slices.ContainsFunc(hops, func(h fabric.Hop) bool { return h.Link == link }) &&
					(f.Planes() > 1 || int(link) >= f.Hosts())
				if over[p] != want {
					rt.Fatalf("%s to %s: label %d over %s: %v, want %v", f.Name(host), f.Name(tor), l, f.LinkName(link), over[p], want)
				}
				for _, h := range hops {
					if h.Link != link || !want {
						continue
					}
					if far := f.Link(link).Peer(h.From).Node; !c.leavesSwitchBy(d, link, h.From) || c.leavesSwitchBy(d, link, far) {
						rt.Fatalf("%s to %s over %s: want it left by %s alone", f.Name(host), f.Name(tor), f.LinkName(link), f.Name(h.From))
					}
				}
			}
		}
	})
}
