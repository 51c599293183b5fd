package adopt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/shell"
)

// Defaults of a [Config].
const (
	DefaultInterval = 10 * time.Millisecond
	DefaultIdle     = 30 * time.Second
)

// Bounds of the pause before a label that could not be set is tried again.
const (
	firstRetry = 10 * time.Millisecond
	maxRetry   = 5 * time.Second
)

// ErrConfig is wrapped by errors about a [Config]. Errors about Config.Agent wrap [hostagent.ErrConfig] instead.
var ErrConfig = errors.New("adopt: bad config")

// Config sets up an [Agent].
type Config struct {
	// Agent is the core's configuration.
	Agent hostagent.Config
	// Labels finds other programs' queue pairs and sets their path labels.
	Labels labeller.Discoverer
	// Known is a snapshot of the link states that controllers reported before this agent started; nil: none.
	Known *statepb.Update
	// Homes is, for queue pairs that an earlier agent moved off a dead path, the label of that path: see [Agent.Homes].
	Homes map[labeller.QP]fabric.Label
	// Now and Report are as in [shell.Config].
	Now    func() time.Duration
	Report func([]hostagent.Failed)
	// Flipped is called with the queue pairs that move to another path. It must not block, nor call the agent. May be
	// nil.
	Flipped func(...hostagent.Flip)
	// Interval is the time between two searches of [Agent.Run] for new queue pairs. 0: 10 ms.
	Interval time.Duration
	// Idle is the time without packets after which a queue pair loses its label; the agent may notice up to twice as
	// late. 0: 30 s.
	Idle time.Duration
	// Log receives failures to set labels. Nil: not logged.
	Log *slog.Logger
}

// Agent assigns paths to queue pairs that other programs opened, and labels them. Make one with [New].
type Agent struct {
	*shell.Shell
	cfg Config

	// With the shell's lock:
	byKey      map[hostagent.QP]*adoptedQP
	byName     map[labeller.QP]*adoptedQP
	paths      map[labelToToR]int // number of queue pairs
	byUplink   map[int]int        // number of queue pairs, by first uplink
	swept      time.Duration
	unlabelled map[*adoptedQP]bool // moved, but not labelled yet
	retryAt    time.Duration       // when to try these again
	retryPause time.Duration
}

// adoptedQP is an adopted queue pair.
type adoptedQP struct {
	name  labeller.QP
	key   hostagent.QP
	tor   fabric.NodeID
	label fabric.Label
	home  fabric.Label
	since time.Duration
}

// labelToToR is a label towards a ToR.
type labelToToR struct {
	tor   fabric.NodeID
	label fabric.Label
}

