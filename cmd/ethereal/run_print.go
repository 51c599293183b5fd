package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// runPrinter prints results: of each run when it ends, and of all together at the end.
type runPrinter struct {
	app           *app
	flags         runFlags
	files         []string // of the scenarios
	table         io.Writer
	lines         io.Writer // JSON lines of results
	records       io.Writer // JSON lines of what happened; nil: not asked for
	page, profile io.Writer // nil: not asked for

	runs       []scenario.Run
	skipped    []*runner.Outcome
	expected   []*runner.Outcome // of runs that something is expected of
	unfinished []string          // runs that did not finish, where nothing is expected of that
	cutOff     []string          // of these: no scheme can finish them
}

// printEnded prints a run that ended.
func (t *runPrinter) printEnded(o *runner.Outcome) error {
	run := o.Run
	if o.Result != nil {
		var err error
		o.Result.Version, o.Result.RanOn = t.app.version, thisMachine()
		if o.Result.RunSHA256, err = run.Hash(); err != nil {
			return err
		}
		if err := report.Encode(t.lines, o.Result); err != nil {
			return err
		}
	}
	if t.records != nil {
		if err := o.Record.Encode(t.records, run, t.flags.world); err != nil {
			return err
		}
	}
	asked := slices.ContainsFunc(run.Scenario.Expect, func(x scenario.Expectation) bool { return x.That == "finished" })
	if r := o.Result; r != nil && o.Err == nil && !r.Finished && !asked {
		t.unfinished = append(t.unfinished, o.Name())
		if r.CutOff != "" {
			t.cutOff = append(t.cutOff, o.Name())
		}
	}
	if len(run.Scenario.Expect) == 0 {
		return nil
	}
	o.Judge()
	t.expected = append(t.expected, o)
	return printOutcome(t.table, o, t.flags.quiet)
}

// printOutcome prints the events of a run, and whether its expectations held.
func printOutcome(w io.Writer, o *runner.Outcome, quiet bool) error {
	var b strings.Builder
	name := o.Name()
	switch {
	case o.Skipped != "":
		fmt.Fprintf(&b, "%s (%s): skipped: %s\n", name, o.World, o.Skipped)
	case quiet:
		fmt.Fprintf(&b, "%s (%s)\n", name, o.World)
	default:
		fmt.Fprintf(&b, "%s (%s): %s\n", name, o.World, o.Run.Scenario.Description)
		if o.Result != nil && o.Result.CutOff != "" {
			fmt.Fprintf(&b, "  CUT OFF: %s\n", o.Result.CutOff)
		}
		if err := o.Record.Text(&b); err != nil {
			return err
		}
	}
	for _, v := range o.Verdicts {
		word := "ok"
		if !v.Held {
			word = "FAILED"
		}
		fmt.Fprintf(&b, "  %-6s %v\n", word, v)
	}
	if o.Err != nil {
		fmt.Fprintf(&b, "  %-6s %v\n", "ERROR", o.Err)
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// printAll prints the summary of all runs. failed is the error with which they ended.
func (t *runPrinter) printAll(results []*report.Result, failed error) error {
	a := t.app
	for _, o := range t.skipped {
		failed = errors.Join(failed, printOutcome(t.table, o, t.flags.quiet))
	}
	outcomes := append(t.expected, t.skipped...)
	inTable := results
	if t.flags.quiet { // of a scenario with expectations the verdicts are enough
		inTable = slices.DeleteFunc(slices.Clone(results), func(r *report.Result) bool {
			return slices.ContainsFunc(t.expected, func(o *runner.Outcome) bool { return o.Result == r })
		})
	}
	switch {
	case len(inTable) == 0:
	case t.flags.format.forPeople() && report.SeveralSeeds(inTable):
		failed = errors.Join(failed, report.Summary(t.table, inTable))
		fmt.Fprintln(t.table, "\nStatistics over seeds; -o rows prints a line for each run.") //nolint:errcheck // as the table
	default:
		failed = errors.Join(failed, report.Table(t.table, inTable))
	}
	for _, text := range timeoutHints(t.runs, results) {
		fmt.Fprintln(t.table, text) //nolint:errcheck // the table was written there
	}
	if len(outcomes) > 1 {
		failed = errors.Join(failed, runner.Summary(t.table, outcomes))
	}
	if t.flags.check && failed == nil && !t.flags.quiet {
		fmt.Fprintf(a.stderr, "check: %s came out the same once more, through the P4 interpreter and in one region\n", fabric.Count(len(results), "run"))
	}
	if t.page != nil {
		page := a.reportPage(t.files...)
		page.Looks = t.viewHints()
		if err := report.HTML(t.page, results, page); err != nil {
			failed = errors.Join(failed, err)
		} else if !t.flags.quiet {
			fmt.Fprintf(a.stderr, "report: %s\n", t.flags.html)
		}
	}
	if t.flags.trace.path != "" && !t.flags.quiet {
		fmt.Fprintf(a.stderr, "next: ethereal view %s\n", t.tracePattern())
	}
	var unmet []string
	for _, o := range t.expected {
		if !o.ExpectationsMet() {
			unmet = append(unmet, o.Name())
		}
	}
	if len(unmet) > 0 {
		failed = errors.Join(failed, fmt.Errorf("not as expected: %s", strings.Join(unmet, ", ")))
	}
	switch {
	case t.flags.strict && len(t.unfinished) > 0:
		failed = errors.Join(failed, fmt.Errorf("did not finish, with --strict: %s", strings.Join(t.unfinished, ", ")))
	case len(t.cutOff) > 0:
		failed = errors.Join(failed, fmt.Errorf("could not finish, as a host has no link: %s; restore one of its links in the scenario, or "+
			"expect {that: finished, is: false}", strings.Join(t.cutOff, ", ")))
	}
	if failed != nil && !errors.Is(failed, errInterrupted) {
		return failedf("%w", failed)
	}
	return failed
}
