package virtual

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/sim/hugepages"
)

// Lab is what all runs share: the compiled P4 program and its P4Info. It is safe for concurrent use.
type Lab struct {
	program *program.Program
	schema  *p4rt.Schema

	untraced bool          // for tests: every packet through the interpreter
	log      *eventlog.Log // for tests: of the controllers; nil: none
}

// NewLab compiles the embedded P4 program.
func NewLab() (*Lab, error) {
	program, err := program.Load(p4src.V1ModelJSON())
	if err != nil {
		return nil, fmt.Errorf("virtual: the embedded P4 program: %w", err)
	}
	schema, err := p4rt.NewSchema(p4src.V1ModelP4Info())
	if err != nil {
		return nil, fmt.Errorf("virtual: the embedded P4Info: %w", err)
	}
	return &Lab{program: program, schema: schema}, nil
}

// The part of the heap for which huge pages are requested, in bytes of address space: more than a packet-level run of a
// thousand GPUs takes, and more than some runs below smallFabricHosts hosts take. Each GiB costs about 8 ms at once.
const (
	heapAheadBytes   = 1 << 30
	smallHeapAhead   = 64 << 20
	smallFabricHosts = 64
)

// Runner returns a function that carries out runs; the first call compiles the P4 program.
func Runner() func(context.Context, scenario.Run, scenario.Observer) (*report.Result, error) {
	// Without huge pages it is slower, so errors are ignored.
	prefer := sync.OnceFunc(func() { _ = hugepages.Prefer(heapAheadBytes) })
	preferFew := sync.OnceFunc(func() { _ = hugepages.Prefer(smallHeapAhead) })
	lab := sync.OnceValues(NewLab)
	return func(ctx context.Context, run scenario.Run, obs scenario.Observer) (*report.Result, error) {
		if run.Fabric.Hosts() < smallFabricHosts {
			preferFew()
		} else {
			prefer()
		}
		l, err := lab()
		if err != nil {
			return nil, err
		}
		return l.Run(ctx, run, obs)
	}
}

// Run carries out one run. If ctx ends early it returns the partial result, marked as not finished, with ctx's
// error.
func (l *Lab) Run(ctx context.Context, run scenario.Run, obs scenario.Observer) (*report.Result, error) {
	began := time.Now() // of the machine, for the report only
	w, err := newWorld(l, run, obs, nil)
	if err != nil {
		return nil, fmt.Errorf("virtual: %v: %w", run, err)
	}
	err = w.simulate(ctx)
	if err != nil && !errors.Is(err, context.Cause(ctx)) {
		return nil, fmt.Errorf("virtual: %v: %w", run, err)
	}
	result, measured := w.measure()
	if measured != nil {
		return nil, fmt.Errorf("virtual: %v: %w", run, measured)
	}
	if err != nil {
		result.End = report.Interrupted
	} else if !w.finished && w.net.Now() < run.Scenario.Deadline {
		result.End = report.Stalled
	}
	result.WallMS = float64(time.Since(began).Microseconds()) / 1000
	return result, err
}

// simulate runs the network to the collective's end or the scenario's deadline.
func (w *world) simulate(ctx context.Context) error {
	w.start()
	step := progressEvery
	if every := w.obs.Recorder.Every(); every > 0 {
		step = every
	}
	reported := fabric.Time(0)
	err := w.net.RunSteps(ctx, w.run.Scenario.Deadline, step, func() (more bool) {
		if w.fault != nil {
			return false
		}
		w.obs.Recorder.Read(w.net, framing(w.run), func(h fabric.NodeID) *transport.Endpoint { return w.hosts[h].nic })
		if now := w.net.Now(); now-reported >= progressEvery || w.finished {
			w.reportProgress()
			reported = now
		}
		return !w.finished
	})
	if err == nil && w.fault != nil {
		return w.fault
	}
	return err
}

// progressEvery is the simulated time between two progress reports.
const progressEvery = 20 * fabric.Microsecond

func (w *world) reportProgress() {
	if w.obs.Progress == nil {
		return
	}
	p := w.net.Progress()
	w.obs.Progress(scenario.Progress{Now: p.Now, Hops: uint64(p.Hops), Events: uint64(p.Events)})
}
