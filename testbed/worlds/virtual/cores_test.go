package virtual

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// onCores returns a run's result with the given regions and cores, what it reported, and
// how it was shared out.
func onCores(t testing.TB, lab *Lab, run scenario.Run, regions, cores int) (*report.Result, []report.Event, sim.RegionShares) {
	t.Helper()
	var happened []report.Event
	w, err := newWorld(lab, run, scenario.Observer{
		Regions: regions, Cores: cores, Happened: func(h report.Event) { happened = append(happened, h) },
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.simulate(context.Background()); err != nil {
		t.Fatal(err)
	}
	r, err := w.measure()
	if err != nil {
		t.Fatal(err)
	}
	return r, happened, w.net.Shares()
}

// TestCoresAgree: in several regions, on one core or several, every scheme, with every
// notifier, whatever fails, gives the result of one, the hash of its events included.
func TestCoresAgree(t *testing.T) {
	lab := newLab(t)
	files := []string{"demo", "failures", "schemes", "ring-restore", "lossless", "workloads"}
	others := [][2]int{{8, 1}, {2, 2}, {8, 3}, {3, 2}} // regions, cores: of each run one, in turn
	most := fabric.Bytes(200e3)
	if testing.Short() { // with the race detector each takes ten times as long
		files, others, most = []string{"schemes", "ring-restore", "lossless"}, [][2]int{{8, 3}}, 160e3
	}
	for _, file := range files {
		s, err := scenario.Load("../../scenarios/" + file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		s.Seeds = []uint64{7}
		for i := range s.Collectives {
			s.Collectives[i].Bytes = min(s.Collectives[i].Bytes, most)
		}
		runs, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, run := range runs {
			if testing.Short() && seen[run.Scheme.String()] {
				continue
			}
			seen[run.Scheme.String()] = true
			t.Run(file+" "+run.String(), func(t *testing.T) {
				want, wantHappened, _ := onCores(t, lab, run, 1, 1)
				// As many runs are of one notifier and collective as there are schemes: their number
				// alone would give each scheme the same way each time.
				way := others[(run.Index+run.Index/len(others))%len(others)]
				regions, cores := way[0], way[1]
				got, happened, shares := onCores(t, lab, run, regions, cores)
				if int64(got.SimEvents) < 2*shares.InTurn && run.Program == nil {
					t.Errorf("%d of %d events were not in windows", shares.InTurn, got.SimEvents)
				}
				if d := cmp.Diff(want, got, cmpopts.IgnoreFields(report.Result{}, "WallMS")); d != "" {
					t.Errorf("%d regions, %d cores (-one, +several):\n%s", regions, cores, d)
				}
				if d := cmp.Diff(wantHappened, happened); d != "" {
					t.Errorf("%d regions, %d cores happened (-one, +several):\n%s", regions, cores, d)
				}
			})
		}
	}
}

// TestCoresSoonReports: agents' reports that come sooner than a window is long keep
// a run on one core, though the hosts' links are shorter still.
func TestCoresSoonReports(t *testing.T) {
	s := scenario.Default()
	s.Name = "soon"
	s.Fabric = fabric.Spec{
		Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 2, HostsPerToR: 2,
		HostLink:  fabric.LinkSpec{Rate: 400 * fabric.Gbps, Delay: 100 * fabric.Nanosecond},
		ToRUplink: fabric.LinkSpec{Rate: 400 * fabric.Gbps, Delay: 500 * fabric.Nanosecond},
	}
	s.Control.PushDelay = 200 * fabric.Nanosecond
	s.Schemes = []scenario.Scheme{{Name: "ethereal", Params: map[string]string{"suspicion": "on"}}}
	s.Collectives = []scenario.Collective{{Kind: "all-to-all", Bytes: 400e3}}
	s.Failures = []scenario.Failure{{
		Name: "black hole", Notifiers: []scenario.Notifier{scenario.NotifyTimeout},
		Events: []scenario.Event{{At: fabric.Microsecond, Link: "tor0-spine0", Action: scenario.Cut}},
	}}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	lab := newLab(t)
	want, _, _ := onCores(t, lab, runs[0], 1, 1)
	got, _, _ := onCores(t, lab, runs[0], 2, 2)
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(report.Result{}, "WallMS")); d != "" {
		t.Errorf("(-one, +several):\n%s", d)
	}
}
