package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/scenario/sweep"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// bench executes cases in parallel and writes each result when its run ends.
type bench struct {
	app     *app
	run     runner.Run
	version string // goes into every result
	sweep   string
	cases   []sweep.Case
	flags   benchFlags
	out     *os.File

	mu     sync.Mutex
	ended  int
	failed error
	began  time.Time
	work   []virtual.Estimate // of each case
	total  float64            // seconds of all
	done   float64            // of those that ended
}

// execute runs the cases in their order. What ended is in the file when it
// returns, whatever the reason.
func (b *bench) execute(ctx context.Context) error {
	for _, w := range b.work {
		b.total += w.Seconds()
	}
	b.began = time.Now()
	var workers errgroup.Group
	workers.SetLimit(b.flags.parallel)
	for i := range b.cases {
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
	_ = workers.Wait() // errors are kept in b
	if err := b.out.Sync(); err != nil {
		b.failed = errors.Join(b.failed, err)
	}
	switch {
	case ctx.Err() != nil:
		return errors.Join(b.failed, fmt.Errorf("%w: %d of %d runs are in %s; the same command goes on",
			errInterrupted, b.ended, len(b.cases), b.flags.out))
	case b.failed != nil:
		return fmt.Errorf("%w: %w", errRun, b.failed)
	}
	return nil
}

func (b *bench) one(ctx context.Context, i int) {
	c := b.cases[i]
	start := time.Now()
	result, err := b.run(ctx, c.Run, scenario.Observer{Log: b.app.log.With("run", i+1)})
	took := time.Since(start)
	if err != nil && ctx.Err() != nil {
		return // it will run again
	}
	var line bytes.Buffer
	if err == nil {
		result.Version, result.RunSHA256, result.Sweep, result.Variant = b.version, c.Hash, b.sweep, c.Variant
		if !b.flags.full {
			result.Links, result.FlipRecords, result.Timeline = nil, nil, nil
		}
		err = report.Encode(&line, result)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		_, err = b.out.Write(line.Bytes())
	}
	b.ended++
	b.done += b.work[i].Seconds()
	text := ""
	if err != nil {
		e := &runError{c.Run, err}
		b.failed = errors.Join(b.failed, e)
		text = e.what()
	} else {
		text = resultText(result)
	}
	if b.flags.quiet {
		return
	}
	fmt.Fprintf(b.app.stderr, "[%*d/%d] %s: %s (%.1f s)%s\n", len(fmt.Sprint(len(b.cases))), b.ended, len(b.cases),
		caseText(c), text, took.Seconds(), b.left())
}

// left says how much time is left, by the estimates of the runs that are. b.mu is
// held.
func (b *bench) left() string {
	if b.done == 0 || b.ended == len(b.cases) {
		return ""
	}
	return ", " + timeLeft(time.Since(b.began), b.done, b.total)
}

// resultText says in a few words what came of a run.
func resultText(r *report.Result) string {
	switch {
	case r.End == report.Interrupted:
		return fmt.Sprintf("interrupted at %.1f us", r.EndTime)
	case r.CCT == nil:
		return fmt.Sprintf("did not finish (%s)", r.End)
	}
	text := fmt.Sprintf("CCT %.1f us", *r.CCT)
	if s, ok := r.Slowdown(); ok {
		text += fmt.Sprintf(", %.3f x the bound", s)
	}
	return text
}
