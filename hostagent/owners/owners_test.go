package owners

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/adopt"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller/labellertest"
	"github.com/ethereal-fabric/ethereal/internal/loglimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// device counts what is set.
type device struct {
	*labellertest.Inline
	mu   sync.Mutex
	sets []labeller.Assignment
	fail error
}

func (d *device) Set(as ...labeller.Assignment) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		return d.fail
	}
	d.sets = append(d.sets, as...)
	return d.Inline.Set(as...)
}

func (d *device) failing(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = err
}

func (d *device) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.sets)
}

// agent is one at work.
type agent struct {
	*adopt.Agent
	failed   chan []hostagent.Failed
	timedOut chan error // what Timeout returned
	stop     func()
}

func start(t *testing.T, f *fabric.Fabric, socket string, known *statepb.Update, homes map[labeller.QP]fabric.Label) *agent {
	t.Helper()
	lis, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer()
	a := &agent{failed: make(chan []hostagent.Failed, 1), timedOut: make(chan error, 16)}
	a.Agent, err = adopt.New(adopt.Config{
		Agent: hostagent.Config{Fabric: f, Host: 0, FailedPathMemory: 3600 * fabric.Second}, Labels: s, Known: known, Homes: homes,
		Report: func(fs []hostagent.Failed) { a.failed <- slices.Clone(fs) },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.OnTimeout = func(q labeller.QP) { a.timedOut <- a.Timeout(q) }
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.Run(ctx, lis) })
	wg.Go(func() { a.Run(ctx) })
	a.stop = func() { cancel(); wg.Wait() }
	return a
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// TestOwners has a process show queue pairs: they are dealt evenly, moved when a
// link dies, and taken over by the next agent without being labelled anew.
func TestOwners(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d := &device{Inline: labellertest.NewInline(labeller.SourcePort, 0)}
	o := newProcess(socket, d)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := o.run(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	defer wg.Wait()
	defer cancel()
	d.failing(errors.New("broken")) // so is what is shown first found again
	var qps []labeller.QP
	for n := range uint32(8) {
		qps = append(qps, labeller.QP{Dst: f.HostAddr4(15), Num: n})
	}
	o.show(qps[:4]...) // before there is an agent
	a := start(t, f, socket, nil, nil)
	o.show(qps[4:]...)
	time.Sleep(20 * time.Millisecond)
	d.failing(nil)
	per := map[fabric.Label]int{}
	for _, q := range qps {
		l, err := o.wait(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		per[l]++
	}
	for l, n := range per {
		if n != 2 {
			t.Errorf("label %d has %d queue pairs; all: %v", l, n, per)
		}
	}
	link, err := f.LinkByName("agg0-core1") // label 1
	if err != nil {
		t.Fatal(err)
	}
	down := &statepb.Update{Instance: "c", Epoch: 1, Snapshot: true, Links: []*statepb.LinkState{{Link: uint32(link), Epoch: 1}}}
	if err := a.Update(down); err != nil {
		t.Fatal(err)
	}
	check := func() []labeller.Assignment {
		t.Helper()
		as, err := d.Assignments()
		if err != nil || !slices.Equal(as, a.Adopted()) {
			t.Fatalf("the device has %v, the agent %v, %v", as, a.Adopted(), err)
		}
		return as
	}
	for _, x := range check() {
		if x.Label == 1 {
			t.Errorf("%v is on a dead path", x)
		}
	}

	// The agent is started again: nothing is labelled by that.
	sets, before, homes := d.count(), a.Adopted(), a.Homes()
	a.stop()
	a = start(t, f, socket, down, homes)
	until(t, "the next agent knows all queue pairs", func() bool { return len(a.Adopted()) == len(qps) })
	if got := a.Adopted(); !slices.Equal(got, before) || d.count() != sets {
		t.Errorf("after a restart %v, before %v; %d labels were set", got, before, d.count()-sets)
	}
	if err := a.Update(&statepb.Update{Instance: "c", Epoch: 2, Links: []*statepb.LinkState{{Link: uint32(link), Epoch: 2, Up: true}}}); err != nil {
		t.Fatal(err)
	}
	after := map[fabric.Label]int{}
	for _, x := range check() {
		after[x.Label]++
	}
	if after[1] != 2 {
		t.Errorf("queue pairs did not return home: %v", after)
	}

	// A time-out is reported, and its queue pair moved.
	all := a.Adopted()
	x := all[slices.IndexFunc(all, func(x labeller.Assignment) bool { return x.Label != 1 })] // 1 dies below
	o.timeout(x.QP)
	if fs := <-a.failed; len(fs) != 1 || fs[0].Label != x.Label || fs[0].Dst != 15 {
		t.Errorf("reported %+v", fs)
	}
	until(t, "the path is left", func() bool {
		as, err := d.Assignments()
		return err == nil && slices.Equal(as, a.Adopted()) && !slices.Contains(as, x)
	})
	if err := <-a.timedOut; err != nil { // errAnswerTimeout, were it received on the goroutine that reads answers
		t.Errorf("the time-out: %v", err)
	}

	// By whose owner it is not, it is not believed.
	stranger, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	as := a.Adopted()
	if err := (&message{Timeout: pairs([]labeller.QP{as[0].QP})}).write(stranger); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	if got := a.Adopted(); !slices.Equal(got, as) {
		t.Errorf("after a stranger's time-out %v, before %v", got, as)
	}

	// A device that failed gets the label again.
	d.failing(errors.New("broken"))
	down.Epoch, down.Links[0].Epoch = 3, 3
	if err := a.Update(down); err == nil {
		t.Error("a flip that failed is none")
	}
	d.failing(nil)
	until(t, "the flip is made up for", func() bool {
		as, err := d.Assignments()
		return err == nil && slices.Equal(as, a.Adopted())
	})
	o.forget(qps...)
	a.stop()
}

// TestOwnerBounds: a program shows a bounded number of queue pairs, and none that another program has.
func TestOwnerBounds(t *testing.T) {
	var log bytes.Buffer
	s := NewServer()
	s.refused = loglimit.New(slog.New(slog.NewTextHandler(&log, nil)), time.Second)
	first, second := newOwner(nil), newOwner(nil)
	one := &message{Show: []pair{{Dst: netip.MustParseAddr("10.0.0.1"), Num: 7}}}
	for _, o := range []*owner{first, second} {
		if err := s.handleMessage(o, one); err != nil {
			t.Fatal(err)
		}
	}
	if q := s.announced[one.Show[0].qp()]; q.owner != first || !strings.Contains(log.String(), "refused") {
		t.Errorf("a second program has the queue pair; logged: %s", log.String())
	}
	s.ownerLeft(first)
	if err := s.handleMessage(second, one); err != nil || s.announced[one.Show[0].qp()].owner != second {
		t.Errorf("a queue pair whose program has ended is refused: %v", err)
	}
	many := &message{}
	for n := range maxOwned + 1 {
		many.Show = append(many.Show, pair{Dst: netip.MustParseAddr("10.0.0.2"), Num: uint32(n + 1)})
	}
	third := newOwner(nil)
	if err := s.handleMessage(third, many); err == nil || len(s.announced) != maxOwned+1 {
		t.Errorf("%d queue pairs of one program: %v; %d are known", len(many.Show), err, len(s.announced))
	}
	if err := s.handleMessage(third, &message{Forget: many.Show}); err != nil {
		t.Fatal(err)
	}
	if err := s.handleMessage(third, &message{Show: many.Show[maxOwned:]}); err == nil {
		t.Error("queue pairs that were forgotten, and not cleared by the agent, do not count")
	}
	for _, p := range many.Show[:maxOwned] {
		if err := s.Clear(p.qp()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.handleMessage(third, &message{Show: many.Show[maxOwned:]}); err != nil {
		t.Errorf("after all were cleared: %v", err)
	}
}

// FuzzParse: whatever a process writes, what is taken can be.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"show":[{"dst":"10.3.1.3","qp":291,"label":5}]}`))
	f.Add([]byte(`{"seq":7,"set":[{"dst":"2001:db8::1","qp":1,"label":6}]}`))
	f.Add([]byte(`{"seq":7,"error":"no"}`))
	f.Add([]byte(`{"forget":[{"dst":"fe80::1%eth0","qp":16777216}]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := parse(line)
		if err != nil {
			return
		}
		for _, p := range slices.Concat(m.Show, m.Forget, m.Timeout, m.Set) {
			if err := p.qp().Validate(); err != nil {
				t.Error(err)
			}
		}
		s := NewServer()
		s.OnTimeout = func(labeller.QP) {}
		s.handleMessage(newOwner(nil), m)
	})
}
