package controller_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestNamed: every table of a switch has a name.
func TestNamed(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	core, err := controller.New(controller.Config{Fabric: f, CarrierV4: controller.UDPSourcePort})
	if err != nil {
		t.Fatal(err)
	}
	for name, wants := range map[string][]string{
		"tor0": {
			"route_v4: h1 10.0.0.3/32: deliver to h1 by port 2", "route_v4: all others 0.0.0.0/0: forward_up group 0",
			"ecmp: group 0: take_uplink one of: to agg0 by port 3; to agg1 by port 4", "source_route: label 0x0000/0x3ffe: take_uplink to agg0 by port 3",
		},
		"agg0":  {"route_v4: hosts of tor1 10.0.1.0/24: forward_down to tor1 by port 2"},
		"core0": {"route_v4: hosts of pod 2 10.2.0.0/16: forward_down to agg4 by port 3"},
	} {
		id, err := f.NodeByName(name)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, e := range core.Desired(id) {
			key, does := e.Named(f, id)
			if key == "" || does == "" {
				t.Errorf("%s: %v has key %q and does %q", name, e, key, does)
			}
			lines = append(lines, e.Table.String()+": "+key+": "+does)
		}
		for _, want := range wants {
			if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, want) }) {
				t.Errorf("%s: no %q in\n%s", name, want, strings.Join(lines, "\n"))
			}
		}
	}
}
