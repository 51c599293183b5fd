package virtual

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestRings: with a channel per GPU all interfaces of a server carry traffic, an all-reduce of rings is several times
// faster, and no bound is exceeded.
func TestRings(t *testing.T) {
	s, err := scenario.Load("../../scenarios/nccl-rings.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Collectives {
		s.Collectives[i].Bytes = 4e6
	}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	cct := map[int]float64{}
	for _, run := range runs {
		r, err := newLab(t).Run(t.Context(), run, scenario.Observer{})
		if err != nil {
			t.Fatal(err)
		}
		if r.CCT == nil || *r.CCT < *r.StepBound || *r.CCT < *r.Bound {
			t.Fatalf("%v: CCT %v, bounds %v and %v", run, r.CCT, r.Bound, r.StepBound)
		}
		used := 0
		for host := range run.Fabric.Hosts() {
			if r.Links[2*run.Fabric.HostLink(fabric.NodeID(host), 0)].DataBytes > 0 {
				used++
			}
		}
		want := run.Fabric.Hosts()
		if run.Collective.Channels == 0 {
			want = run.Fabric.Hosts() / run.Scenario.Servers.GPUs
		}
		if used != want {
			t.Errorf("%v: %d interfaces send, want %d", run, used, want)
		}
		if run.Scheme.Name == scenario.Ethereal {
			cct[run.Collective.Channels] = *r.CCT
		}
	}
	if cct[4] > cct[0]/1.5 {
		t.Errorf("one ring takes %.1f us, four channels %.1f us", cct[0], cct[4])
	}
}
