package runner

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/durable"
	"github.com/ethereal-fabric/ethereal/testbed/recording"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// ErrInterrupted is wrapped by the error of a batch whose context ended.
var ErrInterrupted = errors.New("interrupted")

// Batch executes runs, several at once, and delivers their outcomes in the order of the runs or as they end.
type Batch struct {
	Run        Run
	Runs       []scenario.Run // their indices count from 0
	World      string
	Parallel   int
	Cores      int    // per run; see [CoresOf]
	Events     string // file of the event log; "" for none
	Flows      string // file of each message's completion time; "" for none
	Captures   []Capture
	Trace      string                 // file of the trace; "" for none
	Recordings []recording.Options    // recording options of each run
	Record     bool                   // record every run; otherwise only those with expectations
	AsEnded    bool                   // deliver each outcome when its run ends, and keep no results
	Done       func(o *Outcome) error // receives the outcomes, one at a time
	Progress   Progress
	Log        *slog.Logger

	mu       sync.Mutex
	outcomes []*Outcome // nil: not ended
	next     int        // next run to pass on, if in order
	err      error
}

// Progress shows the progress of a batch. It is safe for concurrent use.
type Progress interface {
	Begin(scenario.Run)
	Watch(scenario.Run) func(scenario.Progress) // nil: not shown
	End(scenario.Run)
	Line(*Outcome)             // for a run whose outcome is passed on
	Paint(ctx context.Context) // redraws until ctx ends
}

// Capture is a link to capture and its file.
type Capture struct {
	Link fabric.LinkID
	Path string
}

// Execute returns the existing results, in the order of the runs, and the errors of all runs. When ctx ends, runs
// in progress stop early and the others do not begin; the error is then also an [ErrInterrupted].
func (b *Batch) Execute(ctx context.Context) ([]*report.Result, error) {
	b.outcomes = make([]*Outcome, len(b.Runs))
	paint, stop := context.WithCancel(context.Background())
	var painter errgroup.Group
	painter.Go(func() error { b.Progress.Paint(paint); return nil })

	var workers errgroup.Group
	workers.SetLimit(b.Parallel)
	for i := range b.Runs {
		if ctx.Err() != nil {
			break
		}
		workers.Go(func() error {
			if ctx.Err() == nil {
				b.runIndex(ctx, i)
			}
			return nil
		})
	}
	_ = workers.Wait() // errors are stored per run
	stop()
	_ = painter.Wait()

	var results []*report.Result
	ended := 0
	for _, o := range b.outcomes {
		if o == nil {
			continue
		}
		if o.Result != nil {
			results = append(results, o.Result)
		}
		if !errors.Is(o.Err, context.Canceled) {
			ended++
		}
	}
	err := b.err
	if ctx.Err() != nil {
		err = errors.Join(err, fmt.Errorf("%w: %d of %d runs are complete", ErrInterrupted, ended, len(b.Runs)))
	}
	return results, err
}

// runIndex executes run i.
func (b *Batch) runIndex(ctx context.Context, i int) {
	o := &Outcome{Run: b.Runs[i], World: b.World, Record: &Record{}}
	b.Progress.Begin(o.Run)
	b.Log.Info("run begins", "run", i+1, "name", o.Run.String())
	start := time.Now()
	o.Result, o.Err = b.runObserved(ctx, o.Run, o.Record)
	o.Took = time.Since(start)
	b.Log.Info("run ends", "run", i+1, "name", o.Run.String(), "took", o.Took, "err", o.Err)

	b.mu.Lock()
	defer b.mu.Unlock()
	b.outcomes[i] = o
	b.Progress.End(o.Run)
	if b.AsEnded {
		b.deliver(o)
		o.Result, o.Record = nil, nil
		return
	}
	for ; b.next < len(b.Runs) && b.outcomes[b.next] != nil; b.next++ {
		b.deliver(b.outcomes[b.next])
	}
}

