//go:build linux

package coordinator_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/monotonic"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/hostprocess"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
	"github.com/ethereal-fabric/ethereal/testbed/recording"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
)

// cable is one end of what joins two hosts. It swallows frames while it is cut.
type cable struct {
	*porttest.Memory
	cut *atomic.Bool
}

func (c cable) Send(frames [][]byte) int {
	if c.cut.Load() {
		return len(frames)
	}
	return c.Memory.Send(frames)
}

// hosts are two of them, real but for the fabric between: a cable, so that there is one path.
type hosts struct {
	sockets  []string
	cut      atomic.Bool
	notified atomic.Int32
	stop     context.CancelFunc
	done     chan error
}

const text = `
name: pair
fabric:
  kind: leaf-spine
  tors: 2
  spines: 1
  hosts_per_tor: 1
  host_link: {rate: 100Mb/s, delay: 1us}
  tor_uplink: {rate: 100Mb/s, delay: 1us}
host: {payload: 1024B, rto: 20ms, congestion_control: none, receiver: go-back-n}
collectives: [{kind: all-to-all, bytes: 2MB}]
schemes: [ethereal]
failures:
  - name: healthy
  - name: cut and restored
    events:
      - {at: 5ms, link: tor0-spine0, action: cut, detection: 1ms}
      - {at: 150ms, link: tor0-spine0, action: restore, detection: 1ms}
    notifiers: [all, timeout]
  - name: gray
    events: [{at: 5ms, link: tor0-spine0, action: gray, loss: 1%}]
    notifiers: [all]
deadline: 20s
`

