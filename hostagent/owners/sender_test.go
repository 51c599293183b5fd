package owners

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller/labellertest"
)

// serve has a server at work, and returns it with what starts an owner of queue
// pairs there. What that returns stops it.
func serve(t *testing.T, d labeller.Labeller, n uint32) (*Server, []labeller.QP, func() (stop func())) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	lis, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	s := NewServer()
	wg.Go(func() { s.Run(ctx, lis) })
	o := newProcess(socket, d)
	var qps []labeller.QP
	for i := range n {
		qps = append(qps, labeller.QP{Dst: netip.MustParseAddr("10.3.1.3"), Num: i})
	}
	o.show(qps...)
	return s, qps, func() func() {
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() { o.run(ctx); close(done) }()
		until(t, "the owner is there", func() bool { // all of it
			qs, err := s.Unused()
			s.mu.Lock()
			defer s.mu.Unlock()
			return err == nil && len(qs) == 0 && len(s.announced) == len(qps)
		})
		return func() {
			cancel()
			<-done
			until(t, "the owner is away", func() bool {
				qs, err := s.Unused()
				return err == nil && len(qs) == len(qps)
			})
		}
	}
}

func all(qps []labeller.QP, l fabric.Label) []labeller.Assignment {
	as := make([]labeller.Assignment, len(qps))
	for i, q := range qps {
		as[i] = labeller.Assignment{QP: q, Label: l}
	}
	return as
}

func has(t *testing.T, d labeller.Labeller, as []labeller.Assignment) func() bool {
	return func() bool {
		got, err := d.Assignments()
		if err != nil {
			t.Fatal(err)
		}
		return slices.Equal(got, as)
	}
}

// TestAway decides anew for more queue pairs than a message holds while their owner
// is away.
func TestAway(t *testing.T) {
	d := labellertest.NewInline(labeller.SourcePort, 0)
	s, qps, start := serve(t, d, maxPerRequest+1)
	stop := start()
	s.Set(all(qps, 1)...) // a slow machine does not answer in time
	until(t, "the first labels", has(t, d, all(qps, 1)))
	stop()
	if err := s.Set(all(qps, 2)...); err != nil {
		t.Error(err)
	}
	defer start()()
	until(t, "what was decided meanwhile", has(t, d, all(qps, 2)))
}

// TestLastWins sets labels of one queue pair from many goroutines.
func TestLastWins(t *testing.T) {
	d := labellertest.NewInline(labeller.SourcePort, 0)
	s, qps, start := serve(t, d, 1)
	defer start()()
	var wg sync.WaitGroup
	for g := range fabric.Label(8) {
		wg.Go(func() {
			for i := range fabric.Label(50) {
				if err := s.Set(all(qps, 50*g+i)...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	as, err := s.Assignments()
	if err != nil {
		t.Fatal(err)
	}
	until(t, fmt.Sprintf("the last label, %d", as[0].Label), has(t, d, as))
}

// flaky cannot set the label of one queue pair, until it is whole.
type flaky struct {
	*labellertest.Inline
	mu     sync.Mutex
	broken *labeller.QP
}

func (d *flaky) Set(as ...labeller.Assignment) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != nil && as[0].QP == *d.broken {
		return errors.New("broken")
	}
	return d.Inline.Set(as...)
}

// TestOneBroken: a queue pair that cannot be labelled does not keep others from
// their labels, and gets its own once it can.
func TestOneBroken(t *testing.T) {
	d := &flaky{Inline: labellertest.NewInline(labeller.SourcePort, 0)}
	s, qps, start := serve(t, d, 8)
	defer start()()
	if err := s.Set(all(qps, 1)...); err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	d.broken = &qps[3]
	d.mu.Unlock()
	if err := s.Set(all(qps, 2)...); err == nil {
		t.Error("one is broken; no error")
	}
	want := all(qps, 2)
	want[3].Label = 1
	if !has(t, d, want)() {
		t.Error("one queue pair kept others from their labels")
	}
	// Another label, and back: what the queue pair has is not known.
	if err := s.Set(all(qps[3:4], 1)...); err == nil {
		t.Error("still broken; no error")
	}
	if err := s.Set(all(qps[3:4], 2)...); err == nil {
		t.Error("still broken; no error")
	}
	d.mu.Lock()
	d.broken = nil
	d.mu.Unlock()
	until(t, "the queue pair is whole", has(t, d, all(qps, 2)))
}

// TestSilent has an owner that does not answer: only the first to ask waits.
func TestSilent(t *testing.T) {
	d := &flaky{Inline: labellertest.NewInline(labeller.SourcePort, 0)}
	s, qps, start := serve(t, d, 10)
	defer start()()
	d.mu.Lock()
	began := time.Now()
	for i := range qps {
		if err := s.Set(all(qps[i:i+1], 1)...); !errors.Is(err, errAnswerTimeout) {
			t.Errorf("no answer: %v", err)
		}
	}
	if took := time.Since(began); took < setPatience || took >= time.Duration(len(qps))*setPatience {
		t.Errorf("%v for %d queue pairs, of which the first waits %v", took, len(qps), setPatience)
	}
	d.mu.Unlock()
	until(t, "the owner goes on", has(t, d, all(qps, 1)))
}
