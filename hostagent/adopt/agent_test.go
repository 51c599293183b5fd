package adopt

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller/labellertest"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// world is a fabric and a labeller through which packets of a program pass.
type world struct {
	t *testing.T
	f *fabric.Fabric
	l *labellertest.Inline
}

func newWorld(t *testing.T, qps int) *world {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, f, labellertest.NewInline(labeller.SourcePort, qps)}
}

func (w *world) agent() *Agent {
	w.t.Helper()
	a, err := New(Config{Agent: hostagent.Config{Fabric: w.f, Host: 0}, Labels: w.l})
	w.must(err)
	return a
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// packet lets a packet of a queue pair pass and returns its source port.
func (w *world) packet(h fabric.NodeID, qp uint32) uint16 {
	w.t.Helper()
	s := frame.Stack{Src: w.f.HostAddr4(0), Dst: w.f.HostAddr4(h), TTL: 64, SourcePort: 0xF00D,
		BTH: frame.BTHFields{Opcode: frame.WriteMiddle, DestQP: qp}}
	b := make([]byte, s.FrameLen())
	_, err := s.Encode(b)
	w.must(err)
	f, err := frame.Parse(b)
	w.must(err)
	f.SetICRC()
	w.l.Rewrite(b)
	w.must(f.VerifyICRC())
	return f.SourcePort()
}

func (w *world) down(link string) *statepb.Update {
	w.t.Helper()
	id, err := w.f.LinkByName(link)
	w.must(err)
	return &statepb.Update{Epoch: 1, Links: []*statepb.LinkState{{Link: uint32(id), Epoch: 1}}}
}

// TestAdopt has a program send on 14 queue pairs: they are dealt evenly, moved
// when a link dies, and taken over by the next agent as they are.
func TestAdopt(t *testing.T) {
	w := newWorld(t, 0)
	a := w.agent()
	for qp := range uint32(14) {
		w.packet(15, qp)
		w.packet(1, qp) // under the own ToR
	}
	w.must(a.Poll())
	per := map[uint16]int{}
	for qp := range uint32(14) {
		per[w.packet(15, qp)]++
		if p := w.packet(1, qp); p != 0xF00D {
			t.Errorf("under the own ToR: port %#x", p)
		}
	}
	var loads []int
	for l := range uint16(4) {
		loads = append(loads, per[0xC000|l])
	}
	slices.Sort(loads)
	if !slices.Equal(loads, []int{3, 3, 4, 4}) {
		t.Errorf("queue pairs by port: %v", per)
	}
	w.must(a.Poll())
	before := a.Adopted()
	if len(before) != 14 {
		t.Fatalf("adopted %v", before)
	}
	w.must(a.Update(w.down("agg0-core1"))) // label 1
	moved := 0
	for i, x := range a.Adopted() {
		if x.Label == 1 {
			t.Errorf("%v is still on the dead path", x)
		}
		if x != before[i] {
			moved++
			if before[i].Label != 1 {
				t.Errorf("%v was moved off a good path", before[i])
			}
		}
		if p := w.packet(15, x.QP.Num); p != frame.SourcePort(x.Label) {
			t.Errorf("%v: port %#x", x, p)
		}
	}
	if moved != per[0xC001] {
		t.Errorf("%d moved, %d were on the path", moved, per[0xC001])
	}
	now := a.Adopted()
	next := w.agent()
	if got := next.Adopted(); !slices.Equal(got, now) {
		t.Errorf("after a restart %v, before %v", got, now)
	}
	// It does not know of the dead link; once it does, nothing is on it.
	w.must(next.Update(w.down("agg0-core1")))
	if got := next.Adopted(); !slices.Equal(got, now) {
		t.Errorf("moved again: %v, before %v", got, now)
	}
}

// TestQuiet checks, in fake time, that a queue pair without packets loses its
// label, and one with packets does not.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0)
		a := w.agent()
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := a.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		defer wg.Wait()
		defer cancel()
		w.packet(15, 1)
		w.packet(15, 2)
		var label uint16
		for i := range 100 {
			time.Sleep(time.Second)
			p := w.packet(15, 1)
			if i == 0 {
				label = p
			}
			if p != label || p == 0xF00D {
				t.Fatalf("second %d: port %#x, first %#x", i, p, label)
			}
		}
		if as := a.Adopted(); len(as) != 1 || as[0].QP.Num != 1 {
			t.Errorf("%v", as)
		}
		as, err := w.l.Assignments()
		if err != nil || len(as) != 1 {
			t.Errorf("labelled: %v, %v", as, err)
		}
		if p := w.packet(15, 2); p != 0xF00D {
			t.Errorf("port %#x of the quiet one", p)
		}
	})
}

