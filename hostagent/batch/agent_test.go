package batch

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller/labellertest"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func fatTree(t testing.TB) *fabric.Fabric {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestAnything has random batches, completions, failures and repairs go by, with
// too few queue pairs and enough: no queue pair ever has two pieces, every piece
// goes out once with its label on its queue pair, and all bytes are sent.
func TestAnything(t *testing.T) {
	f := fatTree(t)
	rapid.Check(t, func(t *rapid.T) {
		labels := labellertest.NewInline(labeller.SourcePort, 0)
		var now time.Duration
		a, err := New(Config{
			Agent:    hostagent.Config{Fabric: f, Host: 3, Seed: rapid.Uint64().Draw(t, "seed")},
			Labeller: labels, Now: func() time.Duration { return now },
		})
		if err != nil {
			t.Fatal(err)
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		each := rapid.IntRange(1, 6).Draw(t, "queue pairs a peer")
		for h := range fabric.NodeID(f.Hosts()) {
			for n := range each {
				if h != 3 {
					must(a.Add(labeller.QP{Dst: f.HostAddr4(h), Num: uint32(n)}))
				}
			}
		}
		owed := map[uint64]int64{} // bytes of messages not sent
		live := map[hostagent.QP]Piece{}
		on := map[labeller.QP]hostagent.QP{}
		epoch := uint64(0)
		take := func() {
			t.Helper()
			w := a.Take()
			for _, p := range w.Send {
				if other, ok := on[p.QP]; ok {
					t.Fatalf("%v has pieces %d and %d", p.QP, other, p.Key)
				}
				if p.QP.Dst != p.Dst {
					t.Fatalf("a piece to %v on %v", p.Dst, p.QP)
				}
				on[p.QP] = p.Key
				live[p.Key] = p
				owed[p.Message] -= p.Bytes
			}
			for _, m := range w.Moved {
				p, ok := live[m.Key]
				if !ok || p.QP != m.QP {
					t.Fatalf("moved: %+v; the piece is %+v", m, p)
				}
				p.Label = m.To
				live[m.Key] = p
			}
			as, err := labels.Assignments()
			must(err)
			set := map[labeller.QP]fabric.Label{}
			for _, x := range as {
				set[x.QP] = x.Label
			}
			for _, p := range live {
				if p.Labelled && set[p.QP] != p.Label {
					t.Fatalf("%v has label %d, the piece on it %d", p.QP, set[p.QP], p.Label)
				}
			}
		}
		finish := func() {
			for k, p := range live {
				must(a.Acked(k, p.Bytes))
				must(a.Done(k))
				delete(live, k)
				delete(on, p.QP)
				return
			}
		}
		id := uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, 100_000).Draw(t, "ns"))
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				var b []Message
				for range rapid.IntRange(1, 5).Draw(t, "messages") {
					h := fabric.NodeID(rapid.IntRange(0, f.Hosts()-2).Draw(t, "host"))
					if h >= 3 {
						h++
					}
					id++
					b = append(b, Message{ID: id, Dst: f.HostAddr4(h), Bytes: int64(rapid.IntRange(1, 1<<20).Draw(t, "bytes"))})
					owed[id] = b[len(b)-1].Bytes
				}
				must(a.Post(b...))
			case 1:
				finish()
			case 2:
				epoch++
				link := rapid.IntRange(f.Hosts(), f.Links()-1).Draw(t, "link")
				must(a.Update(&statepb.Update{Epoch: epoch, Links: []*statepb.LinkState{
					{Link: uint32(link), Epoch: epoch, Up: rapid.Bool().Draw(t, "up")}}}))
			case 3:
				for k := range live {
					must(a.Timeout(k))
					break
				}
			case 4: // takes later
				continue
			}
			take()
		}
		for take(); len(live) > 0; take() {
			finish()
		}
		for m, n := range owed {
			if n != 0 {
				t.Fatalf("message %d: %d bytes were not sent; %d pieces wait", m, n, a.Waiting())
			}
		}
		if len(a.pieces) != 0 || a.Waiting() != 0 {
			t.Fatalf("left over: %d pieces, %d waiting", len(a.pieces), a.Waiting())
		}
	})
}

// TestSaves checks that a queue pair with the right label is preferred: a second
// batch like the first needs no labelling at all.
func TestSaves(t *testing.T) {
	f := fatTree(t)
	c := &counting{Inline: labellertest.NewInline(labeller.SourcePort, 0)}
	a, err := New(Config{Agent: hostagent.Config{Fabric: f, Host: 0}, Labeller: c})
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint32(4) {
		if err := a.Add(labeller.QP{Dst: f.HostAddr4(15), Num: n}); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		if err := a.Post(Message{Dst: f.HostAddr4(15), Bytes: 4000}); err != nil {
			t.Fatal(err)
		}
		w := a.Take()
		if len(w.Send) != 4 {
			t.Fatalf("%d pieces", len(w.Send))
		}
		for _, p := range w.Send {
			if err := a.Done(p.Key); err != nil {
				t.Fatal(err)
			}
		}
	}
	if c.sets != 4 {
		t.Errorf("%d labels set, want 4", c.sets)
	}
}

