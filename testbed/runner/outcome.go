package runner

import (
	"slices"
	"time"

	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Outcome is the outcome of a run: its result or error, and the verdicts on its scenario's expectations.
type Outcome struct {
	Run      scenario.Run // with the scenario as changed for the world
	World    string
	Skipped  string // why it was not run; "": it was
	Result   *report.Result
	Record   *Record
	Verdicts []Verdict
	Took     time.Duration // wall-clock time of the run
	Err      error         // why there is no result
}

// Name returns the scenario's name, with the run's if the scenario has several.
func (o *Outcome) Name() string {
	s := o.Run.Scenario
	if o.Skipped != "" || len(s.Failures)*len(s.Collectives)*len(s.Schemes)*len(s.Seeds) == 1 && len(s.Failures[0].Notifiers) <= 1 && o.Run.Failure.Case == o.Run.Failure.Name {
		return s.Name
	}
	return s.Name + ": " + o.Run.String()
}

// StatusWord returns the outcome in one word: passed, FAILED, ERROR or skipped.
func (o *Outcome) StatusWord() string {
	switch {
	case o.Skipped != "":
		return "skipped"
	case o.Err != nil:
		return "ERROR"
	case !o.ExpectationsMet():
		return "FAILED"
	}
	return "passed"
}

// ExpectationsMet reports whether all expectations were met.
func (o *Outcome) ExpectationsMet() bool {
	return !slices.ContainsFunc(o.Verdicts, func(v Verdict) bool { return !v.Held })
}

// Judge compares the measurements with the scenario's expectations, and stores the verdicts. A run without a result has
// none.
func (o *Outcome) Judge() {
	o.Verdicts = nil
	if o.Result == nil {
		return
	}
	for _, x := range o.Run.Scenario.Expect {
		o.Verdicts = append(o.Verdicts, judgeExpectation(x, o))
	}
}

// firstEvent returns the first event of a run. ok is false if there is none.
func firstEvent(r scenario.Run) (_ scenario.Event, ok bool) {
	events := r.Failure.Drawn(r.Fabric, r.Seed)
	if len(events) == 0 {
		return scenario.Event{}, false
	}
	return events[0], true
}
