package live

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/monotonic"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
)

// Runner carries out runs of one scenario, one at a time, on a fabric that it
// makes at the first and keeps. Close takes it down.
type Runner struct {
	mu      sync.Mutex
	base    Base
	fabric  *Fabric
	of      *fabric.Fabric
	ways    Notifiers
	session *coordinator.Session
}

// NewRunner returns a runner whose fabrics have base in common.
func NewRunner(base Base) *Runner { return &Runner{base: base} }

// lead is how long before a collective begins the hosts are told. A busy machine
// takes its time until all have heard.
const lead = 500 * time.Millisecond

// Run carries out one run; see coordinator.Session.Run.
func (r *Runner) Run(ctx context.Context, run scenario.Run, obs scenario.Observer) (*report.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(obs.Captures) > 0 {
		return nil, fmt.Errorf("live: %v: links are not captured here; use tcpdump in the fabric's namespace", run)
	}
	if err := Carries(run.Fabric); err != nil {
		return nil, fmt.Errorf("live: %v: %w", run, err)
	}
	if sum := run.Fabric.Spec().HostLink.Rate * fabric.Rate(run.Fabric.Hosts()); sum > carried {
		r.base.Log.Warn("the hosts' links carry more than most machines do: times will be the processor's", "hosts", run.Fabric.Hosts(),
			"together", sum, "some machine's", carried)
	}
	if err := r.ready(ctx, run); err != nil {
		if r.session == nil { // half of a fabric
			r.close()
		}
		return nil, fmt.Errorf("live: %v: %w", run, err)
	}
	r.session.Log(obs.Events)
	reach, err := r.fabric.Reach()
	if err != nil {
		return nil, err
	}
	opt := coordinator.Options{Links: r.fabric, Counters: reach.Counters, Clock: monotonic.Now, Lead: lead, Recorder: obs.Recorder}
	if obs.Progress != nil {
		opt.Progress = func(now fabric.Time) { obs.Progress(scenario.Progress{Now: now}) }
	}
	result, err := r.session.Run(ctx, run, opt)
	if err != nil && result == nil {
		err = fmt.Errorf("live: %v: %w", run, err)
		if e := r.fabric.Check(); e != nil {
			err = fmt.Errorf("%w: %w", err, e)
		}
		r.close()
		return nil, err
	}
	// Whatever the run has done to links is undone.
	if e := r.fabric.Heal(context.WithoutCancel(ctx)); e != nil {
		r.close()
	}
	return result, err
}

// ready has a fabric, a controller and hosts as the run asks for.
func (r *Runner) ready(ctx context.Context, run scenario.Run) error {
	if _, err := coordinator.Settings(run); err != nil {
		return err
	}
	s := run.Scenario
	if r.fabric != nil && r.of != run.Fabric {
		r.close()
	}
	ways := Notifiers{
		Quench: run.Notifier.Quench(), GNMI: run.Notifier.GNMI() || run.Notifier == scenario.NotifyNone,
		QuenchInterval: s.Switch.QuenchInterval,
		KMin:           s.Switch.ECN.KMin, KMax: s.Switch.ECN.KMax, PMax: s.Switch.ECN.PMax, HashSeed: uint32(run.Seed),
		Carrier: s.Host.Carrier,
	}
	if r.fabric == nil {
		r.ways = Notifiers{}
		var err error
		r.fabric, err = New(ctx, Config{
			Base: r.base, Fabric: run.Fabric, Payload: int(s.Host.Payload), QueueDepth: queueDepth(run),
		})
		if err != nil {
			return err
		}
		r.of = run.Fabric
		if err := r.fabric.StartHosts(ctx); err != nil {
			return err
		}
		if r.session, err = coordinator.Connect(ctx, r.fabric.Sockets()); err != nil {
			return err
		}
	}
	if r.ways != ways {
		if err := r.fabric.StartController(ctx, ways); err != nil {
			return err
		}
		r.ways = ways
	}
	return nil
}

// queueDepth is a port's even share of its switch's buffer, in packets.
func queueDepth(run scenario.Run) int {
	s, ports := run.Scenario, 1
	for i := range run.Fabric.Switches() {
		ports = max(ports, run.Fabric.Node(fabric.NodeID(run.Fabric.Hosts()+i)).Ports())
	}
	return int(min(math.MaxInt16, max(64, int64(s.Switch.Buffer)/int64(ports)/int64(s.Host.Payload+headroom))))
}

// Close takes the fabric down.
func (r *Runner) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.close()
}

func (r *Runner) close() {
	if r.session != nil {
		r.session.Close() //nolint:errcheck // the hosts end anyway
		r.session = nil
	}
	if r.fabric != nil {
		r.fabric.Close()
		r.fabric = nil
	}
}

// Reach returns the fabric as the controller that was started reaches it.
func (x *Fabric) Reach() (*deployment.Fabric, error) {
	file, err := daemon.ReadFile(x.path("targets.yaml"))
	if err != nil {
		return nil, err
	}
	cfg := daemon.Config{Core: controller.Config{Fabric: x.f}}
	if err := file.Apply(&cfg); err != nil {
		return nil, err
	}
	return deployment.Open(cfg, func(addr string) (*grpc.ClientConn, error) {
		return grpc.NewClient(addr, append(p4rt.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	})
}

// Lose implements coordinator.Links.
func (x *Fabric) Lose(_ context.Context, id fabric.LinkID, lost bool) (int64, error) {
	err := x.silence(id, lost)
	return monotonic.Now(), err
}

// Tell implements coordinator.Links: an interface at one end of a veth pair goes
// down, and the other end loses its carrier.
func (x *Fabric) Tell(_ context.Context, id fabric.LinkID, up bool) (int64, error) {
	err := x.wires[id][0].setUp(up)
	return monotonic.Now(), err
}

// Heal restores all links and revives all switches, and waits until all links are
// up.
func (x *Fabric) Heal(ctx context.Context) error {
	for i := range x.switches {
		x.mu.Lock()
		dead := x.switches[i] == nil
		x.mu.Unlock()
		if dead {
			if err := x.ReviveSwitch(ctx, fabric.NodeID(x.f.Hosts()+i)); err != nil {
				return err
			}
		}
	}
	for id := range x.wires {
		for _, w := range x.wires[id] {
			up, err := w.isUp()
			if err == nil && !up {
				err = w.setUp(true)
			}
			if err != nil {
				return err
			}
		}
		if _, err := x.Restore(ctx, fabric.LinkID(id), Silently); err != nil {
			return err
		}
	}
	return nil
}