type counting struct {
	*labellertest.Inline
	sets int
	fail error
}

func (c *counting) Set(as ...labeller.Assignment) error {
	c.sets += len(as)
	if c.fail != nil {
		return c.fail
	}
	return c.Inline.Set(as...)
}

func TestRefused(t *testing.T) {
	f := fatTree(t)
	c := &counting{Inline: labellertest.NewInline(labeller.SourcePort, 0)}
	a, err := New(Config{Agent: hostagent.Config{Fabric: f, Host: 0}, Labeller: c})
	if err != nil {
		t.Fatal(err)
	}
	q := labeller.QP{Dst: f.HostAddr4(15), Num: 1}
	if err := errors.Join(a.Add(q), a.Post()); err != nil {
		t.Fatal(err)
	}
	stranger := netip.MustParseAddr("192.0.2.1")
	broken := errors.New("broken")
	for _, tt := range []struct {
		name string
		err  error
		want error
	}{
		{"lent twice", a.Add(q), labeller.ErrInvalid},
		{"to a stranger", a.Add(labeller.QP{Dst: stranger}), ErrDestination},
		{"message to a stranger", a.Post(Message{Dst: f.HostAddr4(15), Bytes: 1}, Message{Dst: stranger, Bytes: 1}), ErrDestination},
		{"message to itself", a.Post(Message{Dst: f.HostAddr4(0), Bytes: 1}), hostagent.ErrFlow},
		{"no bytes", a.Post(Message{Dst: f.HostAddr4(15)}), hostagent.ErrFlow},
		{"unknown pieces", errors.Join(a.Done(77), a.Acked(77, 1), a.Timeout(77)), nil},
		{"labeller", func() error { c.fail = broken; return a.Post(Message{Dst: f.HostAddr4(15), Bytes: 4}) }(), broken},
	} {
		if !errors.Is(tt.err, tt.want) || tt.want == nil && tt.err != nil {
			t.Errorf("%s: %v, want %v", tt.name, tt.err, tt.want)
		}
	}
	if _, err := a.Quench(make([]byte, 3), stranger); !errors.Is(err, frame.ErrQuench) {
		t.Errorf("quench: %v", err)
	}
	if _, err := New(Config{}); !errors.Is(err, hostagent.ErrConfig) {
		t.Errorf("no fabric: %v", err)
	}
	// Nothing goes out where it should not go; it does when the labeller does what
	// it is notified.
	if w := a.Take(); len(w.Send) != 0 || !errors.Is(w.Err, broken) || a.Waiting() != 4 {
		t.Errorf("%+v, %d waiting", w, a.Waiting())
	}
	c.fail = nil
	if err := a.Acked(77, 1); err != nil {
		t.Error(err)
	}
	w := a.Take()
	if len(w.Send) != 1 || w.Err != nil || w.Send[0].QP != q || a.Waiting() != 3 {
		t.Fatalf("%+v, %d waiting", w, a.Waiting())
	}
	// A flip that fails is reported when it is in force.
	c.fail = broken
	if err := a.Timeout(w.Send[0].Key); !errors.Is(err, broken) {
		t.Errorf("a flip that fails: %v", err)
	}
	if w := a.Take(); len(w.Moved) != 0 {
		t.Errorf("moved: %+v", w.Moved)
	}
	c.fail = nil
	if err := a.Acked(77, 1); err != nil {
		t.Error(err)
	}
	if m := a.Take().Moved; len(m) != 1 || m[0].From != w.Send[0].Label || m[0].QP != q {
		t.Errorf("moved: %+v", m)
	}
}

// half carries out an order, and reports that it did not.
type half struct {
	*labellertest.Inline
	err error
}

func (h *half) Set(as ...labeller.Assignment) error { return errors.Join(h.Inline.Set(as...), h.err) }

