package virtual

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ethereal-fabric/ethereal/testbed/netsim"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// onCores returns a run's result on so many cores, what it told, and how it was shared out.
func onCores(t testing.TB, lab *Lab, run scenario.Run, cores int) (*report.Result, []scenario.Happening, netsim.Shares) {
	t.Helper()
	var told []scenario.Happening
	w, err := newWorld(lab, run, scenario.Observer{
		Cores: cores, Happened: func(h scenario.Happening) { told = append(told, h) },
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
	return r, told, w.net.Shares()
}

// TestCoresAgree: on several cores every scheme, with every notifier, whatever
// fails, gives the result of one core, the hash of its events included.
func TestCoresAgree(t *testing.T) {
	lab := newLab(t)
	files := []string{"demo", "failures", "schemes", "ring-restore", "lossless", "workloads"}
	if testing.Short() {
		files = []string{"ring-restore", "lossless"} // with the race detector each takes ten times as long
	}
	for _, file := range files {
		s, err := scenario.Load("../scenarios/" + file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		s.Seeds = []uint64{7}
		for i := range s.Collectives {
			s.Collectives[i].Bytes = min(s.Collectives[i].Bytes, 400e3)
		}
		runs, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range runs {
			t.Run(file+" "+run.String(), func(t *testing.T) {
				want, wantTold, _ := onCores(t, lab, run, 1)
				for cores := 2; cores <= 2+run.Index%2; cores++ {
					got, told, shares := onCores(t, lab, run, cores)
					if int64(got.SimEvents) < 2*shares.InTurn && run.Program == nil {
						t.Errorf("%d of %d events were not in windows", shares.InTurn, got.SimEvents)
					}
					if d := cmp.Diff(want, got, cmpopts.IgnoreFields(report.Result{}, "WallMS")); d != "" {
						t.Errorf("%d cores (-one, +several):\n%s", cores, d)
					}
					if d := cmp.Diff(wantTold, told); d != "" {
						t.Errorf("%d cores told (-one, +several):\n%s", cores, d)
					}
				}
			})
		}
	}
}
