package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/recording"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// batch executes runs in parallel and hands on what came of them. It is the one executor: `run` and `experiment` take
// outcomes in the order of the runs, `bench` as they come.
type batch struct {
	run        runner.Run
	runs       []scenario.Run
	parallel   int
	cores      int    // of each run
	events     string // file of the event log; "" for none
	captures   []capture
	trace      string // file of the trace; "" for none
	progress   *progress
	log        *slog.Logger
	recordings []recording.Options               // by run, of the trace
	record     func(scenario.Run) bool           // keep what happens in the run; nil: in none
	asEnded    bool                              // hand on each outcome when its run ends, and keep no result
	done       func(scenario.Run, outcome) error // takes what is handed on, one at a time

	mu       sync.Mutex
	outcomes []outcome
	next     int // first run that has not been handed on, when they are handed on in order
	err      error
}

type outcome struct {
	ended  bool
	result *report.Result
	record *runner.Record
	err    error
	took   time.Duration
}

// capture is a link to capture and the file it goes to.
type capture struct {
	link fabric.LinkID
	path string
}

// parseCaptures reads --pcap arguments. from are the scenarios' files.
func parseCaptures(args []string, runs []scenario.Run, from []string) ([]capture, error) {
	var out []capture
	if len(args) > 0 && len(from) > 1 {
		return nil, errors.New("--pcap: several scenarios; name one")
	}
	for _, arg := range args {
		link, path, ok := strings.Cut(arg, "=")
		if !ok || path == "" {
			return nil, fmt.Errorf("--pcap: %q is not LINK=FILE; write for example tor0-agg0=uplink.pcap", arg)
		}
		id, err := runs[0].Fabric.LinkByName(link)
		if err != nil {
			return nil, fmt.Errorf("--pcap: %s; `ethereal topo --scenario %s -o json` lists the links",
				strings.TrimPrefix(err.Error(), "fabric: "), from[0])
		}
		for _, c := range out {
			if c.path == path {
				return nil, fmt.Errorf("--pcap: %s is named twice; give each link a file of its own", path)
			}
		}
		out = append(out, capture{id, path})
	}
	return out, nil
}

// execute returns the results there are, in the order of the runs, and the
// errors of all runs. When ctx ends, runs that go on stop early and the others
// do not begin; the error is then an errInterrupted, too.
func (b *batch) execute(ctx context.Context) ([]*report.Result, error) {
	b.outcomes = make([]outcome, len(b.runs))
	paint, stop := context.WithCancel(context.Background())
	var painter errgroup.Group
	painter.Go(func() error { b.progress.paint(paint); return nil })

	var workers errgroup.Group
	workers.SetLimit(b.parallel)
	for i := range b.runs {
		if ctx.Err() != nil {
			break
		}
		workers.Go(func() error {
			if ctx.Err() == nil {
				b.one(ctx, i)
			}
			return nil
		})
	}
	_ = workers.Wait() // errors are kept per run
	stop()
	_ = painter.Wait()

	var results []*report.Result
	ended := 0
	for _, o := range b.outcomes {
		if o.result != nil {
			results = append(results, o.result)
		}
		if o.ended && !errors.Is(o.err, context.Canceled) {
			ended++
		}
	}
	err := b.err
	if ctx.Err() != nil {
		err = errors.Join(err, fmt.Errorf("%w: %d of %d runs are complete", errInterrupted, ended, len(b.runs)))
	}
	return results, err
}

// one executes run i.
func (b *batch) one(ctx context.Context, i int) {
	run := b.runs[i]
	b.progress.begin(run)
	b.log.Info("run begins", "run", i+1, "name", run.String())
	start := time.Now()
	record := &runner.Record{}
	result, err := b.observed(ctx, run, record)
	took := time.Since(start)
	b.log.Info("run ends", "run", i+1, "name", run.String(), "took", took, "err", err)

	b.mu.Lock()
	defer b.mu.Unlock()
	b.outcomes[i] = outcome{true, result, record, err, took}
	b.progress.end(run)
	if b.asEnded {
		b.handOn(run, b.outcomes[i])
		b.outcomes[i].result, b.outcomes[i].record = nil, nil
		return
	}
	for ; b.next < len(b.runs) && b.outcomes[b.next].ended; b.next++ {
		b.handOn(b.runs[b.next], b.outcomes[b.next])
	}
}

// handOn reports an outcome. b.mu is held.
func (b *batch) handOn(run scenario.Run, o outcome) {
	if b.asEnded && errors.Is(o.err, context.Canceled) {
		return // it will run again
	}
	b.progress.line(run, o)
	if o.err != nil && !errors.Is(o.err, context.Canceled) {
		b.err = errors.Join(b.err, &runError{run, o.err})
	}
	if err := b.done(run, o); err != nil {
		b.err = errors.Join(b.err, err)
	}
}

// observed executes a run with its files open.
func (b *batch) observed(ctx context.Context, run scenario.Run, record *runner.Record) (_ *report.Result, err error) {
	obs := scenario.Observer{
		Progress: b.progress.watch(run), Log: b.log.With("run", run.Index+1), Cores: coresOf(run, b.cores, min(b.parallel, len(b.runs))),
	}
	if b.record != nil && b.record(run) {
		obs.Happened = record.Add
	}
	if b.events != "" {
		file, err := os.Create(b.path(b.events, run))
		if err != nil {
			return nil, fmt.Errorf("--events: %w", err)
		}
		defer closeFile(file, &err)
		obs.Events = file
	}
	for _, c := range b.captures {
		file, err := os.Create(b.path(c.path, run))
		if err != nil {
			return nil, fmt.Errorf("--pcap: %w", err)
		}
		defer closeFile(file, &err)
		obs.Captures = append(obs.Captures, scenario.Capture{Link: c.link, W: file})
	}
	if b.trace != "" {
		return b.traced(ctx, run, obs)
	}
	return b.run(ctx, run, obs)
}

// checkCores checks how many runs are to be at a time, and on how many cores each.
func checkCores(parallel, cores int) error {
	switch {
	case parallel < 1:
		return fmt.Errorf("--parallel: %d; write 1 or more", parallel)
	case cores < 0:
		return fmt.Errorf("--cores: %d; write 1 or more, or 0 for as many as are left", cores)
	}
	return nil
}

// coresPay is from how many hosts on a run is faster on several cores.
const coresPay = 64

// coresOf returns on how many cores to simulate a run of so many at once: those asked
// for, or those that the runs beside it leave.
func coresOf(run scenario.Run, asked, atOnce int) int {
	switch {
	case asked > 0:
		return asked
	case run.Fabric.Hosts() < coresPay:
		return 1
	}
	return max(1, runtime.GOMAXPROCS(0)/atOnce)
}

// path returns a run's own file.
func (b *batch) path(name string, run scenario.Run) string { return perRun(name, run, len(b.runs)) }

// perRun returns a run's own file: name itself when there is one run only, else
// with the run's slug before the extension.
func perRun(name string, run scenario.Run, runs int) string {
	if runs == 1 {
		return name
	}
	ext := filepath.Ext(name)
	return strings.TrimSuffix(name, ext) + "." + run.Slug() + ext
}

// runError says which run an error is of, once.
type runError struct {
	run scenario.Run
	err error
}

func (e *runError) Error() string {
	return fmt.Sprintf("run %d, %v: %s", e.run.Index+1, e.run, e.what())
}

// what returns the error's text without the run's name, which the runner
// may have put there.
func (e *runError) what() string {
	return strings.Replace(e.err.Error(), e.run.String()+": ", "", 1)
}

func (e *runError) Unwrap() error { return e.err }
