package containerlab

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/goldentest"
)

func fabricOf(t *testing.T, s fabric.Spec) *fabric.Fabric {
	t.Helper()
	f, err := fabric.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestCut: links cross only above what stays whole, and no more of them than must: each core or spine keeps the machine to which most
// of its links go.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		spec              fabric.Spec
		machines, crosses int
	}{
		{fabric.Spec{Kind: fabric.KindFatTree, K: 4}, 1, 0},
		{fabric.Spec{Kind: fabric.KindFatTree, K: 4}, 2, 8}, // two of the four links of each of four cores
		{fabric.Spec{Kind: fabric.KindFatTree, K: 4}, 4, 12},
		{fabric.Spec{Kind: fabric.KindFatTree, K: 8}, 3, 16 * 5}, // pods 3, 3, 2: each of 16 cores keeps 3 of 8 links
		{fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 2, HostsPerToR: 2}, 2, 4},
	} {
		f := fabricOf(t, c.spec)
		at, err := Cut(f, c.machines)
		if err != nil {
			t.Fatal(err)
		}
		crossing := Crossing(f, at)
		if len(crossing) != c.crosses {
			t.Errorf("%+v on %d machines: %d links cross, want %d", c.spec, c.machines, len(crossing), c.crosses)
		}
		used := map[int]bool{}
		for _, m := range at {
			used[m] = true
		}
		if len(used) != c.machines {
			t.Errorf("%+v: %d of %d machines have nodes", c.spec, len(used), c.machines)
		}
		for _, l := range crossing {
			if int(f.Link(l).A.Node) < f.Hosts() || int(f.Link(l).B.Node) < f.Hosts() {
				t.Errorf("%s crosses: a host is not with its ToR", f.LinkName(l))
			}
		}
	}
	f := fabricOf(t, fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	for _, n := range []int{0, 5} {
		if _, err := Cut(f, n); err == nil {
			t.Errorf("%d machines for four pods", n)
		}
	}
}

// TestWrite holds the files of a small fabric; .ci/containerlab has containerlab's own parser read them. Every link stands once as a
// pair of interfaces or twice as a tunnel of one number, and the controller reads its files.
func TestWrite(t *testing.T) {
	f := fabricOf(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1})
	c := Config{Fabric: f, Name: "small", Image: "ethereal:1", MTU: 1450}
	for i := range 2 {
		c.Addresses = append(c.Addresses, netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", i+1)))
	}
	dir := t.TempDir()
	if _, err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 5 {
		t.Fatalf("files %v, %v", names, err)
	}
	pairs, tunnels, nodes := 0, map[int]int{}, 0
	for _, name := range names {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		goldentest.Compare(t, filepath.Join("testdata", filepath.Base(name)), got)
		if !strings.HasSuffix(name, ".clab.yml") {
			continue
		}
		var l lab
		if err := yaml.Unmarshal(got, &l); err != nil {
			t.Fatal(err)
		}
		nodes += len(l.Topology.Nodes)
		for _, k := range l.Topology.Links {
			if k.Type == "veth" {
				pairs++
			} else {
				tunnels[k.VNI]++
			}
		}
	}
	for vni, n := range tunnels {
		if n != 2 {
			t.Errorf("tunnel %d has %d ends", vni, n)
		}
	}
	if pairs+len(tunnels) != f.Links() || nodes != f.Nodes()+1 {
		t.Errorf("%d pairs, %d tunnels, %d nodes; want %d links, %d nodes and a controller", pairs, len(tunnels), nodes, f.Links(), f.Nodes())
	}
	if spec, err := fabric.LoadSpec(filepath.Join(dir, "fabric.yaml")); err != nil || spec != f.Spec() {
		t.Errorf("fabric.yaml: %+v, %v", spec, err)
	}
	file, err := daemon.ReadFile(filepath.Join(dir, "targets.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := daemon.Config{Core: controller.Config{Fabric: f}}
	if err := file.Apply(&cfg); err != nil || len(cfg.Targets) != f.Switches() {
		t.Errorf("targets.yaml: %d targets, %v", len(cfg.Targets), err)
	}
	c.Addresses[1] = c.Addresses[0]
	if _, err := c.Write(dir); err == nil {
		t.Error("two machines of one address")
	}
}