// deliver passes on an outcome. b.mu is held.
func (b *Batch) deliver(o *Outcome) {
	canceled := errors.Is(o.Err, context.Canceled)
	if b.AsEnded && canceled {
		return // the run will be repeated
	}
	b.Progress.Line(o)
	if o.Err != nil && !canceled {
		b.err = errors.Join(b.err, &runError{o})
	}
	if err := b.Done(o); err != nil {
		b.err = errors.Join(b.err, err)
	}
}

// runObserved executes a run with its files open.
func (b *Batch) runObserved(ctx context.Context, run scenario.Run, record *Record) (_ *report.Result, err error) {
	obs := scenario.Observer{
		Progress: b.Progress.Watch(run), Log: b.Log.With("run", run.Index+1), Cores: CoresOf(run, b.Cores, min(b.Parallel, len(b.Runs))),
	}
	if b.Record || len(run.Scenario.Expect) > 0 {
		obs.Happened = record.Add
	}
	if b.Events != "" {
		file, err := durable.Create(ctx, FileOf(b.Events, run, len(b.Runs)))
		if err != nil {
			return nil, fmt.Errorf("--events: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		obs.Events = file
	}
	if b.Flows != "" {
		file, err := durable.Create(ctx, FileOf(b.Flows, run, len(b.Runs)))
		if err != nil {
			return nil, fmt.Errorf("--flows: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		obs.Flows = file
	}
	for _, c := range b.Captures {
		file, err := durable.Create(ctx, FileOf(c.Path, run, len(b.Runs)))
		if err != nil {
			return nil, fmt.Errorf("--pcap: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		obs.Captures = append(obs.Captures, scenario.Capture{Link: c.Link, W: file})
	}
	if b.Trace != "" {
		return b.runTraced(ctx, run, obs)
	}
	return b.Run(ctx, run, obs)
}

// runTraced executes a run and writes its trace, even after an interruption.
func (b *Batch) runTraced(ctx context.Context, run scenario.Run, obs scenario.Observer) (_ *report.Result, err error) {
	file, err := durable.Create(ctx, FileOf(b.Trace, run, len(b.Runs)))
	if err != nil {
		return nil, fmt.Errorf("--trace: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	rec := recording.New(run.Fabric, b.Recordings[run.Index])
	obs.Recorder = rec
	result, err := b.Run(ctx, run, obs)
	if result == nil {
		return nil, err
	}
	written := rec.End(result)
	var wrong error
	if strings.HasSuffix(b.Trace, ".gz") {
		packed := gzip.NewWriter(file)
		wrong = errors.Join(written.Write(packed), packed.Close())
	} else {
		wrong = written.Write(file)
	}
	if wrong != nil {
		err = errors.Join(err, fmt.Errorf("--trace: %w", wrong))
	}
	if written.Left > 0 {
		b.Log.Warn("the trace is full; choose --trace-window or --trace-hosts", "run", run.Index+1, "left out", written.Left)
	}
	return result, err
}

// minHostsForCores is the number of hosts from which a run is faster on several cores.
const minHostsForCores = 64

// CoresOf returns the number of cores on which to simulate a run, with atOnce runs side by side: asked, or, if that
// is 0, the cores that the other runs leave.
func CoresOf(run scenario.Run, asked, atOnce int) int {
	switch {
	case asked > 0:
		return asked
	case run.Fabric.Hosts() < minHostsForCores:
		return 1
	}
	return max(1, runtime.GOMAXPROCS(0)/atOnce)
}

// FileOf returns a run's file: name itself if there is only one run, otherwise with the run's slug before the
// extension.
func FileOf(name string, run scenario.Run, runs int) string {
	if runs == 1 {
		return name
	}
	ext := filepath.Ext(name)
	return strings.TrimSuffix(name, ext) + "." + run.Slug() + ext
}

// runError names the run of an error, once.
type runError struct{ o *Outcome }

func (e *runError) Error() string {
	return fmt.Sprintf("run %d, %v: %s", e.o.Run.Index+1, e.o.Run, e.o.ErrorText())
}

func (e *runError) Unwrap() error { return e.o.Err }

// ErrorText returns the text of Err without the run's name, which its world may have added.
func (o *Outcome) ErrorText() string {
	return strings.Replace(o.Err.Error(), o.Run.String()+": ", "", 1)
}
