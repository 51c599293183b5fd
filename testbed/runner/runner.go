package runner

import (
	"context"
	"fmt"
	"sync"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Run carries out one run in a world. When ctx ends, it returns the partial result with the context's error.
type Run func(ctx context.Context, run scenario.Run, obs scenario.Observer) (*report.Result, error)

// Timed wraps a Run for scenarios whose event times are shares of the healthy run's duration: it carries out that
// healthy run first, once for all runs that need it. It is safe for concurrent use if run is.
func Timed(run Run) Run {
	t := &timedRunner{run: run, healthy: map[string]func() (fabric.Time, error){}}
	return t.do
}

type timedRunner struct {
	run     Run
	mu      sync.Mutex
	healthy map[string]func() (fabric.Time, error) // by the hash of the run
}

func (t *timedRunner) do(ctx context.Context, run scenario.Run, obs scenario.Observer) (*report.Result, error) {
	base, shares := run.Healthy()
	var healthy fabric.Time
	if shares {
		var err error
		if healthy, err = t.healthyTime(ctx, base, obs); err != nil {
			return nil, err
		}
		if run, err = run.Timed(healthy); err != nil {
			return nil, err
		}
	}
	result, err := t.run(ctx, run, obs)
	if result != nil {
		result.FirstFailure = firstFailure(run, result, healthy)
		if result.End == report.Deadline || result.End == report.Stalled {
			result.CutOff = run.CutOff(microseconds(result.EndTime))
		}
	}
	return result, err
}

// healthyTime returns the completion time of a healthy run.
func (t *timedRunner) healthyTime(ctx context.Context, run scenario.Run, obs scenario.Observer) (fabric.Time, error) {
	hash, err := run.Hash()
	if err != nil {
		return 0, err
	}
	t.mu.Lock()
	f, ok := t.healthy[hash]
	if !ok {
		f = sync.OnceValues(func() (fabric.Time, error) {
			r, err := t.run(ctx, run, scenario.Observer{Log: obs.Log, Cores: obs.Cores, Regions: obs.Regions})
			switch {
			case err != nil:
				return 0, fmt.Errorf("the healthy run: %w", err)
			case r.CCT == nil:
				return 0, fmt.Errorf("the healthy run, which the times of its events are shares of, did not finish: %s at %g us; raise deadline", r.End, r.EndTime)
			}
			return microseconds(*r.CCT), nil
		})
		t.healthy[hash] = f
	}
	t.mu.Unlock()
	return f()
}

func microseconds(us float64) fabric.Time { return fabric.Time(us * float64(fabric.Microsecond)) }

// firstFailure records the time of the first event of the run's links. healthy is the completion time without
// events; 0 if unknown.
func firstFailure(run scenario.Run, r *report.Result, healthy fabric.Time) *report.FirstFailure {
	if len(run.Events) == 0 {
		return nil
	}
	at := run.Events[0].At
	f := &report.FirstFailure{Case: run.Failure.Case, Time: at.Micros(), AfterEnd: r.CCT != nil && at >= microseconds(*r.CCT)}
	if f.Case == "" {
		f.Case = run.Failure.Name
	}
	if healthy > 0 {
		us := healthy.Micros()
		f.Healthy = &us
	}
	return f
}
