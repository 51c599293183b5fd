package experiment

import (
	"context"
	"fmt"

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

// Run carries out an experiment in a world and judges it.
func Run(ctx context.Context, e *Experiment, w World) (*Outcome, error) {
	o := &Outcome{Experiment: e.In(w.Name()), World: w.Name(), Record: &Record{}}
	if o.Skipped = e.Worlds.For(w.Name()).Skip; o.Skipped != "" {
		return o, nil
	}
	var err error
	if o.Result, err = w.Run(ctx, o.Experiment, o.Record); err != nil {
		return nil, fmt.Errorf("experiment: %s: %w", e.Scenario.Name, err)
	}
	for _, x := range o.Experiment.Expect {
		o.Verdicts = append(o.Verdicts, x.judge(o))
	}
	return o, nil
}
