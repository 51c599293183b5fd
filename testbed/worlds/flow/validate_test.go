package flow_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/flow"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

func plan(t testing.TB, spec fabric.Spec, kind, algorithm string, bytes fabric.Bytes, schemeName string, seeds scenario.Seeds) []scenario.Run {
	t.Helper()
	s := scenario.Default()
	s.Name, s.Fabric, s.Seeds = "validation", spec, seeds
	s.Collectives = []scenario.Collective{{Kind: kind, Algorithm: algorithm, Bytes: bytes}}
	s.Schemes = []scenario.Scheme{{Name: schemeName}}
	s.Failures = []scenario.Failure{{Name: "healthy"}}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// The flow level agrees with packets, to within what docs/results/performance.md states,
// per scheme: the median of the completion times over the seeds.
func TestAgreesWithPackets(t *testing.T) {
	if testing.Short() {
		t.Skip("packet-level runs take seconds")
	}
	lab, err := virtual.NewLab()
	if err != nil {
		t.Fatal(err)
	}
	fatTree := fabric.Spec{Kind: fabric.KindFatTree, K: 4}
	leafSpine := fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 4, HostsPerToR: 4}
	planes := fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 4, HostsPerToR: 4, Planes: 2}
	for _, c := range []struct {
		name      string
		spec      fabric.Spec
		kind      string
		algorithm string
		scheme    string
		seeds     scenario.Seeds
		within    float64
	}{
		{"ethereal fat-tree all-to-all", fatTree, "all-to-all", "", "ethereal", scenario.Seeds{1}, 0.05},
		{"ethereal fat-tree halving-doubling", fatTree, "all-reduce", "halving-doubling", "ethereal", scenario.Seeds{1}, 0.05},
		{"ethereal leaf-spine direct", leafSpine, "all-reduce", "direct", "ethereal", scenario.Seeds{1}, 0.05},
		{"ethereal leaf-spine ring", leafSpine, "all-reduce", "ring", "ethereal", scenario.Seeds{1}, 0.06},
		{"ethereal planes all-to-all", planes, "all-to-all", "", "ethereal", scenario.Seeds{1}, 0.05},
		{"ethereal planes ring", planes, "all-reduce", "ring", "ethereal", scenario.Seeds{1}, 0.06},
		{"ethereal planes halving-doubling", planes, "all-reduce", "halving-doubling", "ethereal", scenario.Seeds{1}, 0.05},
		{"spray leaf-spine all-to-all", leafSpine, "all-to-all", "", "drb", scenario.Seeds{1}, 0.06},
		{"ecmp fat-tree all-to-all", fatTree, "all-to-all", "", "ecmp", scenario.Seeds{1, 2, 3, 4, 5}, 0.20},
		{"ecmp leaf-spine halving-doubling", leafSpine, "all-reduce", "halving-doubling", "ecmp", scenario.Seeds{1, 2, 3, 4, 5}, 0.25},
		{"mp-rdma leaf-spine all-to-all", leafSpine, "all-to-all", "", "mp-rdma", scenario.Seeds{1, 2, 3}, 0.20},
	} {
		t.Run(c.name, func(t *testing.T) {
			var flows, packets []float64
			for _, run := range plan(t, c.spec, c.kind, c.algorithm, 4e6, c.scheme, c.seeds) {
				f, err := flow.Run(context.Background(), run, scenario.Observer{})
				if err != nil {
					t.Fatal(err)
				}
				p, err := lab.Run(context.Background(), run, scenario.Observer{})
				if err != nil {
					t.Fatal(err)
				}
				if f.CCT == nil || p.CCT == nil {
					t.Fatalf("flow level %v, packets %v: not finished", f.End, p.End)
				}
				flows, packets = append(flows, *f.CCT), append(packets, *p.CCT)
			}
			f, p := median(flows), median(packets)
			t.Logf("flow level %.1f us, packets %.1f us: %+.1f %%", f, p, 100*(f/p-1))
			if math.Abs(f/p-1) > c.within {
				t.Errorf("flow level %.1f us, packets %.1f us: further apart than %.0f %%", f, p, 100*c.within)
			}
		})
	}
}

// ECMP's queue pairs take the paths that the P4 program's hash gives them.
func TestPathsAsHashed(t *testing.T) {
	if testing.Short() {
		t.Skip("packet-level runs take seconds")
	}
	lab, err := virtual.NewLab()
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []fabric.Spec{
		{Kind: fabric.KindFatTree, K: 4}, {Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 4, HostsPerToR: 4},
	} {
		for _, run := range plan(t, spec, "all-to-all", "", 2e6, "ecmp", scenario.Seeds{1, 2, 3}) {
			f, err := flow.Run(context.Background(), run, scenario.Observer{})
			if err != nil {
				t.Fatal(err)
			}
			p, err := lab.Run(context.Background(), run, scenario.Observer{})
			if err != nil {
				t.Fatal(err)
			}
			got, want := float64(f.UplinkBytesMax)/f.UplinkBytesMean, float64(p.UplinkBytesMax)/p.UplinkBytesMean
			if math.Abs(got/want-1) > 0.01 {
				t.Errorf("%v, %v: the fullest uplink carries %.3f of the mean, with packets %.3f", spec.Kind, run, got, want)
			}
		}
	}
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

func TestRefusesWhatMovesWithQueues(t *testing.T) {
	runs := plan(t, fabric.Spec{Kind: fabric.KindFatTree, K: 4}, "all-to-all", "", 1e6, "hopper", scenario.Seeds{1})
	if _, err := flow.Run(context.Background(), runs[0], scenario.Observer{}); !errors.Is(err, flow.ErrScheme) {
		t.Errorf("hopper: %v", err)
	}
}
