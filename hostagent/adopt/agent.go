package adopt

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
)

// Defaults of a [Config].
const (
	DefaultInterval = 10 * time.Millisecond
	DefaultIdle     = 30 * time.Second
)

// ErrConfig is wrapped by errors about a [Config] that are not the core's.
var ErrConfig = errors.New("adopt: bad config")

// Config says for which host an [Agent] decides.
type Config struct {
	// Agent is the core's configuration.
	Agent hostagent.Config
	// Labels finds queue pairs and labels them.
	Labels labeller.Discoverer
	// HostOf finds the host that has an address. Nil: the fabric's own plan,
	// [fabric.Fabric.HostByAddr].
	HostOf func(netip.Addr) (fabric.NodeID, bool)
	// Interval is how often [Agent.Run] looks for new queue pairs. 0: 10 ms.
	Interval time.Duration
	// Idle is after how long without a packet, at least, a queue pair loses its
	// label; it may take twice that. 0: 30 s.
	Idle time.Duration
	// Now is the clock, in time since some fixed point. Nil: the monotonic
	// clock.
	Now func() time.Duration
}

// Agent gives paths to other programs' queue pairs. Make one with [New].
type Agent struct {
	cfg Config

	mu     sync.Mutex
	core   *hostagent.Core
	byKey  map[hostagent.QP]*pair
	byName map[labeller.QP]*pair
	paths  map[path]int // queue pairs on it
	links  map[int]int  // queue pairs by first uplink
	swept  time.Duration
}

// pair is an adopted queue pair.
type pair struct {
	name  labeller.QP
	key   hostagent.QP
	tor   fabric.NodeID
	label fabric.Label
	since time.Duration
}

// path is a label towards a ToR.
type path struct {
	tor   fabric.NodeID
	label fabric.Label
}

// New returns an agent that has taken over what is labelled already. Labels that
// name no path of the fabric are cleared.
func New(c Config) (*Agent, error) {
	core, err := hostagent.New(c.Agent)
	if err != nil {
		return nil, err
	}
	switch {
	case c.Labels == nil:
		return nil, fmt.Errorf("%w: Labels: missing", ErrConfig)
	case c.Interval < 0 || c.Idle < 0:
		return nil, fmt.Errorf("%w: Interval %v, Idle %v: below zero", ErrConfig, c.Interval, c.Idle)
	}
	if c.HostOf == nil {
		c.HostOf = c.Agent.Fabric.HostByAddr
	}
	if c.Interval == 0 {
		c.Interval = DefaultInterval
	}
	if c.Idle == 0 {
		c.Idle = DefaultIdle
	}
	if c.Now == nil {
		start := time.Now()
		c.Now = func() time.Duration { return time.Since(start) }
	}
	a := &Agent{
		cfg: c, core: core, byKey: map[hostagent.QP]*pair{}, byName: map[labeller.QP]*pair{},
		paths: map[path]int{}, links: map[int]int{}, swept: c.Now(),
	}
	as, err := c.Labels.Assignments()
	if err != nil {
		return nil, fmt.Errorf("adopt: what is labelled already: %w", err)
	}
	var strange []labeller.QP
	for _, x := range as {
		if h, ok := a.remote(x.QP.Dst); !ok || a.resume(x, h) != nil {
			strange = append(strange, x.QP)
		}
	}
	if err := c.Labels.Clear(strange...); err != nil {
		return nil, fmt.Errorf("adopt: %w", err)
	}
	return a, nil
}

// remote returns the host with an address, if packets to it need a label.
func (a *Agent) remote(addr netip.Addr) (fabric.NodeID, bool) {
	f := a.cfg.Agent.Fabric
	h, ok := a.cfg.HostOf(addr.Unmap())
	return h, ok && h != a.cfg.Agent.Host && f.ToROf(h) != f.ToROf(a.cfg.Agent.Host)
}

func (a *Agent) time() fabric.Time {
	return fabric.Time(a.cfg.Now().Nanoseconds()) * fabric.Nanosecond
}

// resume has the core know a queue pair that has, or is about to get, a label.
func (a *Agent) resume(x labeller.Assignment, h fabric.NodeID) error {
	key, err := a.core.Resume(a.time(), hostagent.Flow{Dst: h, Bytes: 1}, x.Label)
	if err != nil {
		return err
	}
	p := &pair{name: x.QP, key: key, tor: a.cfg.Agent.Fabric.ToROf(h), label: x.Label, since: a.cfg.Now()}
	a.byKey[key], a.byName[x.QP] = p, p
	a.count(p, 1)
	return nil
}

func (a *Agent) count(p *pair, n int) {
	u, _, _ := a.cfg.Agent.Fabric.SplitLabel(p.label)
	a.paths[path{p.tor, p.label}] += n
	a.links[u] += n
}

