package runner

import (
	"context"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/monotonic"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// Live is the live world: processes on this machine.
type Live struct {
	base live.Base
	kept *live.Runner
}

// NewLive returns the live world. The process must be in namespaces that live.Enter
// made. It carries out one run at a time.
func NewLive(base live.Base) *Live { return &Live{base: base, kept: live.NewRunner(base)} }

// Close ends what the world's runs have shared.
func (l *Live) Close() { l.kept.Close() }

// Run is a [Run]. A run of a scenario that was stretched to this world, or that does
// something to the control plane, has a fabric of its own, and its links are cut as
// operators do. The others share one, whose links are cut and told of as the scenario
// says.
func (l *Live) Run(ctx context.Context, run scenario.Run, obs scenario.Observer) (*report.Result, error) {
	s := run.Scenario
	if s.Slowed == 0 && len(run.Interventions) == 0 {
		return l.kept.Run(ctx, run, obs)
	}
	l.kept.Close()
	f := run.Fabric
	x, err := live.New(ctx, live.Config{Base: l.base, Fabric: f, Payload: int(s.Host.Payload), QueueDepth: 512})
	if err != nil {
		return nil, err
	}
	defer x.Close()
	if err := x.StartHosts(ctx); err != nil {
		return nil, err
	}
	ways := live.Notifiers{
		Quench: run.Notifier.Quench(), GNMI: run.Notifier.GNMI() || run.Notifier == scenario.NotifyNone,
		QuenchInterval: s.Switch.QuenchInterval, HashSeed: uint32(run.Seed), Carrier: s.Host.Carrier,
	}
	if err := x.StartController(ctx, ways); err != nil {
		return nil, err
	}
	var sockets []string
	for h := range f.Hosts() {
		sockets = append(sockets, x.Socket(fabric.NodeID(h)))
	}
	session, err := coordinator.Connect(ctx, sockets)
	if err != nil {
		return nil, err
	}
	defer session.Close() //nolint:errcheck // the hosts end anyway
	h := &liveHands{x: x, f: f, ways: ways}
	reach, err := x.Reach()
	if err != nil {
		return nil, err
	}
	w := &wall{actuator: h, session: session, fabric: reach, clock: monotonic.Now, eventLog: x.EventLog()}
	return w.run(ctx, run, obs)
}

// liveHands act on a live fabric.
type liveHands struct {
	x    *live.Fabric
	f    *fabric.Fabric
	ways live.Notifiers
}

func (h *liveHands) Link(ctx context.Context, id fabric.LinkID, up bool) (err error) {
	if up {
		_, err = h.x.Restore(ctx, id, live.GNMI)
	} else {
		_, err = h.x.Cut(ctx, id, live.GNMI)
	}
	return err
}

func (h *liveHands) Node(ctx context.Context, id fabric.NodeID, up bool) error {
	if up {
		return h.x.ReviveSwitch(ctx, id)
	}
	return h.x.KillSwitch(id)
}

// Gray asks the fabric, whose links all have both ends here.
func (h *liveHands) Gray(ctx context.Context, id fabric.LinkID, loss float64) (err error) {
	if loss == 0 {
		_, err = h.x.Lose(ctx, id, false)
	} else {
		_, err = h.x.Impair(ctx, id, scenario.BothWays, loss, 0)
	}
	return err
}

// Rate asks the fabric, which shapes its links itself.
func (h *liveHands) Rate(ctx context.Context, id fabric.LinkID, rate fabric.Rate) error {
	if rate == 0 {
		rate = h.f.Link(id).Rate
	}
	_, err := h.x.Impair(ctx, id, scenario.BothWays, 0, rate)
	return err
}

func (h *liveHands) Controller(ctx context.Context, up bool) error {
	if up {
		return h.x.StartController(ctx, h.ways)
	}
	return h.x.KillController()
}

func (h *liveHands) Agent(_ context.Context, id fabric.NodeID, up bool) error {
	return h.x.StallHost(id, !up)
}

func (h *liveHands) Drain(ctx context.Context, name string, drained bool) error {
	return h.x.Drain(ctx, name, drained)
}
