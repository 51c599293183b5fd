package virtual

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestFlows: a message alone takes its time alone, and the window of a batch. Two to one receiver take twice as long.
func TestFlows(t *testing.T) {
	for _, c := range []struct {
		flows     string
		least, at float64 // slowdowns
	}{
		{"{from: 0, to: 1, bytes: 100B}", 1, 1.2},
		{"{from: 0, to: 2, bytes: 100B}", 1, 1.2},
		{"{from: 0, to: 15, bytes: 9001B}", 1, 1.2},
		{"{from: 0, to: 15, bytes: 18001B}", 1, 1.2},
		{"{from: 0, to: 1, bytes: 10MB}", 1, 1.002},
		{"{from: 0, to: 15, bytes: 10MB}", 1, 1.002},
		{"{from: 0, to: 15, bytes: 10MB}, {from: 1, to: 15, bytes: 10MB}", 1.9, 3},
	} {
		path := filepath.Join(t.TempDir(), "w.yaml")
		if err := os.WriteFile(path, []byte("flows: ["+c.flows+"]"), 0o666); err != nil {
			t.Fatal(err)
		}
		s := scenario.Default()
		s.Name, s.Fabric = "flows", fabric.Spec{Kind: fabric.KindFatTree, K: 4}
		s.Collectives, s.Schemes = []scenario.Collective{{Kind: scenario.Workload, File: path}}, []scenario.Scheme{{Name: scenario.ECMP}}
		runs, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		r, err := newLab(t).Run(t.Context(), runs[0], scenario.Observer{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Flows == nil || r.Flows.Slowdown.P50 < c.least || r.Flows.Slowdown.Max > c.at {
			t.Errorf("%s: %+v", c.flows, r.Flows.Slowdown)
		}
	}
}
