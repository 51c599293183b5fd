package runner

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
)

// lead is how long before a collective begins the hosts are told: on a busy
// machine it takes its time until all have heard.
const lead = 2 * time.Second

// An actuator does things to a fabric on the wall clock. What it cannot do it refuses
// with an error that says why.
type actuator interface {
	Link(ctx context.Context, id fabric.LinkID, up bool) error
	Node(ctx context.Context, id fabric.NodeID, up bool) error
	Gray(ctx context.Context, id fabric.LinkID, loss float64) error
	Rate(ctx context.Context, id fabric.LinkID, rate fabric.Rate) error // 0: as fast as it goes
	Controller(ctx context.Context, up bool) error
	Agent(ctx context.Context, id fabric.NodeID, up bool) error
	Drain(ctx context.Context, name string, drained bool) error
}

// wall carries out runs on switches and hosts that are processes or boxes.
type wall struct {
	actuator actuator
	session  *coordinator.Session
	fabric   *deployment.Fabric
	clock    func() int64 // CLOCK_MONOTONIC in ns
	eventLog string       // of the controller; "": it has none to read
	unshaped bool         // nobody limits the links between switches to the run's rates
	// setUp readies the fabric for a run; nil: it is.
	setUp func(ctx context.Context, run scenario.Run) error
}

// run carries out one run.
func (w *wall) run(ctx context.Context, run scenario.Run, obs scenario.Observer) (*report.Result, error) {
	tell := func(h scenario.Happening) {
		if obs.Happened != nil {
			obs.Happened(h)
		}
	}
	if w.setUp != nil {
		if err := w.setUp(ctx, run); err != nil {
			return nil, err
		}
	}
	var start int64
	var offset time.Duration // of the wall clock from the monotonic one
	opt := coordinator.Options{
		Counters: w.fabric.Counters, Clock: w.clock, Lead: lead, Unshaped: w.unshaped, Recorder: obs.Recorder,
		Started: func(at int64) { start, offset = at, time.Duration(time.Now().UnixNano()-w.clock()) },
	}
	var err error
	if opt.Acts, err = w.acts(run, tell, func() int64 { return start }); err != nil {
		return nil, err
	}
	run.Events = nil // the acts are what happens
	watching, stop := context.WithCancel(ctx)
	g, watching := errgroup.WithContext(watching)
	heard := make(chan portNews, 1024)
	for id := range w.fabric.Told() {
		g.Go(func() error {
			return w.fabric.Switch(id).Watch(watching, func() {}, func(text string) { heard <- portNews{w.clock(), id, text} })
		})
	}
	var news []portNews
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		for n := range heard {
			news = append(news, n)
		}
	}()
	result, err := w.session.Run(ctx, run, opt)
	stop()
	watchErr := g.Wait()
	close(heard)
	<-collected
	if err != nil {
		return nil, err
	}
	if watchErr != nil && !errors.Is(watchErr, context.Canceled) {
		return nil, watchErr
	}
	at := func(monotonic int64) fabric.Time { return fabric.Time(monotonic-start) * fabric.Nanosecond }
	for _, n := range news {
		if n.at >= start {
			tell(scenario.Happening{At: at(n.at), Kind: "gnmi", Where: run.Fabric.Name(n.node), Text: n.text})
		}
	}
	tellResult(result, tell)
	if err := w.tellController(tell, func(t time.Time) fabric.Time { return at(t.UnixNano() - int64(offset)) }); err != nil {
		return nil, err
	}
	return result, nil
}

// tellResult tells what the hosts told.
func tellResult(r *report.Result, tell func(scenario.Happening)) {
	us := func(t float64) fabric.Time { return fabric.Time(t * float64(fabric.Microsecond)) }
	for _, ev := range r.Timeline {
		switch ev.Kind {
		case report.KindCut, report.KindRestore: // a step, which is recorded
		default:
			tell(scenario.Happening{At: us(ev.Time), Kind: string(ev.Kind), Where: ev.Where, Text: ev.Text})
		}
	}
	for _, f := range r.FlipRecords {
		tell(scenario.Happening{
			At: us(f.Time), Kind: "flip", Where: f.Host,
			Text: fmt.Sprintf("queue pair %d from path %d to %d: %s", f.QP, f.From, f.To, f.Reason),
		})
	}
}

// tellController tells what the controller wrote, by its own log.
func (w *wall) tellController(tell func(scenario.Happening), at func(time.Time) fabric.Time) error {
	if w.eventLog == "" {
		return nil
	}
	text, err := os.ReadFile(w.eventLog)
	if err != nil {
		return fmt.Errorf("the controller's log: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		var r eventlog.Record
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue // it is being written
		}
		t := at(r.Time)
		if t < 0 {
			continue
		}
		h := scenario.Happening{At: t, Where: "controller"}
		switch r.Kind {
		case "change":
			h.Kind, h.Text = "write", fmt.Sprintf("%d updates, %.1f ms after their cause", r.Count, r.Millis)
		case "repair":
			h.Kind, h.Where, h.Text = "write", r.Switch, fmt.Sprintf("%d updates, after reading back", r.Count)
		case "start", "end", "settled":
			h.Kind, h.Text = "controller", r.Kind
		default:
			continue
		}
		tell(h)
	}
	return lines.Err()
}

// acts returns what the run's events are on the wall clock.
func (w *wall) acts(run scenario.Run, tell func(scenario.Happening), start func() int64) ([]coordinator.Act, error) {
	a := &actor{w: w, run: run, tell: tell, start: start, hurt: map[fabric.LinkID]scenario.Action{}}
	for _, e := range run.Failure.Drawn(run.Fabric, run.Seed) {
		if err := a.event(e); err != nil {
			return nil, fmt.Errorf("%v: %w", e, err)
		}
	}
	return a.acts, nil
}

