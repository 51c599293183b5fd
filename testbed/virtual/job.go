package virtual

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/collective"
	"github.com/ethereal-fabric/ethereal/testbed/workload"
)

// job is what a run carries out: a collective, or a program of several. What it
// posts goes to [world.post].
type job interface {
	start()
	received(collective.ID) error
	sent(collective.ID) error
	done(rank int) bool
	finished() bool
	bound() fabric.Time
}

func (w *world) newJob() (job, error) {
	if w.run.Program != nil {
		r, err := workload.NewRunner(w.run.Program)
		return &program{w: w, Runner: r}, err
	}
	j, err := collective.New(w.run.CollectiveSpec())
	return single{w, j}, err
}

// single is a collective.
type single struct {
	w *world
	*collective.Job
}

func (s single) start()                          { s.Start(s.w.post) }
func (s single) received(id collective.ID) error { return s.Received(id, s.w.post) }
func (s single) sent(id collective.ID) error     { return s.Sent(id) }
func (s single) done(rank int) bool              { return s.Done(rank) }
func (s single) finished() bool                  { return s.Finished() }
func (s single) bound() fabric.Time              { return Bound(s.w.run, s.Job) }

// program is a workload, whose computations take simulated time.
type program struct {
	w *world
	*workload.Runner
	tick fabric.Time // when the next end of a computation is scheduled for; 0: none is
}

func (p *program) start() {
	p.Start(p.w.net.Now(), p.w.post)
	p.schedule()
}

func (p *program) received(id collective.ID) error {
	defer p.schedule()
	return p.Received(p.w.net.Now(), id, p.w.post)
}

func (p *program) sent(id collective.ID) error {
	defer p.schedule()
	return p.Sent(p.w.net.Now(), id, p.w.post)
}

func (p *program) done(rank int) bool { return p.Done(rank) }
func (p *program) finished() bool     { return p.Finished() }
func (p *program) bound() fabric.Time { return programBound(p.w.run) }

// schedule sees to the next end of a computation.
func (p *program) schedule() {
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
		p.Tick(now, p.w.post)
		p.schedule()
		p.w.checkProgram(now)
	})
}

// checkProgram ends the run when a program's last operation is a computation.
func (w *world) checkProgram(now fabric.Time) {
	if w.job.finished() && !w.finished {
		w.finished, w.end = true, now
		w.net.Stop()
	}
}
