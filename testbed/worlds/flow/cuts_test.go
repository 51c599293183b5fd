package flow_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/goldentest"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/runner/sweep"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/flow"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// within is how far from packets a run after a cut may be.
const within = 15.0 // percent

// cutRun is a run of testbed/sweeps/flow.yaml, and what packets made of it.
type cutRun struct {
	run     scenario.Run
	packets *report.Result
}

func cutRuns(t *testing.T) (out []cutRun) {
	t.Helper()
	const path = "../../../docs/evaluation/flow.jsonl"
	s, err := sweep.Load("../../sweeps/flow.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	results, err := report.Decode(file, path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Cases {
		r := c.Run
		i := slices.IndexFunc(results, func(x *report.Result) bool {
			return x.Scenario == r.Scenario.Name && x.Failure == r.Failure.Name && x.Collective == r.Collective.Name() &&
				x.Notifier == string(r.Notifier) && x.Scheme == r.Scheme.String() && x.Seed == r.Seed
		})
		if i < 0 {
			t.Fatalf("%s lacks %v", path, r)
		}
		healthy := fabric.Time(math.Round(*results[i].FirstFailure.Healthy * float64(fabric.Microsecond)))
		if r, err = r.Timed(healthy); err != nil { // the cut is when it was for packets
			t.Fatal(err)
		}
		out = append(out, cutRun{r, results[i]})
	}
	return out
}

// off returns by how much of what packets took a run was longer, in percent. Of those that never end neither may.
func off(flows, packets *report.Result) float64 {
	switch {
	case flows.CCT == nil && packets.CCT == nil:
		return 0
	case flows.CCT == nil || packets.CCT == nil:
		return math.Inf(1)
	}
	return 100 * (*flows.CCT / *packets.CCT - 1)
}

