package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/goldentest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

func TestTopoGolden(t *testing.T) {
	for golden, args := range map[string]string{
		"fat-tree.yaml":   "",
		"leaf-spine.yaml": "--kind leaf-spine --tors 2 --spines 2 --hosts-per-tor 1 --rate 1.6Tb/s --delay 300ns",
		"leaf-spine.json": "--kind leaf-spine --tors 2 --spines 2 --hosts-per-tor 1 -o json",
		"leaf-spine.dot":  "--kind leaf-spine --tors 2 --spines 2 --hosts-per-tor 1 -o dot",
	} {
		code, got, stderr := call(t, &fake{}, append([]string{"topo"}, strings.Fields(args)...)...)
		if code != exitOK {
			t.Fatalf("%s: %s", golden, stderr)
		}
		goldentest.Compare(t, filepath.Join("testdata", golden), got)
	}
}

// TestTopoYAMLIsReadBack feeds the YAML to --fabric: the same fabric.
func TestTopoYAMLIsReadBack(t *testing.T) {
	for _, args := range []string{"--k 8", "--kind leaf-spine --tors 4 --spines 3 --hosts-per-tor 5",
		"--pods 3 --tors-per-pod 2 --aggs-per-pod 2 --core-switches 6 --hosts-per-tor 4 --rate 100Gb/s", "--scenario " + demo} {
		code, first, stderr := call(t, &fake{}, append([]string{"topo"}, strings.Fields(args)...)...)
		if code != exitOK {
			t.Fatalf("%s: %s", args, stderr)
		}
		path := filepath.Join(t.TempDir(), "fabric.yaml")
		if err := os.WriteFile(path, []byte(first), 0o644); err != nil {
			t.Fatal(err)
		}
		code, second, stderr := call(t, &fake{}, "topo", "--fabric", path)
		if code != exitOK || first != second {
			t.Errorf("%s: code %d %s (-first +second):\n%s", args, code, stderr, cmp.Diff(first, second))
		}
	}
}

// TestTopoJSON checks the JSON against the fabric: every link joins the ports
// that name it, and labels are those of the paths between the farthest ToRs.
func TestTopoJSON(t *testing.T) {
	code, out, stderr := call(t, &fake{}, "topo", "--scenario", demo, "-o", "json")
	if code != exitOK {
		t.Fatal(stderr)
	}
	var got topology
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Load(demo)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.New(s.Fabric)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Nodes) != f.Nodes() || len(got.Links) != f.Links() {
		t.Fatalf("%d nodes and %d links, want %d and %d", len(got.Nodes), len(got.Links), f.Nodes(), f.Links())
	}
	byName := map[string]topologyNode{}
	for _, n := range got.Nodes {
		byName[n.Name] = n
		if (n.IPv4 != nil) != (n.Tier == "host") || (n.Prefix4 != nil) != (n.Tier == "tor") {
			t.Errorf("%s: a %s with host address %v and prefix %v", n.Name, n.Tier, n.IPv4, n.Prefix4)
		}
		if n.IPv4 != nil {
			if id, ok := f.HostByAddr(*n.IPv6); !ok || id != n.ID {
				t.Errorf("%s: address %v is %v's", n.Name, n.IPv6, id)
			}
		}
	}
	for _, l := range got.Links {
		for _, e := range [][2]topologyEnd{{l.A, l.B}, {l.B, l.A}} {
			p := byName[e[0].Node].Ports[e[0].Port-1]
			if p.Link != l.Name || p.Peer != e[1].Node || p.PeerPort != e[1].Port || p.Up != (e[0] == l.A) {
				t.Errorf("link %s ends at port %+v of %s", l.Name, p, e[0].Node)
			}
		}
	}
	var labels []fabric.Label
	for _, l := range got.Labels {
		labels = append(labels, l.Label)
		if want := f.LabelFor(*l.ToRUplink, *l.AggUplink); l.Label != want {
			t.Errorf("label %d, want %d for uplinks %d and %d", l.Label, want, *l.ToRUplink, *l.AggUplink)
		}
	}
	if d := cmp.Diff(f.PathLabels(f.ToRID(0), f.ToRID(7)), labels); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
}

func TestGraphvizReadsDOT(t *testing.T) {
	dot := systemtest.Program(t, "dot", "", "apt-get install graphviz")
	_, out, _ := call(t, &fake{}, "topo", "-o", "dot")
	c := exec.Command(dot, "-Tplain")
	c.Stdin = strings.NewReader(out)
	plain, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, plain)
	}
	if n := strings.Count(string(plain), "\nedge "); n != 48 {
		t.Errorf("Graphviz sees %d edges, want 48", n)
	}
}