func runs(t *testing.T) []scenario.Run {
	t.Helper()
	s, err := scenario.Parse("pair.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// newHosts starts the hosts; ahead is by how much the second one's clock is ahead of this machine's, if it is another.
func newHosts(t *testing.T, f *fabric.Fabric, ahead ...time.Duration) *hosts {
	t.Helper()
	dir, err := os.MkdirTemp("", "hosts") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	a, b := porttest.Pair(256)
	h := &hosts{done: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	var g errgroup.Group
	for i, end := range []*porttest.Memory{a, b} {
		path := filepath.Join(dir, f.Name(fabric.NodeID(i)))
		lis, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		var clock func() hostproto.Clock
		if i > 0 && len(ahead) > 0 {
			clock = func() hostproto.Clock { return hostproto.Clock{Of: "another", Now: monotonic.Now() + int64(ahead[0])} }
		}
		p, err := hostprocess.NewProcess(hostprocess.ProcessConfig{
			Fabric: f, Host: fabric.NodeID(i), Port: cable{end, &h.cut}, Listen: lis, Log: slog.New(slog.DiscardHandler),
			Dial:  func(addr string) (*grpc.ClientConn, error) { return nil, fmt.Errorf("no controller at %s", addr) },
			Clock: clock,
		})
		if err != nil {
			t.Fatal(err)
		}
		h.sockets = append(h.sockets, path)
		g.Go(func() error { return p.Run(ctx) })
	}
	go func() { h.done <- g.Wait() }()
	t.Cleanup(func() {
		h.end(t)
		os.RemoveAll(dir)
	})
	return h
}

// end ends the hosts, once.
func (h *hosts) end(t *testing.T) {
	if h.stop == nil {
		return
	}
	h.stop()
	h.stop = nil
	if err := <-h.done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// do carries out what an actuator orders: the cable drops frames, and both ends report it.
func (h *hosts) do(_ context.Context, o deployment.Order) error {
	switch o.Do {
	case "gray":
		h.cut.Store(o.Loss == 1)
	case "link-down", "link-up":
		h.notified.Add(1)
	}
	return nil
}

// acts returns what the run's events are on the cable.
func (h *hosts) acts(t *testing.T, run scenario.Run) []deployment.Act {
	t.Helper()
	reach, err := deployment.Open(daemon.Config{Core: controller.Config{Fabric: run.Fabric}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	acts, err := (&deployment.Actuator{Fabric: reach, Cuts: deployment.BySilence, Control: h.do}).Acts(run)
	if err != nil {
		t.Fatal(err)
	}
	return acts
}

func connect(t *testing.T, h *hosts) *coordinator.Session {
	t.Helper()
	s, err := coordinator.Connect(t.Context(), h.sockets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestRun has two hosts play a collective, healthy, over a link that is cut and comes back, reported or not, and
// again on the same session: all bytes arrive, and the result says what happened, in order of time. A machine that
// stops a host past the cut and the repair shows neither, so a run has three goes.
func TestRun(t *testing.T) {
	all := runs(t)
	h := newHosts(t, all[0].Fabric)
	s := connect(t, h)
	for _, run := range all[:3] {
		if err := etherealtest.Retry(t, 3, func() error { _, err := played(t, s, h, run); return err }); err != nil {
			t.Errorf("%v: %v", run, err)
		}
	}
}

// played plays the run and says all that is wrong with its result.
func played(t *testing.T, s *coordinator.Session, h *hosts, run scenario.Run) (*report.Result, error) {
	h.notified.Store(0)
	var log bytes.Buffer
	s.Log(&log)
	started := int64(0)
	rec := recording.New(run.Fabric, recording.Options{})
	r, err := s.Run(t.Context(), run, coordinator.Options{
		Acts: h.acts(t, run), Clock: monotonic.Now, Lead: 200 * time.Millisecond, Started: func(at int64) { started = at }, Recorder: rec,
	})
	if err != nil {
		return nil, err
	}
	if !r.Finished || r.CCT == nil || r.Bound == nil || *r.CCT < *r.Bound || started == 0 {
		return nil, fmt.Errorf("finished %v, CCT %v, bound %v, started %d", r.Finished, r.CCT, r.Bound, started)
	}
	var wrong []error
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	messages, phases := 0, map[fabric.NodeID]bool{}
	for _, x := range rec.End(r).Slices {
		switch x.Kind {
		case recording.Message:
			if messages++; x.Open || x.Received == 0 || x.Begin < 0 || x.Received < x.Begin || x.End < x.Begin {
				note("a message in the trace: %+v", x)
			}
		case recording.Phase:
			phases[x.Node] = true
		}
	}
	if hosts := run.Fabric.Hosts(); messages < hosts || len(phases) != hosts {
		note("%d messages and phases of %d ranks in the trace, of %d hosts", messages, len(phases), hosts)
	}
	if !strings.Contains(log.String(), `"kind":"done"`) {
		note("the log has no end of a rank: %.300s", log.String())
	}
	if !slices.IsSortedFunc(r.Timeline, func(a, b report.Event) int { return cmp.Compare(a.Time, b.Time) }) {
		note("the timeline is not in order: %+v", r.Timeline)
	}
	var kinds, want []report.Kind
	for _, e := range r.Timeline {
		if slices.Contains([]report.Kind{report.KindCut, report.KindDetect, report.KindRestore}, e.Kind) {
			kinds = append(kinds, e.Kind)
		}
	}
	detected := int32(0)
	switch {
	case len(run.Events) == 0:
	case run.Notifier == scenario.NotifyTimeout:
		want = []report.Kind{report.KindCut, report.KindRestore}
	default:
		want, detected = []report.Kind{report.KindCut, report.KindDetect, report.KindRestore, report.KindDetect}, 2
	}
	if !slices.Equal(kinds, want) || h.notified.Load() != detected {
		note("%v, and %d times notified; want %v and %d", kinds, h.notified.Load(), want, detected)
	}
	if cut := len(run.Events) > 0; cut && (r.Retransmissions == 0 || r.LostToFailure == 0 || *r.CCT < 150_000) {
		note("%d sent again, %d lost, CCT %v us, and the link was away until 150 ms", r.Retransmissions, r.LostToFailure, *r.CCT)
	}
	if len(run.Events) > 0 && *r.Bound < 150_000 {
		note("bound %v us; the only path was away until 150 ms", *r.Bound)
	}
	for _, l := range r.Links {
		if l.From == "h0" && (l.DataBytes < 1_000_000 || l.Link != "h0-tor0") {
			note("%+v: the host sends 1 MB over its link", l)
		}
	}
	return r, errors.Join(wrong...)
}

// TestClocks: a host whose clock is hours ahead, or behind, begins when the other does, and its times are the other's.
// The result says how its clock was read, and that is right to within what it says.
func TestClocks(t *testing.T) {
	all := runs(t)
	for _, ahead := range []time.Duration{5 * time.Hour, -90 * time.Second} {
		h := newHosts(t, all[0].Fabric, ahead)
		s := connect(t, h)
		for _, run := range all[:2] {
			var r *report.Result
			err := etherealtest.Retry(t, 3, func() (err error) {
				r, err = played(t, s, h, run)
				return err
			})
			if err != nil {
				t.Errorf("%v ahead, %v: %v", ahead, run, err)
				continue
			}
			var seconds, within float64
			e := r.Timeline[0]
			if _, err := fmt.Sscanf(e.Text, "a clock %f s ahead of the one here, within %f us", &seconds, &within); err != nil ||
				e.Kind != report.KindClock || e.Where != "h1" || math.Abs(seconds-ahead.Seconds())*1e6 > within+1 {
				t.Errorf("%v ahead, %v: %+v: %v", ahead, run, e, err)
			}
		}
		h.end(t)
	}
}

// TestActs: what is done besides a run's events stands on the timeline; an error of one ends the run.
func TestActs(t *testing.T) {
	run := runs(t)[0]
	h := newHosts(t, run.Fabric)
	s := connect(t, h)
	act := func(err error) deployment.Act {
		return deployment.Act{
			At: fabric.Millisecond, Timeline: report.KindCut, Where: "tor0-spine0", Links: []scenario.LinkEvent{{Link: 2}},
			Do: func(context.Context) error { return err },
		}
	}
	options := func(a deployment.Act) coordinator.Options {
		return coordinator.Options{Clock: monotonic.Now, Lead: 200 * time.Millisecond, Acts: []deployment.Act{a}}
	}
	r, err := s.Run(t.Context(), run, options(act(nil)))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(r.Timeline, func(e report.Event) bool {
		return e.Kind == report.KindCut && e.Where == "tor0-spine0" && e.Time >= 1000
	}) {
		t.Errorf("the act is not on the timeline: %+v", r.Timeline)
	}
	broken := errors.New("the hand slipped")
	if _, err := s.Run(t.Context(), run, options(act(broken))); !errors.Is(err, broken) {
		t.Errorf("%v; want %v", err, broken)
	}
}

// TestRefused: what hosts and links cannot do here is refused before anything begins, and said.
func TestRefused(t *testing.T) {
	all := runs(t)
	h := newHosts(t, all[0].Fabric)
	s := connect(t, h)
	opt := coordinator.Options{Clock: monotonic.Now}
	for _, c := range []struct {
		name string
		run  scenario.Run
		opt  coordinator.Options
		want string
	}{
		{"nobody cuts links", all[1], coordinator.Options{Clock: monotonic.Now}, "links cannot be cut here"},
		{"receivers that reorder", with(all[0], "reps"), opt, "receivers"},
		{"switches that balance", with(all[0], "ofan"), opt, ""},
	} {
		if _, err := s.Run(t.Context(), c.run, c.opt); !errors.Is(err, coordinator.ErrUnsupported) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	larger, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 2})
	if err != nil {
		t.Fatal(err)
	}
	run := all[0]
	run.Fabric = larger
	if _, err := s.Run(t.Context(), run, opt); err == nil || !strings.Contains(err.Error(), "2 hosts for a fabric of 4") {
		t.Errorf("a fabric of four hosts: %v", err)
	}
}

// with returns the run with another scheme, whose receivers are its own.
func with(run scenario.Run, scheme string) scenario.Run {
	s := *run.Scenario
	s.Host.Receiver = scenario.SchemeReceiver
	run.Scenario, run.Scheme = &s, scenario.Scheme{Name: scheme}
	return run
}

// TestDeadline: a run that does not end in time is given up at its deadline; one that is interrupted says so. The
// session is good for another run.
func TestDeadline(t *testing.T) {
	run := runs(t)[0]
	h := newHosts(t, run.Fabric)
	s := connect(t, h)
	short := *run.Scenario
	short.Deadline = 2 * fabric.Millisecond
	late := run
	late.Scenario = &short
	opt := coordinator.Options{Clock: monotonic.Now, Lead: 200 * time.Millisecond}
	r, err := s.Run(t.Context(), late, opt)
	if err != nil || r.Finished || r.End != report.Deadline {
		t.Errorf("%+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	opt.Acts = []deployment.Act{{At: 2 * fabric.Millisecond, Do: func(context.Context) error { cancel(); return nil }}}
	if r, err = s.Run(ctx, run, opt); !errors.Is(err, context.Canceled) || r == nil || r.End != report.Interrupted {
		t.Errorf("%+v, %v", r, err)
	}
	opt.Acts = nil
	if r, err = s.Run(t.Context(), run, opt); err != nil || !r.Finished {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestHostEnds: a host that goes is named, whether it is asked or listened to.
func TestHostEnds(t *testing.T) {
	run := runs(t)[0]
	h := newHosts(t, run.Fabric)
	s := connect(t, h)
	opt := coordinator.Options{Clock: monotonic.Now, Lead: 100 * time.Millisecond, Started: func(int64) { h.end(t) }}
	if _, err := s.Run(t.Context(), run, opt); err == nil || !strings.Contains(err.Error(), h.sockets[0]) && !strings.Contains(err.Error(), h.sockets[1]) {
		t.Errorf("%v; want the socket of the host that has ended", err)
	}
	if _, err := s.Stats(t.Context()); err == nil {
		t.Error("counts of hosts that have ended")
	}
	if _, err := coordinator.Connect(t.Context(), h.sockets); err == nil {
		t.Error("connected to hosts that have ended")
	}
}

// TestTransfers moves single messages.
func TestTransfers(t *testing.T) {
	run := runs(t)[0]
	h := newHosts(t, run.Fabric)
	s := connect(t, h)
	set, err := coordinator.Settings(run)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Configure(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	h.cut.Store(true)
	if err := s.Post(t.Context(), coordinator.Transfer{Src: 0, Dst: 1, Bytes: 5000}, coordinator.Transfer{Src: 1, Dst: 0, Bytes: 1}); err != nil {
		t.Fatal(err)
	}
	arrived := func() bool { return s.OpenMessages() == 0 }
	if err := s.RunUntil(t.Context(), 10*time.Millisecond, "they arrive", arrived); !errors.Is(err, coordinator.ErrTimeout) || !strings.Contains(err.Error(), "they arrive") {
		t.Errorf("over a cut link: %v", err)
	}
	if s.Check() == nil {
		t.Error("nothing is wrong, and two messages are lost")
	}
	h.cut.Store(false)
	if err := s.RunUntil(t.Context(), 20*time.Second, "they arrive", arrived); err != nil {
		t.Fatal(err)
	}
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a, b := stats[0], stats[1]; a.Received != 1 || b.Received != 1 || a.BytesDelivered+b.BytesDelivered != 5001 || a.Retransmissions == 0 || b.Retransmissions == 0 {
		t.Errorf("of 5,001 bytes in two messages over a link that was cut: %+v, %+v", a, b)
	}
	if err := s.RunFor(t.Context(), 10*time.Millisecond); err != nil {
		t.Error(err)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestBadHost: what is not a host's answer ends the connection, and is said.
func TestBadHost(t *testing.T) {
	dir, err := os.MkdirTemp("", "bad")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for i, c := range []struct{ answer, want string }{
		{"nonsense\n", "invalid character"},
		{`{"seq": 1, "error": "no such thing"}` + "\n", "no such thing"},
		{strings.Repeat("x", 17<<20), "token too long"},
		{"", "closed"},
	} {
		path := filepath.Join(dir, string(rune('a'+i)))
		lis, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			if _, err := conn.Read(make([]byte, 4096)); err != nil {
				return
			}
			io.WriteString(conn, c.answer)
		}()
		h, err := coordinator.Dial(t.Context(), path, func(hostproto.Event) {})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Ask(t.Context(), hostproto.Request{Stats: true}); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%.40q: %v; want %q and the socket", c.answer, err, c.want)
		}
		h.Close()
		lis.Close()
	}
}
