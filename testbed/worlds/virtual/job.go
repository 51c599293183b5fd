package virtual

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/workload"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// job is the work of a run: a collective, or a program of several. Its sends go to [world.post].
type job interface {
	start()
	received(fabric.Time, collective.ID) error
	sent(fabric.Time, collective.ID) error
	done(rank int) bool
	finished() bool
	// splits reports whether regions may be simulated side by side while inOrder returns false.
	splits() bool
	// inOrder reports whether an event of a host up to a time might end the run or touch other hosts' data.
	inOrder(by fabric.Time) bool
	bounds() (bound, step *float64)
	steps() []report.Step
	skipped() *report.FastForward
}

func (w *world) newJob() (job, error) {
	if w.run.Program != nil {
		r, err := workload.NewRunner(w.run.Program)
		if err != nil {
			return nil, err
		}
		w.fastForward(r)
		return &workloadJob{w: w, Runner: r}, nil
	}
	j, err := collective.New(w.run.CollectiveSpec())
	return collectiveJob{w, j}, err
}

// collectiveJob is a collective.
type collectiveJob struct {
	w *world
	*collective.Job
}

func (s collectiveJob) sent(_ fabric.Time, id collective.ID) error { return s.Sent(id) }
func (s collectiveJob) done(rank int) bool                         { return s.Done(rank) }
func (s collectiveJob) finished() bool                             { return s.Finished() }
func (s collectiveJob) bounds() (bound, step *float64)             { return Bounds(s.w.run, s.Job) }

func (s collectiveJob) steps() []report.Step         { return nil }
func (s collectiveJob) skipped() *report.FastForward { return nil }

func (s collectiveJob) start() {
	for rank := range s.Spec().Ranks {
		s.w.after(rank, 0, s.w.late.StartDelay(rank), func(now fabric.Time) { s.StartRank(rank, s.w.poster(now)) })
	}
}

func (s collectiveJob) received(now fabric.Time, id collective.ID) error {
	return s.Received(id, s.w.poster(now))
}

// poster returns a function that posts the ranks' sends at a time.
func (w *world) poster(now fabric.Time) func(collective.Send) {
	return func(s collective.Send) {
		w.after(s.Src, now, w.late.SendDelay(s.Src), func(now fabric.Time) {
			if w.clearances == nil {
				w.post(now, s)
				return
			}
			w.net.Serially(w.host(s.Src).id, func(now fabric.Time) { w.clearances.posted(now, s) })
		})
	}
}

// after makes a rank do something after a delay.
func (w *world) after(rank int, now, delay fabric.Time, do func(now fabric.Time)) {
	if delay == 0 {
		do(now)
		return
	}
	w.net.AtNode(w.host(rank).id, now+delay, do)
}

// workloadJob is a workload, whose computations take simulated time.
type workloadJob struct {
	w *world
	*workload.Runner
	tick fabric.Time // time of the next scheduled end of a computation; 0: none

	// No operation ends until then, if the number of steps is the same.
	quietUntil fabric.Time
	quietSteps int
}

func (p *workloadJob) start() {
	p.Start(0, p.w.poster(0))
	p.schedule()
}

func (p *workloadJob) received(now fabric.Time, id collective.ID) error {
	defer p.schedule()
	return p.Received(now, id, p.w.poster(now))
}

func (p *workloadJob) sent(now fabric.Time, id collective.ID) error {
	defer p.schedule()
	return p.Sent(now, id, p.w.poster(now))
}

func (p *workloadJob) done(rank int) bool             { return p.Done(rank) }
func (p *workloadJob) finished() bool                 { return p.Finished() }
func (p *workloadJob) bounds() (bound, step *float64) { return programBounds(p.w.run) }

func (p *workloadJob) skipped() *report.FastForward {
	if p.w.run.Scenario.FastForward == "" {
		return nil
	}
	skipped, all := p.Skipped()
	return &report.FastForward{Skipped: skipped, Of: all}
}

// steps returns the times of the jobs' repetitions. Those of a job have the same bound.
func (p *workloadJob) steps() []report.Step {
	var out []report.Step
	parts, spans := p.w.run.Program.Parts, p.Parts()
	for from := 0; from < len(parts); {
		to := from + 1
		for to < len(parts) && parts[to].Job == parts[from].Job && parts[to].Step == parts[from].Step {
			to++
		}
		s := report.Step{Job: parts[from].Job + 1, Step: parts[from].Step}
		if n := len(out); n > 0 && out[n-1].Job == s.Job {
			s.Bound = out[n-1].Bound
		} else {
			s.Bound = partsBound(p.w.run, from, to)
		}
		for i := from; i < to; i++ {
			part := report.Part{Name: parts[i].Name}
			if spans[i].Begun {
				part.Begin = micros(spans[i].Begin)
			}
			if spans[i].Open == 0 {
				part.End = micros(spans[i].End)
			}
			part.BusBandwidth = report.BusBandwidth(parts[i].BusBytes, part.Begin, part.End)
			s.Parts = append(s.Parts, part)
		}
		last := s.Parts[len(s.Parts)-1]
		for _, part := range s.Parts { // a collective in the background may end last
			if last.End != nil && (part.End == nil || *part.End > *last.End) {
				last = part
			}
		}
		s.Begin, s.End = s.Parts[0].Begin, last.End
		out = append(out, s)
		from = to
	}
	return out
}

// schedule schedules the next end of a computation.
func (p *workloadJob) schedule() {
	at, ok := p.Deadline()
	if !ok || p.tick != 0 && p.tick <= at {
		return
	}
	p.tick = at
	p.w.net.At(at, func(now fabric.Time) {
		if p.tick != at {
			return
		}
		p.tick = 0
		p.Tick(now, p.w.poster(now))
		p.schedule()
		p.w.checkFinished(now)
	})
}

// checkFinished ends the run when all ranks are done: with a message, or, in a program, with a computation.
func (w *world) checkFinished(now fabric.Time) {
	if w.job.finished() && !w.finished {
		w.finished, w.end = true, now
		w.net.Stop()
	}
}
