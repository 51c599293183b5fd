package experiment

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
)

// lead is how long before a collective begins the hosts are told: on a busy
// machine it takes its time until all have heard.
const lead = 2 * time.Second

// hands do things to a fabric on the wall clock. What one cannot do it refuses
// with an error that says why.
type hands interface {
	Link(ctx context.Context, id fabric.LinkID, up bool) error
	Node(ctx context.Context, id fabric.NodeID, up bool) error
	Gray(ctx context.Context, id fabric.LinkID, loss float64) error
	Rate(ctx context.Context, id fabric.LinkID, rate fabric.Rate) error // 0: as fast as it goes
	Controller(ctx context.Context, up bool) error
	Agent(ctx context.Context, id fabric.NodeID, up bool) error
	Drain(ctx context.Context, name string, drained bool) error
}

// wall runs experiments on switches and hosts that are processes or boxes.
type wall struct {
	hands    hands
	session  *coordinator.Session
	counters coordinator.Counters
	gnmi     map[fabric.NodeID]string // addresses
	dial     dialer
	clock    func() int64 // CLOCK_MONOTONIC in ns
	eventLog string       // of the controller; "": it has none to read
	// setUp readies the fabric for an experiment; nil: it is.
	setUp func(ctx context.Context, run scenario.Run) error
}

// run carries out one experiment.
func (w *wall) run(ctx context.Context, e *Experiment, rec *Record) (*report.Result, error) {
	runs, err := e.Scenario.Expand()
	if err != nil {
		return nil, err
	}
	run := runs[0]
	run.Fabric = e.Fabric
	run.Failure = scenario.Failure{Name: e.Scenario.Name, Notifiers: []scenario.Notifier{e.Notifier}}
	run.Notifier = e.Notifier
	if w.setUp != nil {
		if err := w.setUp(ctx, run); err != nil {
			return nil, err
		}
	}
	var start int64
	var offset time.Duration // of the wall clock from the monotonic one
	opt := coordinator.Options{
		Counters: tolerant{w.counters}, Clock: w.clock, Lead: lead,
		Started: func(at int64) { start, offset = at, time.Duration(time.Now().UnixNano()-w.clock()) },
	}
	for _, s := range e.Steps {
		acts, err := w.acts(run.Fabric, s, rec, func() int64 { return start })
		if err != nil {
			return nil, err
		}
		opt.Acts = append(opt.Acts, acts...)
	}
	watching, stop := context.WithCancel(ctx)
	g, watching := errgroup.WithContext(watching)
	heard := make(chan portNews, 1024)
	for id, addr := range w.gnmi {
		g.Go(func() error { return watchPorts(watching, w.dial, addr, id, w.clock, heard) })
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
			rec.Add(scenario.Happening{At: at(n.at), Kind: "gnmi", Where: run.Fabric.Name(n.node), Text: n.text})
		}
	}
	w.recordResult(result, rec)
	if err := w.recordController(rec, func(t time.Time) fabric.Time { return at(t.UnixNano() - int64(offset)) }); err != nil {
		return nil, err
	}
	return result, nil
}

// recordResult records what the hosts told.
func (w *wall) recordResult(r *report.Result, rec *Record) {
	us := func(t float64) fabric.Time { return fabric.Time(t * float64(fabric.Microsecond)) }
	for _, ev := range r.Timeline {
		switch ev.Kind {
		case report.KindCut, report.KindRestore: // a step, which is recorded
		default:
			rec.Add(scenario.Happening{At: us(ev.Time), Kind: string(ev.Kind), Where: ev.Where, Text: ev.Text})
		}
	}
	for _, f := range r.FlipRecords {
		rec.Add(scenario.Happening{
			At: us(f.Time), Kind: "flip", Where: f.Host,
			Text: fmt.Sprintf("queue pair %d from path %d to %d: %s", f.QP, f.From, f.To, f.Reason),
		})
	}
}

// recordController records what the controller wrote, by its own log.
func (w *wall) recordController(rec *Record, at func(time.Time) fabric.Time) error {
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
		rec.Add(h)
	}
	return lines.Err()
}