// TestFull has more queue pairs than can have labels: the others wait for room.
func TestFull(t *testing.T) {
	w := newWorld(t, 2)
	a := w.agent()
	for qp := range uint32(4) {
		w.packet(15, qp)
	}
	if err := a.Poll(); !errors.Is(err, labeller.ErrFull) {
		t.Errorf("%v", err)
	}
	first := a.Adopted()
	if len(first) != 2 {
		t.Fatalf("%v", first)
	}
	w.must(a.Do(func(core *hostagent.Core, now fabric.Time) error {
		if core.Live() != 2 {
			t.Errorf("%d live", core.Live())
		}
		a.forget(core, now, a.byName[first[0].QP])
		return nil
	}))
	w.must(w.l.Clear(first[0].QP))
	if err := a.Poll(); !errors.Is(err, labeller.ErrFull) {
		t.Errorf("%v", err)
	}
	if second := a.Adopted(); len(second) != 2 {
		t.Errorf("%v", second)
	}
}

// failing refuses to label on request.
type failing struct {
	*labellertest.Inline
	fail error
	sets int
}

func (f *failing) Set(as ...labeller.Assignment) error {
	f.sets++
	if f.fail != nil {
		return f.fail
	}
	return f.Inline.Set(as...)
}

// TestRetries has the labeller refuse a flip: it is tried again, ever later, and
// given to the next agent as the home it returns to.
func TestRetries(t *testing.T) {
	w := newWorld(t, 0)
	labels := &failing{Inline: w.l}
	var now time.Duration
	config := Config{Agent: hostagent.Config{Fabric: w.f, Host: 0}, Labels: labels, Now: func() time.Duration { return now }}
	a, err := New(config)
	w.must(err)
	for qp := range uint32(4) {
		w.packet(15, qp)
	}
	w.must(a.Poll())
	down := w.down("agg0-core1") // label 1
	broken := errors.New("broken")
	labels.fail = broken
	if err := a.Update(down); !errors.Is(err, broken) {
		t.Errorf("a flip that fails: %v", err)
	}
	sets := labels.sets
	for range 1000 {
		now += time.Millisecond
		a.Poll()
	}
	if n := labels.sets - sets; n < 4 || n > 10 {
		t.Errorf("%d more attempts in a second", n)
	}
	labels.fail = nil
	now += maxRetry
	w.must(a.Poll())
	as, err := w.l.Assignments()
	w.must(err)
	if want := a.Adopted(); !slices.Equal(as, want) {
		t.Errorf("labelled %v, want %v", as, want)
	}
	homes := a.Homes()
	if len(homes) != 1 {
		t.Fatalf("homes %v", homes)
	}
	// The next one knows the dead link and the home: nothing moves, until the link
	// is back.
	config.Known, config.Homes = down, homes
	next, err := New(config)
	w.must(err)
	if got := next.Adopted(); !slices.Equal(got, as) {
		t.Errorf("after a restart %v, before %v", got, as)
	}
	w.must(next.Update(&statepb.Update{Epoch: 2, Links: []*statepb.LinkState{{Link: down.Links[0].Link, Epoch: 2, Up: true}}}))
	for _, x := range next.Adopted() {
		if home, moved := homes[x.QP]; moved && x.Label != home {
			t.Errorf("%v did not return to %d", x, home)
		}
	}
	if len(next.Homes()) != 0 {
		t.Errorf("homes %v", next.Homes())
	}
}

// TestTimeouts reports the path of a queue pair whose owner knows that it timed
// out, and moves it.
func TestTimeouts(t *testing.T) {
	w := newWorld(t, 0)
	var now time.Duration
	var failed []hostagent.Failed
	a, err := New(Config{
		Agent: hostagent.Config{Fabric: w.f, Host: 0}, Labels: w.l, Now: func() time.Duration { return now },
		Report: func(fs []hostagent.Failed) { failed = append(failed, fs...) },
	})
	w.must(err)
	w.packet(15, 1)
	w.must(a.Poll())
	x := a.Adopted()[0]
	w.must(a.Timeout(labeller.QP{Dst: x.QP.Dst, Num: 77}))
	w.must(a.Timeout(x.QP))
	if len(failed) != 1 || failed[0] != (hostagent.Failed{Dst: 15, DstToR: w.f.ToROf(15), Label: x.Label}) {
		t.Errorf("reported %+v", failed)
	}
	if y := a.Adopted()[0]; y.Label == x.Label {
		t.Errorf("%v stays where it timed out", y)
	}
}

func TestRefused(t *testing.T) {
	w := newWorld(t, 0)
	w.must(w.l.Set(labeller.Assignment{QP: labeller.QP{Dst: w.f.HostAddr4(15), Num: 1}, Label: 0x3000}))
	if got := w.agent().Adopted(); len(got) != 0 {
		t.Errorf("a label of another fabric: %v", got)
	}
	if as, err := w.l.Assignments(); err != nil || len(as) != 0 {
		t.Errorf("it stays set: %v, %v", as, err)
	}
	if _, err := New(Config{Agent: hostagent.Config{Fabric: w.f}}); !errors.Is(err, ErrConfig) {
		t.Errorf("no labeller: %v", err)
	}
	if _, err := New(Config{Labels: w.l}); !errors.Is(err, hostagent.ErrConfig) {
		t.Errorf("no fabric: %v", err)
	}
	if _, err := w.agent().Quench(nil, w.f.HostAddr4(15)); !errors.Is(err, frame.ErrQuench) {
		t.Errorf("no quench: %v", err)
	}
}