// After a cut each combination of collective, scheme and notifier takes what it takes with packets, within 15 %, or is
// refused. The packets' results are those kept in docs/evaluation; the table made of both is testdata/after-cut.md.
func TestAfterCut(t *testing.T) {
	cells := map[string]map[string]*offCell{}
	var rows []string
	for _, c := range cutRuns(t) {
		r := c.run
		row := fmt.Sprintf("| %s | %s", r.Collective.Name(), r.Notifier)
		if cells[row] == nil {
			cells[row] = map[string]*offCell{}
			rows = append(rows, row)
		}
		cell := cells[row][r.Scheme.Name]
		if cell == nil {
			cell = &offCell{low: math.Inf(1), high: math.Inf(-1)}
			cells[row][r.Scheme.Name] = cell
		}
		f, err := flow.Run(context.Background(), r, scenario.Observer{})
		if errors.Is(err, flow.ErrFailure) {
			cell.refused++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if f.CCT == nil && c.packets.CCT == nil {
			cell.endless++
			if f.End != c.packets.End {
				t.Errorf("%v: ended as %q, with packets as %q", r, f.End, c.packets.End)
			}
			continue
		}
		e := off(f, c.packets)
		cell.low, cell.high = min(cell.low, e), max(cell.high, e)
		if math.Abs(e) > within {
			t.Errorf("%v, %s: %.1f %% off", r, c.packets.Failure, e)
		}
	}
	goldentest.Compare(t, "testdata/after-cut.md", table(rows, cells))
}

// offCell is how far the runs of a cell of the table were off, in percent.
type offCell struct {
	low, high        float64
	refused, endless int
}

func (c *offCell) String() string {
	var parts []string
	if c.low <= c.high {
		parts = append(parts, fmt.Sprintf("%+.1f to %+.1f", c.low, c.high))
	}
	for _, of := range []struct {
		runs int
		what string
	}{{c.refused, "refused"}, {c.endless, "does not end"}} {
		switch {
		case of.runs > 0 && len(parts) == 0:
			parts = append(parts, of.what)
		case of.runs > 0:
			parts = append(parts, fmt.Sprintf("%s in %d runs", of.what, of.runs))
		}
	}
	return strings.Join(parts, "; ")
}

// table is how far the runs of each row were off.
func table(rows []string, cells map[string]map[string]*offCell) string {
	var b strings.Builder
	b.WriteString(`# The flow world after a cut

The table shows by how many percent the CCT is longer in the flow world (without packets) than in the virtual world
(with packets). Each cell is the range over four runs of 4 MB ([flow.yaml](../../../sweeps/flow.yaml)): on a
leaf-spine and on a fat-tree, each cut at 20 % and at 60 % of the healthy time. *refused*: the flow world refuses the
run, because flow rates predict it too badly. *does not end*: no mechanism repairs the path in either world. The flow
world refuses spray and REPS after every cut.

` + "`go test ./testbed/worlds/flow -run TestAfterCut -rewrite`" + ` writes this page from
[flow.jsonl](../../../../docs/evaluation/flow.jsonl).

| collective | notifier | ethereal | ecmp |
|---|---|---|---|
`)
	for _, row := range rows {
		fmt.Fprintf(&b, "%s | %v | %v |\n", row, cells[row]["ethereal"], cells[row]["ecmp"])
	}
	return b.String()
}

// What the packets' file says is what packets take today, for some of its runs.
func TestPacketsAsKept(t *testing.T) {
	if testing.Short() {
		t.Skip("packet-level runs take seconds")
	}
	lab, err := virtual.NewLab()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cutRuns(t) {
		r := c.run
		if r.Fabric.Hosts() > 16 || r.Scheme.Name != "ethereal" || r.Collective.Kind != "all-to-all" || r.Notifier == scenario.NotifyTimeout {
			continue
		}
		p, err := lab.Run(context.Background(), r, scenario.Observer{})
		if err != nil {
			t.Fatal(err)
		}
		if p.CCT == nil || *p.CCT != *c.packets.CCT {
			t.Errorf("%v: %v us, and %v in docs/evaluation/flow.jsonl: make it again", r, p.CCT, *c.packets.CCT)
		}
	}
}

// The controllers of both worlds receive, push and finish writing at the same times, whatever the scenario says of
// them.
func TestControlAsWithPackets(t *testing.T) {
	if testing.Short() {
		t.Skip("packet-level runs take seconds")
	}
	lab, err := virtual.NewLab()
	if err != nil {
		t.Fatal(err)
	}
	const us = fabric.Microsecond
	cut := scenario.Event{At: 10 * us, Link: "tor0-agg0", Action: scenario.Cut, Detection: 10 * us}
	back := scenario.Event{At: 60 * us, Link: "tor0-agg0", Action: scenario.Restore, Detection: 10 * us}
	again := cut
	again.At = 130 * us
	for _, c := range []struct {
		name   string
		events []scenario.Event
		change func(*scenario.Scenario)
	}{
		{"cut", []scenario.Event{cut}, nil},
		{"cut, restored, cut", []scenario.Event{cut, back, again}, nil},
		{"restored at once", []scenario.Event{cut, back, again}, func(s *scenario.Scenario) { s.Control.RestoredAtOnce = true }},
		{"stage_timeout", []scenario.Event{cut, back}, func(s *scenario.Scenario) { s.Control.StageTimeout = 30 * us }},
		{"tables_wait", []scenario.Event{cut, back}, func(s *scenario.Scenario) { s.Control.TablesWait = 0 }},
		{"damping", []scenario.Event{cut, back, again}, func(s *scenario.Scenario) {
			s.Control.Damping = scenario.Damping{HalfLife: 100 * us, Suppress: 1500, Reuse: 750, Longest: fabric.Millisecond}
		}},
		{"drained", []scenario.Event{{At: 10 * us, Link: "tor0-agg0", Action: scenario.Drain}}, nil},
		{"controller down", []scenario.Event{
			cut, {At: 30 * us, Action: scenario.ControllerDown}, {At: 90 * us, Action: scenario.ControllerUp},
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scenario.Default()
			s.Name, s.Fabric, s.Seeds = "control", fabric.Spec{Kind: fabric.KindFatTree, K: 4}, scenario.Seeds{1}
			s.Collectives = []scenario.Collective{{Kind: "all-to-all", Bytes: 24e6}}
			s.Schemes = []scenario.Scheme{{Name: "ethereal"}}
			s.Failures = []scenario.Failure{{Name: "case", Events: c.events, Notifiers: []scenario.Notifier{scenario.NotifyGNMI}}}
			if c.change != nil {
				c.change(&s)
			}
			runs, err := s.Expand()
			if err != nil {
				t.Fatal(err)
			}
			f, err := flow.Run(context.Background(), runs[0], scenario.Observer{})
			if err != nil {
				t.Fatal(err)
			}
			p, err := lab.Run(context.Background(), runs[0], scenario.Observer{})
			if err != nil {
				t.Fatal(err)
			}
			end := min(f.EndTime, p.EndTime) // what comes later only one of them sees
			if got, want := controls(f, end), controls(p, end); !slices.Equal(got, want) || len(want) < 2 {
				t.Errorf("without packets:\n%s\nwith them:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

func controls(r *report.Result, end float64) (out []string) {
	for _, e := range r.Timeline {
		if e.Time <= end && (e.Kind == report.KindGNMI || e.Kind == report.KindPush || e.Kind == report.KindWrite) {
			out = append(out, fmt.Sprintf("%v %s %s", e.Time, e.Kind, e.Where))
		}
	}
	return out
}
