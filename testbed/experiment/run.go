package experiment

import (
	"context"
	"fmt"
	"time"

	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// World is where experiments happen.
type World interface {
	// Name is one of WorldNames.
	Name() string
	// Run carries out an experiment that was stretched to the world, and records
	// what happens.
	Run(ctx context.Context, e *Experiment, rec *Record) (*report.Result, error)
}

// Outcome is what an experiment came to.
type Outcome struct {
	Experiment *Experiment // as it was in the world
	World      string
	Skipped    string // why it was not run; "": it was
	Result     *report.Result
	Record     *Record
	Verdicts   []Verdict
	Took       time.Duration // on the wall clock
	Err        error         // why there is no result
}

// Word is what became of it: passed, FAILED, ERROR or skipped.
func (o *Outcome) Word() string {
	switch {
	case o.Skipped != "":
		return "skipped"
	case o.Err != nil:
		return "ERROR"
	case !o.Held():
		return "FAILED"
	}
	return "passed"
}

// Held reports whether all expectations did.
func (o *Outcome) Held() bool {
	for _, v := range o.Verdicts {
		if !v.Held {
			return false
		}
	}
	return true
}

// Run carries out an experiment in a world and judges it. The outcome is there with
// an error too, which it has then.
func Run(ctx context.Context, e *Experiment, w World) (*Outcome, error) {
	o := &Outcome{Experiment: e.In(w.Name()), World: w.Name(), Record: &Record{}}
	if o.Skipped = e.Worlds.For(w.Name()).Skip; o.Skipped != "" {
		return o, nil
	}
	began := time.Now()
	o.Result, o.Err = w.Run(ctx, o.Experiment, o.Record)
	if o.Took = time.Since(began); o.Err != nil {
		o.Result, o.Err = nil, fmt.Errorf("experiment: %s: %w", e.Scenario.Name, o.Err)
		return o, o.Err
	}
	for _, x := range o.Experiment.Expect {
		o.Verdicts = append(o.Verdicts, x.judge(o))
	}
	return o, nil
}
