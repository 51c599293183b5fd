package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/monotonic"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
)

// startLead is the minimum time before a collective's start at which the hosts are notified of it.
const startLead = 500 * time.Millisecond

// Time limits for a fabric to be ready for a run, and restored after it.
const (
	readyLimit = 30 * time.Second
	healLimit  = 30 * time.Second
)

// wallClockRunner executes runs on the wall clock, on switches and hosts that are processes or real devices.
type wallClockRunner struct {
	actuator *deployment.Actuator
	session  *coordinator.Session
	eventLog string       // the controller's; "": none
	unshaped bool         // the links between switches are not limited to the run's rates
	touched  bool         // a run changed the fabric, and its controller remembers that
	check    func() error // names processes of the fabric that ended unasked; nil: it has others to look after them
}

// runCarrier carries out a run's messages and acts: [coordinator.Session.Run], or beside a program.
type runCarrier func(ctx context.Context, run scenario.Run, opt coordinator.Options) (*report.Result, error)

// run carries out one run and then undoes its acts.
func (w *wallClockRunner) run(ctx context.Context, run scenario.Run, obs scenario.Observer, carry runCarrier) (result *report.Result, err error) {
	if _, err := coordinator.Settings(run); err != nil {
		return nil, err
	}
	acts, err := w.actuator.Acts(run)
	if err != nil {
		return nil, err
	}
	if err := w.restartController(ctx); err != nil {
		return nil, err
	}
	w.touched = len(acts) > 0
	defer func() { err = errors.Join(err, w.undoActs(context.WithoutCancel(ctx))) }()
	t := &eventReporter{f: run.Fabric, obs: obs}
	stop := func() error { return nil }
	if run.Notifier.GNMI() || run.Notifier == scenario.NotifyNone { // otherwise the switches' reports are unused
		if stop, err = w.watchPorts(ctx, t); err != nil {
			return nil, err
		}
	}
	w.session.Log(obs.Events)
	opt := coordinator.Options{
		Counters: w.actuator.Fabric.Counters, Clock: monotonic.Now, Lead: startLead, Unshaped: w.unshaped, Recorder: obs.Recorder,
		Acts: acts, Started: t.started, Did: t.actDone,
	}
	if obs.Progress != nil {
		opt.Progress = func(now fabric.Time) { obs.Progress(scenario.Progress{Now: now}) }
	}
	result, err = carry(ctx, run, opt)
	if watching := stop(); err == nil {
		err = watching
	}
	if result == nil {
		return nil, err
	}
	t.result(result)
	return result, errors.Join(err, t.controller(w.eventLog))
}

// restartController replaces the controller by one without memory of earlier runs, because a controller goes on damping
// a link that flapped. It waits until all agents follow the new one.
func (w *wallClockRunner) restartController(ctx context.Context) error {
	if w.actuator.Control == nil {
		return nil
	}
	if w.touched {
		if err := errors.Join(w.actuator.SetControllerRunning(ctx, false), w.actuator.SetControllerRunning(ctx, true)); err != nil {
			return fmt.Errorf("a fresh controller: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		stats, err := w.session.Stats(ctx)
		if err != nil {
			return err
		}
		deaf := 0
		for _, s := range stats {
			if s.Controller == "" {
				deaf++
			}
		}
		if deaf == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d agents have not found the controller within %v", deaf, readyLimit)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// undoActs undoes the acts, and waits until the fabric is whole.
func (w *wallClockRunner) undoActs(ctx context.Context) error {
	if !w.touched {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, healLimit)
	defer cancel()
	if err := w.actuator.Undo(ctx); err != nil || w.session.Ended() != nil || w.check != nil && w.check() != nil { // it will not be whole
		return err
	}
	return w.actuator.WaitUntilUp(ctx)
}

// watchPorts follows the ports of all switches that report them. It returns when all have reported their states; stop
// ends it.
func (w *wallClockRunner) watchPorts(ctx context.Context, t *eventReporter) (stop func() error, err error) {
	watching, cancel := context.WithCancel(ctx)
	g, watching := errgroup.WithContext(watching)
	ready := make(chan struct{})
	var waiting sync.WaitGroup
	for id := range w.actuator.Fabric.Reporting() {
		waiting.Add(1)
		var once sync.Once
		s := w.actuator.Fabric.Switch(id)
		g.Go(func() error {
			return s.Watch(watching, func() { once.Do(waiting.Done) }, func(text string) { t.port(s.Name, text) })
		})
	}
	go func() { waiting.Wait(); close(ready) }()
	stop = func() error {
		cancel()
		if err := g.Wait(); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
	select {
	case <-ready:
		return stop, nil
	case <-watching.Done():
		err = watching.Err()
	case <-time.After(readyLimit):
		err = fmt.Errorf("not all switches report their ports' states over gNMI within %v", readyLimit)
	}
	return nil, errors.Join(err, stop())
}

// eventReporter reports a run's events, on its clock.
type eventReporter struct {
	f   *fabric.Fabric
	obs scenario.Observer

	mu     sync.Mutex
	start  int64         // 0: not yet
	offset time.Duration // of the wall clock relative to the monotonic one
	ports  []portNews    // reports from before the start is known
}

// portNews is a switch's report about its ports.
type portNews struct {
	at          int64
	where, text string
}

// runTime converts a moment to a time in the run.
func (t *eventReporter) runTime(monotonic int64) fabric.Time {
	return fabric.Time(monotonic-t.start) * fabric.Nanosecond
}

// report reports an event, unless it happened before the run.
func (t *eventReporter) report(e report.Event) {
	if e.Time >= 0 {
		t.obs.Report(e)
	}
}

// started records when the run starts.
func (t *eventReporter) started(at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.start, t.offset = at, time.Duration(time.Now().UnixNano()-monotonic.Now())
}

// port records a switch's report.
func (t *eventReporter) port(where, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ports = append(t.ports, portNews{monotonic.Now(), where, text})
}

// actDone reports an act and its duration.
func (t *eventReporter) actDone(a deployment.Act, began, done int64) {
	text := fmt.Sprintf("took %.1f ms", float64(done-began)/1e6)
	if a.Text != "" {
		text = a.Text + ", " + text
	}
	t.report(report.EventAt(t.runTime(began), report.Kind(a.Name), a.Where, text))
}

// result adds the reports of the switches and the hosts.
func (t *eventReporter) result(r *report.Result) {
	for _, n := range t.ports {
		t.report(report.EventAt(t.runTime(n.at), report.KindGNMI, n.where, n.text))
	}
	for _, ev := range r.Timeline {
		switch ev.Kind {
		case report.KindCut, report.KindRestore, report.KindDetect: // an act, reported already
		default:
			t.report(ev)
		}
	}
	for _, f := range r.FlipRecords {
		t.report(f.Event())
	}
}

// controller adds the controller's actions, from its log.
func (t *eventReporter) controller(file string) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the controller's log: %w; correct event_log in the deployment", err)
	}
	if err != nil {
		return fmt.Errorf("the controller's log: %w", err)
	}
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		text = text[:i] // the rest is still being written
	}
	_, err = eventlog.Records(bytes.NewReader(text), func(_ int, r eventlog.Record) error {
		at := t.runTime(r.Time.UnixNano() - int64(t.offset))
		switch r.Kind {
		case "write":
			t.report(report.EventAt(at, report.KindWrite, r.Switch, fmt.Sprintf("%d updates", r.Count)))
		case "start", "end", "settled":
			t.report(report.EventAt(at, "controller", "controller", r.Kind))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the controller's log: %s: %w", strings.TrimSpace(file), err)
	}
	return nil
}
