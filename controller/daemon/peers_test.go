package daemon

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/fabric/staterpc"
)

// peers is how controllers of a lab reach each other.
type peers struct {
	t   *testing.T
	mu  sync.Mutex // of lis: connections are dialled behind the test's back
	lis map[string]*bufconn.Listener
}

func (p *peers) at(name string) *bufconn.Listener {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lis[name]
}

func (p *peers) put(name string, lis *bufconn.Listener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lis[name] = lis
}

const secret = "a token of the lab"

// join lets a config find the others.
func (p *peers) join(others ...string) func(*Config) {
	return func(c *Config) {
		c.Token, c.Peers = secret, others
		c.DialPeer = func(name string) (*grpc.ClientConn, error) {
			return grpc.NewClient("passthrough:"+name, grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.5, MaxDelay: time.Second}}),
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
					if lis := p.at(name); lis != nil {
						return lis.DialContext(ctx)
					}
					return nil, &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
				}))
		}
	}
}

// serve has others reach a controller by name until the returned function is called.
func (p *peers) serve(name string, r *running) (stop func()) {
	lis, srv := bufconn.Listen(1<<16), grpc.NewServer()
	staterpc.RegisterControllersServer(srv, r.PeerService())
	p.put(name, lis)
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(lis) }()
	return func() { p.put(name, nil); srv.Stop(); <-done }
}

// TestSharedDrains drains at either of two controllers: both know, whichever is
// primary writes, and neither failover nor restart forgets.
func TestSharedDrains(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		p := &peers{t: t, lis: map[string]*bufconn.Listener{}}
		start := func(name, other string, own uint64) (*running, func()) {
			r := l.run(func(c *Config) { c.Own = own; p.join(other)(c) })
			return r, p.serve(name, r)
		}
		drained := func(r *running, want int) {
			t.Helper()
			r.until("peers know of drains", func(s Status) bool {
				n := 0
				for _, x := range s.NotUp {
					if x.Drained {
						n++
					}
				}
				return n == want
			})
		}
		a, stopA := start("a", "b", 9)
		waitIdle(a)
		b, stopB := start("b", "a", 1)
		waitIdle(b)
		ctx := context.Background()

		if _, err := a.Drain(ctx, "agg0-core0", false, false); err != nil { // at the primary
			t.Fatal(err)
		}
		drained(b, 1)
		if _, err := b.Drain(ctx, "agg0-core1", false, false); err != nil { // at the standby
			t.Fatal(err)
		}
		l.check(b) // the primary has written it
		drained(a, 2)

		// The primary dies; what it wrote stays as it is.
		l.wrote()
		stopA()
		a.stop()
		if s := waitIdle(b); !s.Switches[0].Primary {
			t.Fatal("the standby did not take over")
		}
		l.check(b)
		if n, _ := l.wrote(); n != 0 {
			t.Errorf("%d updates at the failover, want none", n)
		}
		if _, err := b.Drain(ctx, "agg0-core0", true, false); err != nil {
			t.Fatal(err)
		}

		// It comes back without a state file and learns from its peer.
		a, stopA = start("a", "b", 9)
		waitIdle(a)
		drained(a, 1)
		stopB()
		b.stop()
		waitIdle(a)
		synctest.Wait()
		l.check(a)
		if _, err := a.Drain(ctx, "agg0-core1", true, false); err != nil { // nobody to tell, but it can write
			t.Error(err)
		}
		stopA()
		a.stop()
	})
}

// TestDrainsTogetherTooMuch drains both uplinks of a ToR, one at each of two
// controllers that cannot reach each other. When they can again they take the same one
// back, but neither if the operators insisted.
func TestDrainsTogetherTooMuch(t *testing.T) {
	for _, force := range []bool{false, true} {
		t.Run(fmt.Sprintf("force=%v", force), func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				p := &peers{t: t, lis: map[string]*bufconn.Listener{}}
				a := l.run(func(c *Config) { c.Own = 9; p.join("b")(c) })
				b := l.run(func(c *Config) { c.Own = 1; p.join("a")(c) })
				waitIdle(a)
				waitIdle(b)
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				drain := func(r *running, links ...string) {
					t.Helper()
					for _, link := range links {
						// A standby that reaches nobody has drained it for itself, and says so.
						if _, err := r.Drain(ctx, link, false, force); err != nil && r == a {
							t.Fatal(err)
						}
					}
				}
				drain(a, "tor5-agg4", "agg0-core1")
				drain(b, "tor5-agg5", "agg1-core2")
				stopA, stopB := p.serve("a", a), p.serve("b", b)
				time.Sleep(3 * peerInterval)
				drained := func(r *running) (names []string) {
					for _, x := range r.state().NotUp {
						if x.Drained {
							names = append(names, x.Name)
						}
					}
					slices.Sort(names)
					return names
				}
				want := 3
				if force {
					want = 4
				}
				if d := cmp.Diff(drained(a), drained(b)); d != "" || len(drained(a)) != want {
					t.Errorf("drained at a: %v; (-a +b):\n%s", drained(a), d)
				}
				for _, l := range []string{"agg0-core1", "agg1-core2"} {
					if !slices.Contains(drained(a), l) {
						t.Errorf("%s, which cuts nobody off, is not drained any more", l)
					}
				}
				waitIdle(a)
				l.check(a)
				stopA()
				stopB()
				a.stop()
				b.stop()
			})
		})
	}
}

// TestPeersNeedToken lets nobody drain who does not know the token.
func TestPeersNeedToken(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		r := l.run(nil)
		waitIdle(r)
		marks := &statepb.DrainMarks{Marks: []*statepb.DrainMark{{Link: uint32(l.f.Links() - 1), Drained: true, Version: 1}}}
		for _, token := range []string{"", "Bearer ", "Bearer wrong"} {
			ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("authorization", token))
			if _, err := r.PeerService().Exchange(ctx, marks); status.Code(err) != codes.PermissionDenied {
				t.Errorf("%q: %v", token, err)
			}
		}
		r.stop()
		r = l.run(func(c *Config) { c.Token = secret })
		waitIdle(r)
		ctx, cancel := context.WithTimeout(metadata.NewIncomingContext(context.Background(), metadata.Pairs("authorization", "Bearer "+secret)), time.Second)
		defer cancel()
		if _, err := r.PeerService().Exchange(ctx, marks); err != nil {
			t.Error(err)
		}
		marks.Marks[0].Link = 0 // a host's
		if _, err := r.PeerService().Exchange(ctx, marks); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("a host's link: %v", err)
		}
		waitIdle(r)
		r.stop()
	})
}
