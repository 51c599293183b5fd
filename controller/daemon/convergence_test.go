package daemon

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/damping"
	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/fabric/staterpc"
)

var (
	convergenceEvents = flag.Int("convergence.events", 20, "events of TestConvergence")
	convergenceK      = flag.Int("convergence.k", 4, "fat-tree of TestConvergence")
)

// changes is an event log that says when a change was written.
type changes chan time.Time

func (c changes) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(`"kind":"change"`)) {
		c <- time.Now()
	}
	return len(line), nil
}

var _ io.Writer = changes(nil)

// listenAll has an agent of every host watch the controller over the loopback.
// received returns when all have an epoch.
func listenAll(t *testing.T, l *lab, r *running) (agentsAt func(epoch uint64) time.Time, stop func()) {
	t.Helper()
	srv := grpc.NewServer()
	staterpc.RegisterFabricStateServer(srv, r.Service())
	lis, _ := l.listen()
	var wg sync.WaitGroup
	wg.Go(func() { srv.Serve(lis) })
	ctx, cancel := context.WithCancel(context.Background())
	var (
		mu     sync.Mutex
		cond   = sync.NewCond(&mu)
		epochs = make([]uint64, l.f.Hosts())
		conns  []*grpc.ClientConn
	)
	for host := range l.f.Hosts() {
		conn, err := grpc.NewClient("passthrough:"+lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		w, err := staterpc.NewFabricStateClient(conn).Watch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		err = w.Send(&statepb.AgentMessage{Message: &statepb.AgentMessage_Hello{Hello: &statepb.Hello{Host: uint32(host)}}})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for {
				u, err := w.Recv()
				if err != nil {
					return
				}
				mu.Lock()
				epochs[host] = u.GetEpoch()
				cond.Broadcast()
				mu.Unlock()
			}
		})
	}
	agentsAt = func(epoch uint64) time.Time {
		mu.Lock()
		defer mu.Unlock()
		for slices.Min(epochs) < epoch {
			cond.Wait()
		}
		return time.Now()
	}
	return agentsAt, func() {
		cancel()
		for _, c := range conns {
			c.Close()
		}
		srv.Stop()
		wg.Wait()
		r.Service().Wait()
	}
}

// quantiles prints the median and the 99th percentile.
func quantiles(ds []time.Duration) string {
	slices.Sort(ds)
	at := func(q float64) time.Duration { return ds[int(q*float64(len(ds)-1))].Round(time.Microsecond) }
	return fmt.Sprintf("p50 %v p99 %v", at(0.5), at(0.99))
}

// TestConvergence measures, live over the loopback, how long it takes from a link
// going down or up at its switches to the last acknowledged write, and to word of
// it at every agent; and, for comparison, how long it takes to write everything.
// For the numbers of a report:
//
//	go test ./controller/daemon -run TestConvergence -v -args -convergence.events=1000 -convergence.k=8
func TestConvergence(t *testing.T) {
	l := newLab(t, fatTree(t, *convergenceK), true)
	defer l.close()
	written := make(changes, 1)
	began := time.Now()
	r := l.run(func(c *Config) { c.Events, c.Damping = eventlog.New(written), damping.Config{Off: true} })
	r.untilReady()
	programmed := time.Since(began)
	agentsAt, stop := listenAll(t, l, r)
	agentsAt(0)

	rng := rand.New(rand.NewPCG(1, 1))
	var writes, agents, all []time.Duration
	updates := 0
	for epoch := uint64(1); epoch <= uint64(*convergenceEvents); epoch += 2 {
		name := l.f.LinkName(fabric.LinkID(l.f.Hosts() + rng.IntN(l.f.Links()-l.f.Hosts())))
		for i, up := range []bool{false, true} {
			at := time.Now()
			notified := make(chan time.Time, 1)
			go func() { notified <- agentsAt(epoch + uint64(i)) }()
			l.link(name, up)
			writes = append(writes, (<-written).Sub(at))
			agents = append(agents, (<-notified).Sub(at))
			// The other end's report changes nothing, but has to be in before the next
			// event.
			s := r.until("quiet", func(s Status) bool {
				both := up && len(s.NotUp) == 0 || !up && len(s.NotUp) == 1 && s.NotUp[0].DownA && s.NotUp[0].DownB
				return !s.Busy && s.Ready && both
			})
			if want := epoch + uint64(i); s.Epoch != want {
				t.Fatalf("epoch %d, want %d", s.Epoch, want)
			}
			updates += s.Last.Updates
		}
	}
	for range min(*convergenceEvents/10, 50) {
		at := time.Now()
		var wg sync.WaitGroup
		err := r.runInLoop(context.Background(), func() {
			for _, dev := range r.switches {
				var us []controller.Update
				for _, e := range r.core.Tables().Desired(dev.id) {
					us = append(us, controller.Update{Op: controller.Modify, Entry: e})
				}
				wg.Add(1)
				dev.session.Write(dev.tenure, us, nil, func(err error) {
					if err != nil {
						t.Error(err)
					}
					wg.Done()
				})
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		all = append(all, time.Since(at))
	}
	t.Logf("k=%d, %d switches, %d agents: programmed in %v; %d events, %.1f updates each", *convergenceK, l.f.Switches(), l.f.Hosts(),
		programmed.Round(time.Millisecond), len(writes), float64(updates)/float64(len(writes)))
	t.Logf("to the last acknowledged write: %s", quantiles(writes))
	t.Logf("to the last agent:              %s", quantiles(agents))
	t.Logf("rewriting everything:           %s", quantiles(all))
	stop()
	l.check(r)
	r.stop()
}