// Poll adopts the queue pairs that were seen since, and forgets those that went
// quiet. It returns the labeller's errors.
func (a *Agent) Poll() error {
	seen, err := a.cfg.Labels.Unlabelled()
	if err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var as []labeller.Assignment
	for _, s := range seen {
		h, ok := a.remote(s.QP.Dst)
		if !ok || a.byName[s.QP] != nil || s.Ago > a.cfg.Idle {
			continue
		}
		x := labeller.Assignment{QP: s.QP, Label: a.choose(h)}
		if err := a.resume(x, h); err != nil {
			return fmt.Errorf("adopt: %v: %w", s.QP, err)
		}
		as = append(as, x)
	}
	errs := []error{a.set(as), a.settle()}
	if now := a.cfg.Now(); now-a.swept >= a.cfg.Idle {
		errs = append(errs, a.sweep(now))
	}
	return errors.Join(errs...)
}

// set labels new queue pairs. What cannot be labelled is forgotten, and found
// again.
func (a *Agent) set(as []labeller.Assignment) error {
	for i, x := range as {
		if err := a.cfg.Labels.Set(x); err != nil {
			for _, y := range as[i:] {
				a.forget(a.byName[y.QP])
			}
			return fmt.Errorf("adopt: %w", err)
		}
	}
	return nil
}

// choose returns the good path to a host that carries the fewest queue pairs.
func (a *Agent) choose(h fabric.NodeID) fabric.Label {
	f := a.cfg.Agent.Fabric
	tor := f.ToROf(h)
	good := a.core.GoodPaths(h)
	best := good[0]
	load := func(l fabric.Label) (int, int) {
		u, _, _ := f.SplitLabel(l)
		return a.paths[path{tor, l}], a.links[u]
	}
	bestPath, bestLink := load(best)
	for _, l := range good[1:] {
		if n, m := load(l); n < bestPath || n == bestPath && m < bestLink {
			best, bestPath, bestLink = l, n, m
		}
	}
	return best
}

func (a *Agent) forget(p *pair) {
	a.core.Done(a.time(), p.key)
	a.count(p, -1)
	delete(a.byKey, p.key)
	delete(a.byName, p.name)
}

// sweep forgets the queue pairs of which nothing passed since the last sweep.
func (a *Agent) sweep(now time.Duration) error {
	unused, err := a.cfg.Labels.Unused()
	if err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	since := a.swept
	a.swept = now
	var gone []labeller.QP
	for _, q := range unused {
		if p := a.byName[q]; p != nil && p.since <= since {
			gone = append(gone, q)
			a.forget(p)
		}
	}
	if err := a.cfg.Labels.Clear(gone...); err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	return nil
}

// settle labels what the core moved.
func (a *Agent) settle() error {
	var as []labeller.Assignment
	for _, f := range a.core.Ready().Flip {
		if p := a.byKey[f.QP]; p != nil {
			a.count(p, -1)
			p.label = f.To
			a.count(p, 1)
			as = append(as, labeller.Assignment{QP: p.name, Label: f.To})
		}
	}
	if err := a.cfg.Labels.Set(as...); err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	return nil
}

// Update takes a controller's word. Queue pairs on dead paths have other labels
// when it returns.
func (a *Agent) Update(u *statepb.Update) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.core.Update(a.time(), u)
	return a.settle()
}

// Quench takes a switch's word: the UDP payload of a datagram to
// hostagent.QuenchPort, and its source address. Forged and useless ones change
// nothing.
func (a *Agent) Quench(payload []byte, src netip.Addr) (hostagent.Verdict, error) {
	q, err := hostagent.ParseQuench(payload, src)
	if err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	v := a.core.Quench(a.time(), q)
	return v, a.settle()
}

// Adopted returns the queue pairs that have a path, in the order of addresses and
// numbers.
func (a *Agent) Adopted() []labeller.Assignment {
	a.mu.Lock()
	defer a.mu.Unlock()
	as := make([]labeller.Assignment, 0, len(a.byName))
	for _, p := range a.byName {
		as = append(as, labeller.Assignment{QP: p.name, Label: p.label})
	}
	labeller.Sort(as)
	return as
}

// Run polls every [Config.Interval], and does what becomes due by time, until ctx
// ends. It returns ctx's error, or the labeller's; a labeller that has no room
// for another queue pair is no reason to end.
func (a *Agent) Run(ctx context.Context) error {
	tick := time.NewTicker(a.cfg.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		a.mu.Lock()
		a.core.Tick(a.time())
		a.mu.Unlock()
		if err := a.Poll(); err != nil && !errors.Is(err, labeller.ErrFull) {
			return err
		}
	}
}