// New returns an agent that keeps the labels already set. It clears labels that name no path of the fabric.
func New(c Config) (*Agent, error) {
	if c.Interval == 0 {
		c.Interval = DefaultInterval
	}
	if c.Idle == 0 {
		c.Idle = DefaultIdle
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	a := &Agent{
		cfg: c, byKey: map[hostagent.QP]*adoptedQP{}, byName: map[labeller.QP]*adoptedQP{},
		paths: map[labelToToR]int{}, byUplink: map[int]int{}, unlabelled: map[*adoptedQP]bool{},
	}
	var err error
	if a.Shell, err = shell.New(shell.Config{Agent: c.Agent, Now: c.Now, Report: c.Report}, a.carryOut); err != nil {
		return nil, err
	}
	a.swept = a.Clock()
	switch {
	case c.Labels == nil:
		return nil, fmt.Errorf("%w: Labels: missing", ErrConfig)
	case c.Interval < 0 || c.Idle < 0:
		return nil, fmt.Errorf("%w: Interval %v, Idle %v: below zero", ErrConfig, c.Interval, c.Idle)
	}
	as, err := c.Labels.Assignments()
	if err != nil {
		return nil, fmt.Errorf("adopt: reading existing labels: %w", err)
	}
	var strange []labeller.QP
	err = a.Do(func(core *hostagent.Core, now fabric.Time) error {
		if c.Known != nil {
			core.Update(now, c.Known)
		}
		for _, x := range as {
			if h, ok := a.remote(x.QP.Dst); !ok || a.resume(core, now, x, h) != nil {
				strange = append(strange, x.QP)
			}
		}
		return nil
	})
	return a, errors.Join(err, a.clear(strange))
}

// remote returns the host with an address. ok is false if packets to it need no label.
func (a *Agent) remote(addr netip.Addr) (fabric.NodeID, bool) {
	f := a.cfg.Agent.Fabric
	h, ok := a.Host(addr)
	return h, ok && h != a.cfg.Agent.Host && f.ToROf(h) != f.ToROf(a.cfg.Agent.Host)
}

// resume adds to the core a queue pair that has a label, or is about to get one.
func (a *Agent) resume(core *hostagent.Core, now fabric.Time, x labeller.Assignment, h fabric.NodeID) error {
	home, kept := a.cfg.Homes[x.QP]
	if !kept {
		home = x.Label
	}
	key, err := core.Resume(now, hostagent.Flow{Dst: h, Bytes: 1}, x.Label, home)
	if err != nil && kept {
		home = x.Label
		key, err = core.Resume(now, hostagent.Flow{Dst: h, Bytes: 1}, x.Label, home)
	}
	if err != nil {
		return err
	}
	p := &adoptedQP{name: x.QP, key: key, tor: a.cfg.Agent.Fabric.ToROf(h), label: x.Label, home: home, since: a.Clock()}
	a.byKey[key], a.byName[x.QP] = p, p
	a.count(p, 1)
	return nil
}

func (a *Agent) count(p *adoptedQP, n int) {
	u, _, _ := a.cfg.Agent.Fabric.SplitLabel(p.label)
	a.paths[labelToToR{p.tor, p.label}] += n
	a.byUplink[u] += n
}

// Poll assigns paths to queue pairs seen since the last call, forgets idle ones, and processes expired timers. It
// returns the labeller's errors.
func (a *Agent) Poll() error {
	seen, err := a.cfg.Labels.Unlabelled()
	if err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	var errs []error
	moved := a.Do(func(core *hostagent.Core, now fabric.Time) error {
		core.Tick(now)
		for _, s := range seen {
			h, ok := a.remote(s.QP.Dst)
			if !ok || a.byName[s.QP] != nil || s.Ago > a.cfg.Idle {
				continue
			}
			errs = append(errs, a.adopt(core, now, s, h))
		}
		if at := a.Clock(); at-a.swept >= a.cfg.Idle {
			errs = append(errs, a.sweep(core, now, at))
		}
		return nil
	})
	return errors.Join(append(errs, moved)...)
}

// adopt assigns a path to a queue pair: its present one, if any.
func (a *Agent) adopt(core *hostagent.Core, now fabric.Time, s labeller.Seen, h fabric.NodeID) error {
	if s.Label != nil && a.resume(core, now, labeller.Assignment{QP: s.QP, Label: *s.Label}, h) == nil {
		a.unlabelled[a.byName[s.QP]] = true // setting the same label costs its owner nothing
		return nil
	}
	x := labeller.Assignment{QP: s.QP, Label: a.choose(core, h)}
	if err := a.resume(core, now, x, h); err != nil {
		return fmt.Errorf("adopt: %v: %w", s.QP, err)
	}
	if err := a.cfg.Labels.Set(x); err != nil {
		a.forget(core, now, a.byName[s.QP]) // it was forgotten and seen again
		return errors.Join(fmt.Errorf("adopt: %w", err), a.clear([]labeller.QP{s.QP}))
	}
	return nil
}

// choose returns the good path to a host with the fewest queue pairs.
func (a *Agent) choose(core *hostagent.Core, h fabric.NodeID) fabric.Label {
	f := a.cfg.Agent.Fabric
	tor := f.ToROf(h)
	good := core.GoodPaths(h)
	best := good[0]
	load := func(l fabric.Label) (int, int) {
		u, _, _ := f.SplitLabel(l)
		return a.paths[labelToToR{tor, l}], a.byUplink[u]
	}
	bestPath, bestLink := load(best)
	for _, l := range good[1:] {
		if n, m := load(l); n < bestPath || n == bestPath && m < bestLink {
			best, bestPath, bestLink = l, n, m
		}
	}
	return best
}

func (a *Agent) forget(core *hostagent.Core, now fabric.Time, p *adoptedQP) {
	core.Done(now, p.key)
	a.count(p, -1)
	delete(a.byKey, p.key)
	delete(a.byName, p.name)
	delete(a.unlabelled, p)
}

// sweep forgets the queue pairs without packets since the last sweep.
func (a *Agent) sweep(core *hostagent.Core, now fabric.Time, at time.Duration) error {
	unused, err := a.cfg.Labels.Unused()
	if err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	since := a.swept
	a.swept = at
	var gone []labeller.QP
	for _, q := range unused {
		if p := a.byName[q]; p != nil && p.since <= since {
			gone = append(gone, q)
			a.forget(core, now, p)
		}
	}
	return a.clear(gone)
}

func (a *Agent) clear(qps []labeller.QP) error {
	if err := a.cfg.Labels.Clear(qps...); err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	return nil
}

// carryOut labels the queue pairs that the core moved, and those that could not be labelled before.
func (a *Agent) carryOut(ready hostagent.Ready) error {
	if a.cfg.Flipped != nil {
		a.cfg.Flipped(ready.Flip...)
	}
	for _, f := range ready.Flip {
		if p := a.byKey[f.QP]; p != nil {
			a.count(p, -1)
			p.label = f.To
			a.count(p, 1)
			a.unlabelled[p] = true
			a.retryAt = 0 // something new: at once
		}
	}
	if len(a.unlabelled) == 0 || a.Clock() < a.retryAt {
		return nil
	}
	var errs []error
	for p := range a.unlabelled {
		switch err := a.cfg.Labels.Set(labeller.Assignment{QP: p.name, Label: p.label}); {
		case err == nil, errors.Is(err, labeller.ErrUnknownQP): // its owner has ended
			delete(a.unlabelled, p)
		default:
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		a.retryPause = 0
		return nil
	}
	a.retryPause = min(max(2*a.retryPause, firstRetry), maxRetry)
	a.retryAt = a.Clock() + a.retryPause
	return fmt.Errorf("adopt: %d queue pairs keep their labels, the next attempt is in %v: %w", len(errs), a.retryPause, errors.Join(errs...))
}

// Timeout reports that a queue pair's retransmission timer expired, or that its retries ran out. An unknown queue
// pair is ignored.
func (a *Agent) Timeout(q labeller.QP) error {
	return a.Do(func(core *hostagent.Core, now fabric.Time) error {
		if p := a.byName[q]; p != nil {
			core.Timeout(now, p.key)
		}
		return nil
	})
}

// Adopted returns the labels of all queue pairs that have a path, in order of addresses and numbers.
func (a *Agent) Adopted() []labeller.Assignment {
	var as []labeller.Assignment
	a.Locked(func() {
		for _, p := range a.byName {
			as = append(as, labeller.Assignment{QP: p.name, Label: p.label})
		}
	})
	labeller.Sort(as)
	return as
}

// Homes returns, for each queue pair that was moved off a path, the label of that path, to which it returns later. A
// new agent needs them: it can read only the present labels.
func (a *Agent) Homes() map[labeller.QP]fabric.Label {
	homes := map[labeller.QP]fabric.Label{}
	a.Locked(func() {
		for _, p := range a.byName {
			if p.home != p.label {
				homes[p.name] = p.home
			}
		}
	})
	return homes
}

// Waker is a [labeller.Discoverer] that signals on a channel when there are new queue pairs.
type Waker interface{ Wake() <-chan struct{} }

// Run calls Poll every [Config.Interval], and when a [Waker] signals, until ctx ends. It returns ctx's error. Errors of
// the labeller are logged, and the labels set again later.
func (a *Agent) Run(ctx context.Context) error {
	tick := time.NewTicker(a.cfg.Interval)
	defer tick.Stop()
	var wake <-chan struct{}
	if w, ok := a.cfg.Labels.(Waker); ok {
		wake = w.Wake()
	}
	last := ""
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-wake:
		}
		err := a.Poll()
		if err == nil {
			last = ""
		} else if text := err.Error(); text != last { // the same error is logged once
			last = text
			a.cfg.Log.Error("labels", "err", err)
		}
	}
}
