package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/controller/observe"
	"github.com/ethereal-fabric/ethereal/controller/view"
	"github.com/ethereal-fabric/ethereal/controller/view/viewhttp"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// Limits and intervals of the live fabric's page.
const (
	viewInterval    = 500 * time.Millisecond
	viewDelay       = 50 * time.Millisecond // after an event, so that simultaneous events come together
	viewKeptTicks   = 1200                  // number of updates that the page keeps: ten minutes
	viewEvents      = 200                   // maximum number of events sent to the page per update
	viewFullUse     = 250                   // largest use of a link; see view.Tick
	viewRepeatTicks = 300                   // ticks after which unchanged values are sent again, for pages opened since
)

// viewer collects the page's next tick.
type viewer struct {
	live *viewhttp.Live
	kick chan struct{} // signals an event

	// On the daemon's goroutine: the paths last sent to the page, and the number of ticks since.
	probed []view.Flow
	ticks  int

	mu            sync.Mutex
	events        []view.Event
	leftOutEvents int
}

func newViewer() *viewer {
	return &viewer{live: viewhttp.NewLive(viewKeptTicks), kick: make(chan struct{}, 1)}
}

// View returns the server of the live fabric's page; nil without [Config.View].
func (d *Daemon) View() *viewhttp.Server {
	if d.viewer == nil {
		return nil
	}
	return viewhttp.NewServer(d.viewPage, d.viewer.live).WithSwitchStates(d.viewSwitch)
}

// viewPage returns the initial content of the page; later events follow.
func (d *Daemon) viewPage() (*view.Page, error) {
	run := &view.Run{Title: "live since " + d.began.Format(time.DateTime), QueueUnit: 1, Facts: [][2]string{
		{"use", "of the busiest link's since the controller began, by the switches' counters; what hosts send is not counted"},
		{"queues", "not known: switches do not report them"},
	}}
	run.Nodes, run.Links = view.Graph(d.f)
	return &view.Page{Title: "Ethereal: " + d.cfg.Core.Instance, Live: true, Runs: []*view.Run{run}}, nil
}

// addEvent adds a record of the event log to the next tick.
func (v *viewer) addEvent(f *fabric.Fabric, began time.Time, r eventlog.Record) {
	e := r.Event(f, began)
	v.mu.Lock()
	if len(v.events) < viewEvents {
		v.events = append(v.events, e)
	} else {
		v.leftOutEvents++
	}
	v.mu.Unlock()
	select {
	case v.kick <- struct{}{}:
	default:
	}
}

// publishTicks sends the page its ticks.
func (d *Daemon) publishTicks(ctx context.Context) error {
	timer, soon := time.NewTimer(0), false
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			soon = false
			timer.Reset(viewInterval)
		case <-d.viewer.kick:
			if !soon {
				soon = true
				timer.Reset(viewDelay)
			}
			continue
		}
		t, err := d.viewTick(ctx)
		if err == nil {
			err = d.viewer.live.Send(t)
		}
		if err != nil && ctx.Err() == nil {
			d.cfg.Log.Warn("the page is not updated", "err", err)
		}
	}
}

// viewFacts summarises the page's content. It is called on the daemon's goroutine.
func (d *Daemon) viewFacts(states []string) [][2]string {
	not := map[string]int{}
	for _, s := range states {
		not[s]++
	}
	synced := 0
	for _, dev := range d.switches {
		if d.core.Synced(dev.id) {
			synced++
		}
	}
	facts := [][2]string{
		{"switches as desired", fmt.Sprintf("%d of %d", synced, len(d.switches))}, {"agents", fmt.Sprint(len(d.service.Agents()))},
		{"flips", fmt.Sprint(d.flips)}, {"changes written", fmt.Sprint(d.changes)},
	}
	for _, s := range []string{"down", "drained", "flapping", "suspected"} {
		if not[s] > 0 {
			facts = append(facts, [2]string{"links " + s, fmt.Sprint(not[s])})
		}
	}
	return facts
}

// viewProbed returns the probed paths that the page does not have yet; nil: none. It is called on the daemon's
// goroutine.
func (d *Daemon) viewProbed() []view.Flow {
	v := d.viewer
	probed, ok := d.paths.View(d.f, d.began, time.Now())
	if ok {
		v.probed, v.ticks = probed, 0
		return probed
	}
	if v.ticks++; v.ticks%viewRepeatTicks == 0 {
		return v.probed
	}
	return nil
}

// viewTick returns the fabric's present state.
func (d *Daemon) viewTick(ctx context.Context) (*view.Tick, error) {
	t := &view.Tick{T: float64(time.Since(d.began).Microseconds()), State: make([]string, d.f.Links()), Use: make([]byte, 2*d.f.Links())}
	err := d.runInLoop(ctx, func() {
		for i := range t.State {
			t.State[i] = d.linkState(fabric.LinkID(i))
		}
		t.Facts = d.viewFacts(t.State)
		t.Probed, t.Largest = d.viewProbed(), d.largest.View(d.f, d.began, time.Now())
	})
	if err != nil {
		return nil, err
	}
	rates, busiest, unknown := d.loads.Rates()
	if names := observe.UnreadSwitches(d.f, unknown); len(names) > 0 {
		t.Facts = append(t.Facts, [2]string{"switches whose counters are not read", fmt.Sprint(len(names))})
	}
	if busiest > 0 {
		for dir, r := range rates {
			t.Use[dir] = byte(r / busiest * viewFullUse)
		}
	}
	v := d.viewer
	v.mu.Lock()
	defer v.mu.Unlock()
	t.Events, v.events = v.events, nil
	if v.leftOutEvents > 0 {
		t.Events = append(t.Events, view.Event{T: t.T, Kind: "left out", Node: -1, Dir: -1, Count: int64(v.leftOutEvents)})
		v.leftOutEvents = 0
	}
	return t, nil
}
