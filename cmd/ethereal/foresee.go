package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/flow"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// whyRefused returns an error if a world cannot execute the runs, before anything is built for them.
func whyRefused(world string, runs []scenario.Run) error {
	switch world {
	case scenario.WorldFlow:
		return refusedWithoutPackets(runs)
	case scenario.WorldLive:
		return refusedLive(runs)
	case scenario.WorldMininet, scenario.WorldLab:
		return refusedAny(runs, "in the "+world+" world", func(r scenario.Run) error {
			if err := runner.AttachedNotifier(r.Notifier); err != nil {
				return err
			}
			return deployment.Refuses(r)
		})
	}
	return nil
}

// refusedWithoutPackets returns an error if the flow world cannot execute one of the runs.
func refusedWithoutPackets(runs []scenario.Run) error {
	return refusedAny(runs, "without packets", flow.Check)
}

// refusedAny returns an error if the world cannot execute one of the runs.
func refusedAny(runs []scenario.Run, where string, check func(scenario.Run) error) error {
	var first error
	n := 0
	for _, r := range runs {
		if err := check(r); err != nil {
			n++
			first = cmp.Or(first, err)
		}
	}
	if n == 0 {
		return nil
	}
	return failedf("%d of the %s cannot be carried out %s (--schemes, --notifiers leave out such), the first since %w",
		n, fabric.Count(len(runs), "run"), where, first)
}

// refusedLive returns an error if the live world cannot execute the runs.
func refusedLive(runs []scenario.Run) error {
	var first error
	of := map[*fabric.Fabric]error{}
	for _, r := range runs {
		err, known := of[r.Fabric]
		if !known {
			err = live.CheckRates(r.Fabric)
			of[r.Fabric] = err
		}
		if err == nil {
			return nil // the others are said as errors of theirs
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		return nil
	}
	return failedf("none of the %s can be carried out: %w; or give the scenario expectations, or the key worlds: then it is scaled",
		fabric.Count(len(runs), "run"), first)
}

// printNotes prints, for each scenario, how the world changes it, and reasons against running it there. ownSeeds: the
// seeds are the scenario's, not a flag's.
func (a *app) printNotes(world string, runs []scenario.Run, ownSeeds bool) {
	var noted []*scenario.Scenario
	var read []*workload.Program
	for _, r := range runs {
		s := r.Scenario
		if r.Program != nil && !slices.Contains(read, r.Program) {
			read = append(read, r.Program)
			for _, note := range r.Program.Notes() {
				fmt.Fprintf(a.stderr, "warning: %s: %s\n", s.Name, note)
			}
		}
		if slices.Contains(noted, s) {
			continue
		}
		noted = append(noted, s)
		for _, text := range []string{s.Moved, s.Stretched} {
			if text == "" {
				continue
			}
			fmt.Fprintf(a.stderr, "%s in the %s world: %s\n", s.Name, world, text)
		}
		for i, text := range []string{s.Hint(), s.SeedHint()} {
			if text != "" && (i == 0 || ownSeeds) {
				fmt.Fprintf(a.stderr, "hint: %s: %s\n", s.Name, text)
			}
		}
	}
}

// timeoutHints are the hints of scenarios whose runs did not finish after time-outs, as the links did not lose that
// much.
func timeoutHints(runs []scenario.Run, results []*report.Result) []string {
	var out []string
	for _, r := range results {
		if r.CCT != nil || r.Timeouts == 0 {
			continue
		}
		for _, run := range runs {
			if run.Scenario.Name != r.Scenario {
				continue
			}
			text := run.Scenario.Hint()
			if text = fmt.Sprintf("hint: %s: %s", r.Scenario, text); run.Scenario.Hint() != "" && !slices.Contains(out, text) {
				out = append(out, text)
			}
			break
		}
	}
	return out
}