// actor makes acts of events.
type actor struct {
	w     *wall
	run   scenario.Run
	tell  func(scenario.Happening)
	start func() int64
	acts  []coordinator.Act
	hurt  map[fabric.LinkID]scenario.Action // what a link suffers that is not cut: gray or degrade
}

// event adds what an event is.
func (a *actor) event(e scenario.Event) error {
	f, actuator := a.run.Fabric, a.w.actuator
	if e.Direction != scenario.BothWays {
		return errors.New("one direction of a link alone cannot be cut here")
	}
	var node fabric.NodeID
	if e.Node != "" {
		var err error
		if node, err = scenario.NodeNamed(f, e.Node); err != nil {
			return err
		}
	}
	up := e.Action == scenario.ControllerUp || e.Action == scenario.AgentUp || e.Action == scenario.Restore
	switch e.Action {
	case scenario.ControllerDown, scenario.ControllerUp:
		a.add(e.At, e.Action, "", "controller", nil, func(ctx context.Context) error {
			return actuator.Controller(ctx, up)
		})
		return nil
	case scenario.AgentDown, scenario.AgentUp:
		a.add(e.At, e.Action, "", e.Node, nil, func(ctx context.Context) error { return actuator.Agent(ctx, node, up) })
		return nil
	case scenario.Pause, scenario.Resume:
		return fmt.Errorf("%s is the virtual world's: remove the event, or leave out --world", e.Action)
	case scenario.Drain, scenario.Undrain:
		name := e.Node
		if name != "" {
			name = f.Name(node)
		}
		if e.Link != "" {
			links, err := e.Links(f, a.run.Seed)
			if err != nil {
				return err
			}
			name = f.LinkName(links[0])
		}
		a.add(e.At, e.Action, "", name, nil, func(ctx context.Context) error {
			return actuator.Drain(ctx, name, e.Action == scenario.Drain)
		})
		return nil
	}
	links, err := e.Links(f, a.run.Seed)
	if err != nil {
		return err
	}
	if whole := e.Action == scenario.Cut || e.Action == scenario.Restore; whole && e.Node != "" && f.Node(node).Tier != fabric.Host {
		kind, cut := report.KindRestore, []fabric.LinkID(nil)
		if !up {
			kind, cut = report.KindCut, links
		}
		a.add(e.At, e.Action, kind, e.Node, cut, func(ctx context.Context) error {
			return actuator.Node(ctx, node, up)
		})
		return nil
	}
	for _, l := range links {
		a.link(e, l)
	}
	return nil
}

// link adds what an event does to one link.
func (a *actor) link(e scenario.Event, l fabric.LinkID) {
	actuator, name := a.w.actuator, a.run.Fabric.LinkName(l)
	cut := func(at fabric.Time) {
		a.add(at, scenario.Cut, report.KindCut, name, []fabric.LinkID{l}, func(ctx context.Context) error {
			return actuator.Link(ctx, l, false)
		})
	}
	restore := func(at fabric.Time) {
		a.add(at, scenario.Restore, report.KindRestore, name, nil, func(ctx context.Context) error {
			return actuator.Link(ctx, l, true)
		})
	}
	switch e.Action {
	case scenario.Cut:
		cut(e.At)
	case scenario.Flap:
		for i := range fabric.Time(e.Times) {
			cut(e.At + i*e.Period)
			restore(e.At + i*e.Period + e.Down)
		}
	case scenario.Gray:
		a.hurt[l] = e.Action
		a.add(e.At, e.Action, "", name, []fabric.LinkID{l}, func(ctx context.Context) error {
			return actuator.Gray(ctx, l, float64(e.Loss))
		})
	case scenario.Degrade:
		a.hurt[l] = e.Action
		rate := e.Rate
		if rate >= a.run.Fabric.Link(l).Rate {
			rate = 0 // no limit: the link has no rate of its own where packets are real
		}
		a.add(e.At, e.Action, "", name, nil, func(ctx context.Context) error { return actuator.Rate(ctx, l, rate) })
	case scenario.Restore:
		switch a.hurt[l] {
		case scenario.Gray:
			a.add(e.At, e.Action, report.KindRestore, name, nil, func(ctx context.Context) error {
				return actuator.Gray(ctx, l, 0)
			})
		case scenario.Degrade:
			a.add(e.At, e.Action, report.KindRestore, name, nil, func(ctx context.Context) error {
				return actuator.Rate(ctx, l, 0)
			})
		default:
			restore(e.At)
		}
		delete(a.hurt, l)
	}
}

// add adds an act. It is told when it was done and how long that took.
func (a *actor) add(at fabric.Time, kind scenario.Action, timeline report.Kind, where string, cut []fabric.LinkID, do func(context.Context) error) {
	w := a.w
	a.acts = append(a.acts, coordinator.Act{
		At: at, Event: report.Event{Kind: timeline, Where: where, Text: string(kind)}, Cut: cut,
		Do: func(ctx context.Context) (int64, error) {
			began := w.clock()
			err := do(ctx)
			a.tell(scenario.Happening{
				At: fabric.Time(began-a.start()) * fabric.Nanosecond, Kind: string(kind), Where: where,
				Text: fmt.Sprintf("took %.1f ms", float64(w.clock()-began)/1e6),
			})
			if err != nil {
				err = fmt.Errorf("%s %s: %w", kind, where, err)
			}
			return began, err
		},
	})
}

// portNews is what a switch told of its ports.
type portNews struct {
	at   int64 // ns of the clock
	node fabric.NodeID
	text string
}
