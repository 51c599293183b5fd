package hostagent

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
)

var specs = []fabric.Spec{
	{Kind: fabric.KindFatTree, K: 4},
	{Kind: fabric.KindFatTree, Pods: 3, ToRsPerPod: 2, AggsPerPod: 3, Cores: 6, HostsPerToR: 2},
	{Kind: fabric.KindFatTree, Pods: 8, ToRsPerPod: 4, AggsPerPod: 4, Cores: 16, HostsPerToR: 16},
	{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 5, HostsPerToR: 2},
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
		c := mustCore(t, Config{Fabric: f, Host: host})
		tor := f.ToRID(rapid.IntRange(0, f.ToRs()-1).Draw(rt, "tor"))
		if tor == c.tor {
			return
		}
		d := c.destination(tor)
		labels := f.PathLabels(c.tor, tor)
		if len(labels) != d.paths {
			rt.Fatalf("%d paths, want %d", d.paths, len(labels))
		}
		for link := range fabric.LinkID(f.Links()) {
			over := make(map[int]bool)
			s, ok := c.over(d, link)
			if ok {
				d.each(s, func(p int) { over[p] = true })
			}
			for p, l := range labels {
				if c.label(d, p) != l {
					rt.Fatalf("path %d has label %d, want %d", p, c.label(d, p), l)
				}
				if q, ok := c.pathOf(d, l); !ok || q != p {
					rt.Fatalf("label %d is path %d %v, want %d", l, q, ok, p)
				}
				if want := f.PathUses(c.tor, tor, l, link); over[p] != want {
					rt.Fatalf("%s to %s: label %d over %s: %v, want %v", f.Name(host), f.Name(tor), l, f.LinkName(link), over[p], want)
				}
				hops, _ := f.Path(nil, c.tor, tor, l)
				for _, h := range hops {
					if h.Link != link {
						continue
					}
					if far := f.Link(link).Peer(h.From).Node; !c.leaves(d, link, h.From) || c.leaves(d, link, far) {
						rt.Fatalf("%s to %s over %s: want it left by %s alone", f.Name(host), f.Name(tor), f.LinkName(link), f.Name(h.From))
					}
				}
			}
		}
	})
}
