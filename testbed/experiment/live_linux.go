package experiment

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/gray"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// NewLive returns the live world. The process must be in namespaces that
// live.Enter made; dir is for sockets and logs.
func NewLive(dir string, log *slog.Logger) World { return &liveWorld{dir: dir, log: log} }

type liveWorld struct {
	dir string
	log *slog.Logger
}

// Name implements [World].
func (*liveWorld) Name() string { return Live }

// Run implements [World]: every experiment has a fabric of its own.
func (l *liveWorld) Run(ctx context.Context, e *Experiment, rec *Record) (*report.Result, error) {
	f := e.Fabric
	x, err := live.New(ctx, live.Config{Fabric: f, Dir: l.dir, Payload: int(e.Scenario.Host.Payload), QueueDepth: 512, Log: l.log})
	if err != nil {
		return nil, err
	}
	defer x.Close()
	if err := x.StartHosts(ctx); err != nil {
		return nil, err
	}
	ways := live.Notifiers{
		Quench: e.Notifier.Quench(), GNMI: e.Notifier.GNMI(), QuenchInterval: e.Scenario.Switch.QuenchInterval,
		HashSeed: uint32(e.Scenario.Seeds[0]),
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
	defer h.gray.Heal("") //nolint:errcheck // the namespace goes, too
	w := &wall{
		hands: h, session: session, counters: x.Counters(), gnmi: map[fabric.NodeID]string{}, dial: insecureDial,
		clock: live.Monotonic, eventLog: x.EventLog(),
	}
	for _, id := range switchesOf(f) {
		w.gnmi[id] = "unix:" + x.Socket(id)
	}
	return w.run(ctx, e, rec)
}

// liveHands act on a live fabric.
type liveHands struct {
	x    *live.Fabric
	f    *fabric.Fabric
	ways live.Notifiers
	gray gray.Losses
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

// ends returns the interfaces of a link between switches.
func (h *liveHands) ends(id fabric.LinkID) ([]string, error) {
	l := h.f.Link(id)
	var names []string
	for _, e := range []fabric.End{l.A, l.B} {
		if int(e.Node) < h.f.Hosts() {
			return nil, fmt.Errorf("%s is a host's, with an end elsewhere; name a link between switches", h.f.LinkName(id))
		}
		names = append(names, live.InterfaceName(h.f, e))
	}
	return names, nil
}

func (h *liveHands) Gray(_ context.Context, id fabric.LinkID, loss float64) error {
	names, err := h.ends(id)
	if err != nil {
		return err
	}
	return h.gray.Set(h.f.LinkName(id), names, loss)
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