// TestSetInDoubt: a queue pair whose label may have changed is labelled anew, with
// the one that it had, too.
func TestSetInDoubt(t *testing.T) {
	f := fatTree(t)
	h := &half{Inline: labellertest.NewInline(labeller.SourcePort, 0)}
	a, err := New(Config{Agent: hostagent.Config{Fabric: f, Host: 0}, Labeller: h})
	if err != nil {
		t.Fatal(err)
	}
	l := &pooledQP{qp: labeller.QP{Dst: f.HostAddr4(15), Num: 1}}
	if err := a.label(l, 1); err != nil {
		t.Fatal(err)
	}
	h.err = errors.New("in doubt")
	if err := a.label(l, 2); !errors.Is(err, h.err) {
		t.Errorf("label 2: %v", err)
	}
	h.err = nil
	if err := a.label(l, 1); err != nil {
		t.Error(err)
	}
	as, err := h.Assignments()
	if err != nil || len(as) != 1 || as[0].Label != 1 {
		t.Errorf("%v, %v; want label 1", as, err)
	}
}

// TestWithdraw takes a queue pair back while a piece is on it.
func TestWithdraw(t *testing.T) {
	f := fatTree(t)
	a, err := New(Config{Agent: hostagent.Config{Fabric: f, Host: 0}, Labeller: labellertest.NewInline(labeller.SourcePort, 0)})
	if err != nil {
		t.Fatal(err)
	}
	q, other := labeller.QP{Dst: f.HostAddr4(1), Num: 1}, labeller.QP{Dst: f.HostAddr4(1), Num: 2}
	if err := errors.Join(a.Add(q), a.Post(Message{Dst: q.Dst, Bytes: 1}, Message{Dst: q.Dst, Bytes: 1})); err != nil {
		t.Fatal(err)
	}
	w := a.Take()
	if len(w.Send) != 1 || a.Waiting() != 1 {
		t.Fatalf("%+v, %d waiting", w, a.Waiting())
	}
	a.Withdraw(q)
	if err := a.Done(w.Send[0].Key); err != nil {
		t.Fatal(err)
	}
	if w := a.Take(); len(w.Send) != 0 {
		t.Fatalf("a withdrawn queue pair was used: %+v", w)
	}
	if err := a.Add(other); err != nil {
		t.Fatal(err)
	}
	if w := a.Take(); len(w.Send) != 1 || w.Send[0].QP != other {
		t.Fatalf("%+v", w)
	}
}

// TestRun checks, in fake time, that a path whose failure is forgotten is
// returned to without anybody calling.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fatTree(t)
		labels := labellertest.NewInline(labeller.SourcePort, 0)
		a, err := New(Config{Agent: hostagent.Config{Fabric: f, Host: 0}, Labeller: labels})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := a.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		defer wg.Wait()
		defer cancel()
		q := labeller.QP{Dst: f.HostAddr4(15), Num: 1}
		if err := errors.Join(a.Add(q), a.Post(Message{Dst: q.Dst, Bytes: 4 << 20})); err != nil {
			t.Fatal(err)
		}
		p := a.Take().Send[0]
		time.Sleep(time.Millisecond) // fake: past the grace after opening
		if err := a.Timeout(p.Key); err != nil {
			t.Fatal(err)
		}
		w := a.Take()
		if len(w.Moved) != 1 || w.Moved[0].From != p.Label || w.Moved[0].Reason != hostagent.ByTimeout {
			t.Fatalf("%+v", w.Moved)
		}
		time.Sleep(200 * time.Millisecond) // the memory is 100 ms
		synctest.Wait()
		w = a.Take()
		if len(w.Moved) != 1 || w.Moved[0].To != p.Label || w.Moved[0].Reason != hostagent.Return {
			t.Fatalf("%+v", w.Moved)
		}
		as, err := labels.Assignments()
		if err != nil || len(as) != 1 || as[0].Label != p.Label {
			t.Fatalf("%v, %v", as, err)
		}
	})
}

// BenchmarkPost is one step of an all-to-all among 128 hosts, from posting to
// completion.
func BenchmarkPost(b *testing.B) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 8})
	if err != nil {
		b.Fatal(err)
	}
	a, err := New(Config{Agent: hostagent.Config{Fabric: f, Host: 0}, Labeller: labellertest.NewInline(labeller.SourcePort, 0)})
	if err != nil {
		b.Fatal(err)
	}
	var ms []Message
	for h := 1; h < f.Hosts(); h++ {
		ms = append(ms, Message{ID: uint64(h), Dst: f.HostAddr4(fabric.NodeID(h)), Bytes: 1 << 20})
		for n := range uint32(16) {
			if err := a.Add(labeller.QP{Dst: ms[len(ms)-1].Dst, Num: n}); err != nil {
				b.Fatal(err)
			}
		}
	}
	n := 0
	for b.Loop() {
		if err := a.Post(ms...); err != nil {
			b.Fatal(err)
		}
		w := a.Take()
		n = len(w.Send)
		for _, p := range w.Send {
			if err := a.Done(p.Key); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/piece")
}
