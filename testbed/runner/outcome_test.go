package runner_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// carry runs the only run of a scenario in a world and judges it.
func carry(t *testing.T, s *scenario.Scenario, world string, run runner.Run) *runner.Outcome {
	t.Helper()
	runs, err := s.ForWorld(world).Expand()
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	o := &runner.Outcome{Run: runs[0], World: world, Record: &runner.Record{}}
	o.Result, o.Err = run(t.Context(), o.Run, scenario.Observer{Happened: o.Record.Add})
	o.Judge()
	return o
}

// TestShipped carries out the experiments that the repository has.
func TestShipped(t *testing.T) {
	if testing.Short() {
		t.Skip("all experiments: skipped with -short")
	}
	files, err := filepath.Glob("../../mininet/experiments/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no experiments", err)
	}
	run := virtual.Runner()
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			t.Parallel()
			s, err := scenario.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			o := carry(t, s, scenario.WorldVirtual, run)
			if o.Err != nil || len(o.Verdicts) == 0 {
				t.Fatalf("%d verdicts, %v", len(o.Verdicts), o.Err)
			}
			for _, v := range o.Verdicts {
				if !v.Held {
					t.Error(v)
				}
			}
			if len(o.Record.All()) == 0 {
				t.Error("nothing was recorded")
			}
		})
	}
}

const small = `
name: small
fabric: {kind: leaf-spine, tors: 2, spines: 2, hosts_per_tor: 2}
collectives: [{kind: all-to-all, bytes: 1MB}]
schemes: [ethereal]
deadline: 10ms
`

// TestFails: an expectation that does not hold says so.
func TestFails(t *testing.T) {
	s, err := scenario.Parse("small.yaml", []byte(small+`
steps:
  - {at: 3us, action: cut, link: tor0-spine0, detection: 1us}
expect:
  - {that: finished, is: true}
  - {that: flips, max: 0, why: nobody flips}
  - {that: cct, max: 1us}
  - {that: quenches, min: 1}
  - {that: flips, min: 1000, worlds: [live]}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	o := carry(t, s, scenario.WorldVirtual, virtual.Runner())
	var held []bool
	for _, v := range o.Verdicts {
		held = append(held, v.Held)
	}
	if diff := cmp.Diff([]bool{true, false, false, true}, held); diff != "" || o.ExpectationsMet() {
		t.Errorf("%v\n%s", o.Verdicts, diff)
	}
	if s := o.Verdicts[1].String(); !strings.HasSuffix(s, "(<= 0): nobody flips") {
		t.Error(s)
	}
}

// TestSummary: a line for each run, whatever became of it.
func TestSummary(t *testing.T) {
	s, err := scenario.Parse("small.yaml", []byte(small+"expect: [{that: finished, is: true}]\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	cct, bound := 3.0, 2.0
	well := &report.Result{Finished: true, CCT: &cct, Bound: &bound, Flips: 7}
	var all []*runner.Outcome
	for _, c := range []struct {
		result *report.Result
		err    error
	}{{well, nil}, {nil, errors.New("no cable")}} {
		o := carry(t, s, scenario.WorldVirtual, func(context.Context, scenario.Run, scenario.Observer) (*report.Result, error) {
			return c.result, c.err
		})
		o.Took = 1500 * time.Millisecond
		all = append(all, o)
	}
	var b strings.Builder
	if err := runner.Summary(&b, all); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"took", "small virtual passed 1/1 1.500 0 0 7 0 0 1.5 s", "small virtual ERROR 0/0 - - - - - - 1.5 s", "1 of 2 passed, in 3.0 s"} {
		if got := strings.Join(strings.Fields(strings.Split(b.String(), "\n")[i]), " "); !strings.HasSuffix(got, want) {
			t.Errorf("line %d: %q, want %q", i, got, want)
		}
	}
}

// TestRecord: a late report finds its place.
func TestRecord(t *testing.T) {
	var r runner.Record
	for _, at := range []float64{3, 1, 2, 1} {
		r.Add(report.Event{Time: at, Kind: "flip", Where: "h0"})
	}
	var got []float64
	for _, e := range r.All() {
		got = append(got, e.Time)
	}
	if diff := cmp.Diff([]float64{1, 1, 2, 3}, got); diff != "" {
		t.Error(diff)
	}
	var b strings.Builder
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Encode(&b, scenario.Run{Scenario: &scenario.Scenario{Name: "x"}, Fabric: f}, "virtual"); err != nil {
		t.Fatal(err)
	}
	if want := `{"scenario":"x","world":"virtual","t_us":1,"kind":"flip","where":"h0","text":""}`; !strings.Contains(b.String(), "\n"+want+"\n") {
		t.Errorf("got %s", b.String())
	}
	back, err := runner.DecodeRecords(strings.NewReader(b.String() + b.String()))
	if err != nil || len(back) != 2 {
		t.Fatalf("%d runs are read back: %v", len(back), err)
	}
	if diff := cmp.Diff(r.All(), back[1].Happened); diff != "" || back[1].Fabric.Hosts() != 16 {
		t.Errorf("of %d hosts, %s", back[1].Fabric.Hosts(), diff)
	}
	if _, err := runner.DecodeRecords(strings.NewReader(`{"t_us":1e300}`)); err == nil {
		t.Error("a time beyond all time is taken")
	}
}

// FuzzDecodeRecords reads what is no record: it ends, and what it takes has times.
func FuzzDecodeRecords(f *testing.F) {
	f.Add(`{"scenario":"x","world":"live","t_us":1,"kind":"flip","where":"h0","text":""}` + "\n")
	f.Add(`{"kind":"run","text":"x","fabric":{"kind":"leaf-spine","tors":2,"spines":1,"hosts_per_tor":1}}` + "\n\n{}")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := runner.DecodeRecords(strings.NewReader(text))
		for _, x := range all {
			for _, h := range x.Happened {
				if err == nil && h.Time < 0 {
					t.Errorf("%v", h)
				}
			}
		}
	})
}
