// Package containerlab has containerlab's own parser read the topologies that ethereal writes. It is a module of its
// own: the program needs none of it.
package containerlab

import (
	"fmt"
	"os"
	"testing"

	"github.com/google/shlex"
	"github.com/srl-labs/containerlab/links"
	"github.com/srl-labs/containerlab/types"
	"gopkg.in/yaml.v2"
)

// config is containerlab's core.Config, whose package brings all container runtimes along.
type config struct {
	Name     string          `yaml:"name"`
	Prefix   *string         `yaml:"prefix"`
	Mgmt     *types.MgmtNet  `yaml:"mgmt"`
	Settings *types.Settings `yaml:"settings"`
	Topology *types.Topology `yaml:"topology"`
}

// TestTopologies reads the files that package containerlab's own test holds, as containerlab does: unknown keys are
// refused.
func TestTopologies(t *testing.T) {
	tunnels := map[int][]string{}
	pairs, nodes := 0, 0
	for m := range 2 {
		text, err := os.ReadFile(fmt.Sprintf("../../testbed/containerlab/testdata/small-%d.clab.yml", m))
		if err != nil {
			t.Fatal(err)
		}
		c := &config{Topology: types.NewTopology()}
		if err := yaml.UnmarshalStrict(text, c); err != nil {
			t.Fatal(err)
		}
		nodes += len(c.Topology.Nodes)
		for name := range c.Topology.Nodes {
			if kind := c.Topology.GetNodeKind(name); kind != "linux" {
				t.Errorf("%s is of kind %q", name, kind)
			}
			if image := c.Topology.GetNodeImage(name); image != "ethereal:1" {
				t.Errorf("%s has image %q", name, image)
			}
			if words, err := shlex.Split(c.Topology.GetNodeCmd(name)); err != nil || len(words) < 5 {
				t.Errorf("%s: command %q, %v", name, words, err)
			}
			if _, bindings, err := c.Topology.GetNodePorts(name); err != nil || len(bindings) == 0 {
				t.Errorf("%s: ports %v, %v", name, bindings, err)
			}
		}
		for _, d := range c.Topology.Links {
			switch l := d.Link.(type) {
			case *links.LinkVEthRaw:
				pairs++
				for _, e := range l.Endpoints {
					if c.Topology.Nodes[e.Node] == nil {
						t.Errorf("a link ends at %s, which is not on machine %d", e.Node, m)
					}
				}
			case *links.LinkVxlanRaw:
				tunnels[l.VNI] = append(tunnels[l.VNI], l.Remote)
				if c.Topology.Nodes[l.Endpoint.Node] == nil || l.LinkType != links.LinkTypeVxlan {
					t.Errorf("tunnel %d: %+v", l.VNI, l)
				}
			default:
				t.Errorf("a link is a %T", l)
			}
		}
	}
	for vni, remotes := range tunnels {
		if len(remotes) != 2 || remotes[0] == remotes[1] {
			t.Errorf("tunnel %d leads to %v", vni, remotes)
		}
	}
	if pairs != 4 || len(tunnels) != 2 || nodes != 7 {
		t.Errorf("%d pairs, %d tunnels, %d nodes; want 4, 2 and 7", pairs, len(tunnels), nodes)
	}
}
