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
	"github.com/ethereal-fabric/ethereal/internal/goldentest"
)

func fabricOf(t *testing.T, s fabric.Spec) *fabric.Fabric {
	t.Helper()
	f, err := fabric.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestWrite holds the files of a small fabric; .ci/containerlab has containerlab's own parser read them. Every link
// stands once as a pair of interfaces or twice as a tunnel of one number, and the controller reads its files.
func TestWrite(t *testing.T) {
	f := fabricOf(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1})
	c := Config{Fabric: f, Name: "small", Image: "ethereal:1", MTU: 1450}
	for i := range 2 {
		c.Addresses = append(c.Addresses, netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", i+1)))
	}
	dir := t.TempDir()
	if _, _, err := c.Write(dir); err != nil {
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
	if _, _, err := c.Write(dir); err == nil {
		t.Error("two machines of one address")
	}
}
