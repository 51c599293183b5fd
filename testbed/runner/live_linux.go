package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

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

	mu        sync.Mutex
	fabric    *live.Fabric // nil: none yet
	madeFor   fabricIdentity
	notifiers live.Notifiers
	w         wallClockRunner

	lost atomic.Pointer[context.CancelCauseFunc] // ends the run that goes on
}

// fabricIdentity identifies the configuration that a running fabric was made for.
type fabricIdentity struct {
	of             fabric.Spec
	payload, queue int
}

// NewLive returns the live world. The process must be in namespaces that live.Enter made. It carries out one run at
// a time.
func NewLive(base live.Base) *Live {
	l := &Live{base: base}
	l.base.Lost = func(err error) {
		if end := l.lost.Load(); end != nil {
			(*end)(err)
		}
	}
	return l
}

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
	l.fabric, l.w, l.notifiers = nil, wallClockRunner{}, live.Notifiers{}
}

// Run carries out one run in the live world; see the type [Run]. If the scenario's times were adapted to this world,
// links are cut by gNMI Sets, as operators do. Otherwise they lose all packets silently for the scenario's detection
// time, and then go down.
func (l *Live) Run(ctx context.Context, run scenario.Run, obs scenario.Observer) (*report.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sum := run.Fabric.Spec().HostLink.Rate * fabric.Rate(run.Fabric.Hosts()); sum > live.CarriedTogether {
		l.base.Log.Warn("the hosts' links carry more than most machines do: times will be the processor's", "hosts", run.Fabric.Hosts(),
			"together", sum, "some machine's", live.CarriedTogether)
	}
	asked := ctx
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	l.lost.Store(&end)
	defer l.lost.Store(nil)
	err := errors.Join(live.CheckRates(run.Fabric), l.checkProcesses())
	if err == nil {
		err = l.prepare(ctx, run)
	}
	var result *report.Result
	if err == nil {
		l.w.actuator.Cuts = deployment.BySilence
		if run.Scenario.Slowed != 0 {
			l.w.actuator.Cuts = deployment.BySet
		}
		result, err = l.w.run(ctx, run, obs, l.w.session.Run)
	}
	if err != nil && l.fabric != nil && !errors.Is(err, coordinator.ErrUnsupported) {
		select { // a process's connections end before the process has
		case <-ctx.Done():
		case <-time.After(processEndTimeout):
		}
	}
	lost := l.checkProcesses()
	if lost == nil && asked.Err() == nil && ctx.Err() != nil { // while the fabric was made
		lost = context.Cause(ctx)
	}
	if lost != nil { // whatever the run measured, it was not on the fabric that it asked for
		result, err = nil, lost
	}
	if err == nil {
		return result, nil
	}
	l.close() // its state is unknown
	return result, fmt.Errorf("live: %v: %w", run, err)
}

// processEndTimeout is how long a failed run waits for a process that may be the cause.
const processEndTimeout = 5 * time.Second

// checkProcesses names the fabric's processes that ended though they were not to.
func (l *Live) checkProcesses() error {
	if l.fabric == nil {
		return nil
	}
	return l.fabric.Check()
}

// prepare prepares a fabric, hosts and a controller for the run.
func (l *Live) prepare(ctx context.Context, run scenario.Run) (err error) {
	if _, err := coordinator.Settings(run); err != nil {
		return err
	}
	s := run.Scenario
	want := fabricIdentity{run.Fabric.Spec(), int(s.Host.Payload), live.QueueDepth(run)}
	if l.fabric != nil && l.madeFor != want {
		l.close()
	}
	if l.fabric == nil {
		l.madeFor = want
		l.fabric, err = live.New(ctx, live.Config{Base: l.base, Fabric: run.Fabric, Payload: want.payload, QueueDepth: want.queue})
		if err != nil {
			return err
		}
		if err := l.fabric.StartHosts(ctx); err != nil {
			return err
		}
		l.w = wallClockRunner{eventLog: l.fabric.EventLog(), check: l.fabric.Check}
		if l.w.actuator, err = l.fabric.Actuator(); err != nil {
			return err
		}
		if l.w.session, err = coordinator.Connect(ctx, l.fabric.Sockets()); err != nil {
			return err
		}
	}
	notifiers := live.Notifiers{
		Quench: run.Notifier.Quench(), GNMI: run.Notifier.GNMI() || run.Notifier == scenario.NotifyNone,
		QuenchInterval: s.Switch.QuenchInterval,
		KMin:           s.Switch.ECN.KMin, KMax: s.Switch.ECN.KMax, PMax: s.Switch.ECN.PMax, HashSeed: uint32(run.Seed),
		Carrier: s.Host.Carrier, EqualHashes: s.Switch.EqualHashes,
	}
	if l.notifiers == notifiers {
		return nil
	}
	l.notifiers, l.w.touched = notifiers, false // a new controller
	return l.fabric.StartController(ctx, notifiers)
}
