package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// progress shows how a batch goes: a line for each run that ended and, on a
// terminal, one below them that is redrawn. It is safe for concurrent use.
type progress struct {
	w           io.Writer
	names       []string           // of the runs
	estimates   []virtual.Estimate // of each run; nil: none
	began       time.Time
	live, quiet bool

	mu     sync.Mutex
	ended  int
	shown  int     // lines
	work   float64 // estimated seconds of runs that ended
	hops   uint64  // of runs that ended
	active []*activeRun
	drawn  bool
	last   struct {
		at   time.Time
		hops uint64
	}
	rate float64 // packet hops per second of wall time, smoothed
}

// activeRun is a run in progress.
type activeRun struct {
	run scenario.Run
	now scenario.Progress
}

// redrawInterval is how often the live line is redrawn.
const redrawInterval = 100 * time.Millisecond

// newProgress shows the progress of runs whose indices count from 0.
func newProgress(w io.Writer, runs []scenario.Run, estimates []virtual.Estimate, live, quiet bool) *progress {
	names := make([]string, len(runs))
	for i, r := range runs {
		names[i] = r.String()
	}
	return &progress{w: w, names: names, estimates: estimates, began: time.Now(), live: live && !quiet, quiet: quiet}
}

// Paint redraws the live line until ctx ends.
func (p *progress) Paint(ctx context.Context) {
	if !p.live {
		return
	}
	t := time.NewTicker(redrawInterval)
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			p.mu.Lock()
			p.updateRate(now)
			p.draw()
			p.mu.Unlock()
		case <-ctx.Done():
			p.mu.Lock()
			p.erase()
			p.mu.Unlock()
			return
		}
	}
}

// updateRate updates the rate.
func (p *progress) updateRate(now time.Time) {
	hops := p.hops
	for _, w := range p.active {
		hops += w.now.Hops
	}
	if s := now.Sub(p.last.at).Seconds(); !p.last.at.IsZero() && s > 0 && hops >= p.last.hops {
		p.rate += 0.3 * (float64(hops-p.last.hops)/s - p.rate)
	}
	p.last.at, p.last.hops = now, hops
}

func (p *progress) Begin(run scenario.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active = append(p.active, &activeRun{run: run})
}

// Watch returns the callback for a run's progress.
func (p *progress) Watch(run scenario.Run) func(scenario.Progress) {
	if !p.live {
		return nil
	}
	return func(now scenario.Progress) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, w := range p.active {
			if w.run.Index == run.Index {
				w.now = now
			}
		}
	}
}

func (p *progress) End(run scenario.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended++
	if p.estimates != nil {
		p.work += p.estimates[run.Index].Seconds()
	}
	for i, w := range p.active {
		if w.run.Index == run.Index {
			p.hops += w.now.Hops
			p.active = append(p.active[:i], p.active[i+1:]...)
			break
		}
	}
}

// Line shows how a run ended.
func (p *progress) Line(o *runner.Outcome) {
	if p.quiet {
		return
	}
	var what string
	if o.Err != nil && o.Result == nil {
		what = o.ErrorText()
	} else {
		what = resultText(o.Result)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	left, ok := p.timeLeft(time.Now())
	if ok {
		left = ", " + left
	}
	p.shown++
	total := len(p.names)
	fmt.Fprintf(p.w, "[%*d/%d] %s: %s (%.1f s)%s\n", len(fmt.Sprint(total)), p.shown, total, p.names[o.Run.Index], what, o.Took.Seconds(), left)
	p.draw()
}

// resultText returns the outcome of a run in a few words.
func resultText(r *report.Result) string {
	switch {
	case r.End == report.Interrupted:
		return "interrupted at " + microsText(r.EndTime)
	case r.CCT == nil:
		return fmt.Sprintf("did not finish (%s)", r.End)
	}
	text := "CCT " + microsText(*r.CCT)
	if s, ok := r.Slowdown(); ok {
		text += fmt.Sprintf(", %.3f x the bound", s)
	}
	return text
}

// microsText prints microseconds in a unit that suits them.
func microsText(us float64) string { return fabric.Time(us * float64(fabric.Microsecond)).Rough() }

// draw shows the live line. p.mu is held.
func (p *progress) draw() {
	if !p.live || len(p.active) == 0 {
		return
	}
	first := p.active[0]
	for _, w := range p.active {
		if w.run.Index < first.run.Index {
			first = w
		}
	}
	parts := []string{
		fmt.Sprintf("%d of %d done, %d running", p.ended, len(p.names), len(p.active)),
		fmt.Sprintf("%s at %.3f ms", p.names[first.run.Index], first.now.Now.Micros()/1000),
	}
	if p.rate > 0 {
		parts = append(parts, fmt.Sprintf("%.2f M packet hops/s", p.rate/1e6))
	}
	if left, ok := p.timeLeft(time.Now()); ok {
		parts = append(parts[:1], append([]string{left}, parts[1:]...)...)
	}
	text := []rune(strings.Join(parts, " | "))
	const widest = 119 // more would wrap, and a wrapped line cannot be redrawn
	if len(text) > widest {
		text = text[:widest]
	}
	p.drawn = true
	fmt.Fprintf(p.w, "\r\033[K%s", string(text))
}

// timeLeft returns the estimated remaining time as text: the estimates give the part of the work that is done, the
// clock how long it took. p.mu is held.
func (p *progress) timeLeft(now time.Time) (text string, ok bool) {
	all, done := 0.0, p.work
	for _, e := range p.estimates {
		all += e.Seconds()
	}
	for _, w := range p.active {
		if p.estimates != nil {
			done += p.estimates[w.run.Index].Done(w.now.Hops)
		}
	}
	if done <= 0 || done >= all {
		return "", false
	}
	return estimateLeft(now.Sub(p.began), done, all), true
}

// estimateLeft estimates the remaining time, if done of all work took the given time.
func estimateLeft(took time.Duration, done, all float64) string {
	left := time.Duration(float64(took) * (all - done) / done)
	return fmt.Sprintf("about %v left", left.Round(max(time.Second, left.Round(time.Minute)/60)))
}

// erase removes the live line. p.mu is held.
func (p *progress) erase() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\033[K")
		p.drawn = false
	}
}
