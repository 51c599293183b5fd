package cases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Limit is the wall-clock time after which a run is stopped, which its record says.
const Limit = 2 * time.Minute

// Options choose what [Evaluate] runs.
type Options struct {
	Run     runner.Run // carries out a run in the virtual world
	Program string     // version of the program
	Alone   bool       // do not run the other schemes
	// Opponents, if not empty, are the schemes that Ethereal is compared with, instead of the case's, unless the fabric
	// has planes. [scenario.ParseScheme] says how they are written.
	Opponents []string
	// Control, if not empty, replaces the case's rate control.
	Control transport.Control
}

// Evaluate runs a case, on one core, with Ethereal and the schemes to compare. Errors of runs are in the record; the
// returned error is that of ctx.
func Evaluate(ctx context.Context, c Case, o Options) (*Record, error) {
	r := &Record{
		Name: c.Name, Seed: c.Seed, Index: c.Index, Class: c.Class, What: c.What, Program: o.Program,
		Allowed: c.Allowed.Micros(), Trip: c.Trip.Micros(),
		Threshold: c.Threshold, Patient: c.Patient, Fabric: c.Fabric, Collective: c.Collective, Control: c.Control,
	}
	if o.Control != "" {
		r.Control = string(o.Control)
	}
	err := evaluate(ctx, c, o, r)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		r.Error = err.Error()
	}
	r.Violated = Violations(r)
	return r, nil
}

func evaluate(ctx context.Context, c Case, o Options, r *Record) error {
	runs, err := c.runs(o)
	if err != nil {
		return err
	}
	do := runner.Timed(o.Run)
	about := failedCase
	if c.Class == Healthy {
		about = healthyCase
	}
	for _, run := range runs {
		ethereal := run.Scheme.Name == scenario.Ethereal
		if !ethereal && (o.Alone || run.Failure.Name != about) {
			continue
		}
		if !ethereal {
			run = cutShort(run, r.Subject())
		}
		f, err := runOne(ctx, run, do)
		if err != nil {
			return fmt.Errorf("%v: %w", run, err)
		}
		switch {
		case !ethereal:
			r.Opponents = append(r.Opponents, f)
		case run.Failure.Name == healthyCase:
			r.Healthy = f
		default:
			r.Failed = f
		}
	}
	return nil
}

// slowdownLimit is how many times Ethereal's completion time an opponent may take before it is stopped. Only those that
// are faster count.
const slowdownLimit = 2

// cutShort returns an opponent's run with a deadline that Ethereal's run gives.
func cutShort(run scenario.Run, ethereal *Figures) scenario.Run {
	if ethereal == nil || ethereal.CCT == nil {
		return run
	}
	s := *run.Scenario
	s.Deadline = min(s.Deadline, fabric.Time(slowdownLimit**ethereal.CCT*float64(fabric.Microsecond)))
	run.Scenario = &s
	return run
}

// runs returns the case's runs, with the options' opponents and rate control if there are any. A workload is read from
// a file, which is there only meanwhile.
func (c Case) runs(o Options) ([]scenario.Run, error) {
	name := c.path
	if name == "" {
		name = c.File()
	}
	if c.Jobs != "" {
		dir, err := os.MkdirTemp("", "ethereal-case-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
		if name, err = c.Write(dir); err != nil {
			return nil, err
		}
	}
	s, err := scenario.Parse(name, []byte(c.Text), strictyaml.ReadFile)
	if err != nil {
		return nil, err
	}
	if o.Control != "" {
		s.Host.CongestionControl = o.Control
	}
	var other scenario.Override
	if len(o.Opponents) > 0 && s.Fabric.Planes <= 1 {
		other.Schemes = append([]string{string(scenario.Ethereal)}, o.Opponents...)
	}
	if s, err = s.Override(other); err != nil {
		return nil, err
	}
	return s.Expand()
}

// runOne executes a run. A panic becomes an error.
func runOne(ctx context.Context, run scenario.Run, do runner.Run) (_ *Figures, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, Limit, errLimit)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			stack := strings.Split(string(debug.Stack()), "\n")
			err = fmt.Errorf("panic: %v\n%s", p, strings.Join(stack[:min(len(stack), 40)], "\n"))
		}
	}()
	var result *report.Result
	result, err = do(limited, run, scenario.Observer{Cores: 1})
	if stopped := errors.Is(err, errLimit) && result != nil; err != nil && !stopped {
		return nil, err
	}
	f := figuresOf(result)
	f.Run, err = run.Hash()
	return f, err
}

var errLimit = fmt.Errorf("stopped after %v", Limit)