// acts returns what a step is on the wall clock.
func (w *wall) acts(f *fabric.Fabric, s Step, rec *Record, start func() int64) ([]coordinator.Act, error) {
	var link fabric.LinkID
	var node fabric.NodeID
	var err error
	if s.Link != "" {
		link, err = f.LinkByName(s.Link)
	}
	if err == nil && s.Node != "" {
		node, err = f.NodeByName(s.Node)
	}
	if err != nil {
		return nil, err
	}
	where := s.Link + s.Node
	if where == "" {
		where = "controller"
	}
	act := func(at fabric.Time, kind Action, timeline report.Kind, cut []fabric.LinkID, do func(context.Context) error) coordinator.Act {
		return coordinator.Act{
			At: at, Event: report.Event{Kind: timeline, Where: where, Text: string(kind)}, Cut: cut,
			Do: func(ctx context.Context) (int64, error) {
				began := w.clock()
				err := do(ctx)
				rec.Add(scenario.Happening{
					At: fabric.Time(began-start()) * fabric.Nanosecond, Kind: string(kind), Where: where,
					Text: fmt.Sprintf("took %.1f ms", float64(w.clock()-began)/1e6),
				})
				if err != nil {
					err = fmt.Errorf("%s %s: %w", kind, where, err)
				}
				return began, err
			},
		}
	}
	one := func(timeline report.Kind, cut []fabric.LinkID, do func(context.Context) error) ([]coordinator.Act, error) {
		return []coordinator.Act{act(s.At, s.Do, timeline, cut, do)}, nil
	}
	switch s.Do {
	case LinkDown, LinkUp:
		if s.Do == LinkUp {
			return one(report.KindRestore, nil, func(ctx context.Context) error { return w.hands.Link(ctx, link, true) })
		}
		return one(report.KindCut, []fabric.LinkID{link}, func(ctx context.Context) error { return w.hands.Link(ctx, link, false) })
	case Flap:
		var out []coordinator.Act
		for i := range s.Times {
			at := s.At + fabric.Time(i)*s.Period
			out = append(out,
				act(at, LinkDown, report.KindCut, []fabric.LinkID{link}, func(ctx context.Context) error { return w.hands.Link(ctx, link, false) }),
				act(at+s.Period/2, LinkUp, report.KindRestore, nil, func(ctx context.Context) error { return w.hands.Link(ctx, link, true) }))
		}
		return out, nil
	case NodeDown:
		var cut []fabric.LinkID
		for p := fabric.PortNo(1); int(p) <= f.Node(node).Ports(); p++ {
			cut = append(cut, f.Node(node).Link(p))
		}
		return one(report.KindCut, cut, func(ctx context.Context) error { return w.hands.Node(ctx, node, false) })
	case NodeUp:
		return one(report.KindRestore, nil, func(ctx context.Context) error { return w.hands.Node(ctx, node, true) })
	case Gray:
		return one("", []fabric.LinkID{link}, func(ctx context.Context) error { return w.hands.Gray(ctx, link, s.Loss) })
	case Rate:
		return one("", nil, func(ctx context.Context) error { return w.hands.Rate(ctx, link, s.Rate) })
	case ControllerDown, ControllerUp:
		return one("", nil, func(ctx context.Context) error { return w.hands.Controller(ctx, s.Do == ControllerUp) })
	case AgentDown, AgentUp:
		return one("", nil, func(ctx context.Context) error { return w.hands.Agent(ctx, node, s.Do == AgentUp) })
	case Drain, Undrain:
		return one("", nil, func(ctx context.Context) error { return w.hands.Drain(ctx, where, s.Do == Drain) })
	}
	return nil, fmt.Errorf("%s: only the virtual world can do it", s.Do)
}

// switchesOf returns the switches of a fabric.
func switchesOf(f *fabric.Fabric) []fabric.NodeID {
	ids := make([]fabric.NodeID, 0, f.Switches())
	for i := range f.Switches() {
		ids = append(ids, fabric.NodeID(f.Hosts()+i))
	}
	return slices.Clip(ids)
}

// tolerant reads counters; a switch that is dead, or has no program yet, has none.
type tolerant struct{ coordinator.Counters }

// Read implements coordinator.Counters.
func (t tolerant) Read(ctx context.Context, id fabric.NodeID) (coordinator.Counted, error) {
	c, err := t.Counters.Read(ctx, id)
	if c := status.Code(err); c == codes.Unavailable || c == codes.FailedPrecondition {
		return coordinator.Counted{}, nil
	}
	return c, err
}
