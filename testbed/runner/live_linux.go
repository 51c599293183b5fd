package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// Live is the live world: processes on this machine. Runs on the same fabric share it.
type Live struct {
	base live.Base

	mu     sync.Mutex
	fabric *live.Fabric // nil: none yet
	made   made
	ways   live.Notifiers
	w      wall
}

// made identifies what a fabric was made for.
type made struct {
	of             fabric.Spec
	payload, queue int
}

// NewLive returns the live world. The process must be in namespaces that live.Enter made. It carries out one run at
// a time.
func NewLive(base live.Base) *Live { return &Live{base: base} }

// Close ends the fabric.
func (l *Live) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close()
}

func (l *Live) close() {
	if l.w.session != nil {
		l.w.session.Close() //nolint:errcheck // the hosts end anyway
	}
	if l.fabric != nil {
		l.fabric.Close()
	}
	l.fabric, l.w, l.ways = nil, wall{}, live.Notifiers{}
}

// Run is a [Run]. If the scenario was stretched to this world, links are cut by gNMI, as operators do. Otherwise
// they are silent for the detection time first, as the scenario says.
func (l *Live) Run(ctx context.Context, run scenario.Run, obs scenario.Observer) (*report.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sum := run.Fabric.Spec().HostLink.Rate * fabric.Rate(run.Fabric.Hosts()); sum > live.Carried {
		l.base.Log.Warn("the hosts' links carry more than most machines do: times will be the processor's", "hosts", run.Fabric.Hosts(),
			"together", sum, "some machine's", live.Carried)
	}
	err := live.Carries(run.Fabric)
	if err == nil {
		err = l.ready(ctx, run)
	}
	var result *report.Result
	if err == nil {
		l.w.actuator.Cuts = deployment.BySilence
		if run.Scenario.Slowed != 0 {
			l.w.actuator.Cuts = deployment.BySet
		}
		result, err = l.w.run(ctx, run, obs)
	}
	if err == nil {
		return result, nil
	}
	err = fmt.Errorf("live: %v: %w", run, err)
	if l.fabric != nil {
		err = errors.Join(err, l.fabric.Check())
	}
	l.close() // its state is unknown
	return result, err
}

// ready prepares a fabric, hosts and a controller for the run.
func (l *Live) ready(ctx context.Context, run scenario.Run) (err error) {
	if _, err := coordinator.Settings(run); err != nil {
		return err
	}
	s := run.Scenario
	want := made{run.Fabric.Spec(), int(s.Host.Payload), live.QueueDepth(run)}
	if l.fabric != nil && l.made != want {
		l.close()
	}
	if l.fabric == nil {
		l.made = want
		l.fabric, err = live.New(ctx, live.Config{Base: l.base, Fabric: run.Fabric, Payload: want.payload, QueueDepth: want.queue})
		if err != nil {
			return err
		}
		if err := l.fabric.StartHosts(ctx); err != nil {
			return err
		}
		l.w = wall{eventLog: l.fabric.EventLog()}
		if l.w.actuator, err = l.fabric.Actuator(); err != nil {
			return err
		}
		if l.w.session, err = coordinator.Connect(ctx, l.fabric.Sockets()); err != nil {
			return err
		}
	}
	ways := live.Notifiers{
		Quench: run.Notifier.Quench(), GNMI: run.Notifier.GNMI() || run.Notifier == scenario.NotifyNone,
		QuenchInterval: s.Switch.QuenchInterval,
		KMin:           s.Switch.ECN.KMin, KMax: s.Switch.ECN.KMax, PMax: s.Switch.ECN.PMax, HashSeed: uint32(run.Seed),
		Carrier: s.Host.Carrier,
	}
	if l.ways == ways {
		return nil
	}
	l.ways, l.w.touched = ways, false // a new controller
	return l.fabric.StartController(ctx, ways)
}
