package p4rt

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"go.uber.org/goleak"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/backoff"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/p4runtime"
	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loadProgram = sync.OnceValues(func() (*program.Program, error) { return program.Load(p4src.V1ModelJSON()) })

func ethereal(t *testing.T) *Pipeline {
	t.Helper()
	p, err := NewPipeline(p4src.V1ModelP4Info(), p4src.V1ModelJSON())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const testDevice = 7

// target is a switch behind gRPC that can be cut off and faulted.
type target struct {
	t      *testing.T
	mu     sync.Mutex
	core   *p4runtime.Core
	fault  func(method string, req any) error // nil: none
	writes atomic.Int64                       // updates
	pushes atomic.Int64

	srv  *grpc.Server
	lis  atomic.Pointer[bufconn.Listener]
	done sync.WaitGroup
}

func newTarget(t *testing.T) *target {
	t.Helper()
	tg := &target{t: t}
	ports, err := portstate.New([]portstate.Config{{Name: "Ethernet1", Number: 1}, {Name: "Ethernet2", Number: 2}})
	if err != nil {
		t.Fatal(err)
	}
	tg.core, err = p4runtime.New(p4runtime.Config{
		DeviceID: testDevice, Ports: ports, Now: func() int64 { return time.Now().UnixNano() },
		Load: func([]byte) (*program.Program, error) { return loadProgram() },
	})
	if err != nil {
		t.Fatal(err)
	}
	tg.up()
	return tg
}

func (tg *target) up() {
	tg.lis.Store(bufconn.Listen(1 << 16))
	tg.srv = grpc.NewServer(append(rpc.Options(rpc.Budget{}, nil), grpc.UnaryInterceptor(
		func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			switch r := req.(type) {
			case *p4.WriteRequest:
				tg.writes.Add(int64(len(r.GetUpdates())))
			case *p4.SetForwardingPipelineConfigRequest:
				tg.pushes.Add(1)
			}
			tg.mu.Lock()
			fault := tg.fault
			tg.mu.Unlock()
			if fault != nil {
				if err := fault(info.FullMethod, req); err != nil {
					return nil, err
				}
			}
			return next(ctx, req)
		}))...)
	p4runtime.NewServer(&tg.mu, tg.core).Register(tg.srv)
	srv, lis := tg.srv, tg.lis.Load()
	tg.done.Go(func() { srv.Serve(lis) })
}

// down ends the server as a crash of the management plane would.
func (tg *target) down() {
	tg.srv.Stop()
	tg.done.Wait()
}

func (tg *target) setFault(f func(method string, req any) error) {
	tg.mu.Lock()
	defer tg.mu.Unlock()
	tg.fault = f
}

// player is a session and what it reported to its owner.
type player struct {
	*Session
	conn   *grpc.ClientConn
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	phases []Phase
	tables []Tables
	tenure uint64
}

func (tg *target) play(own uint64, change func(*SessionConfig)) *player {
	tg.t.Helper()
	conn, err := grpc.NewClient("passthrough:switch", append(DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return tg.lis.Load().DialContext(ctx) }))...)
	if err != nil {
		tg.t.Fatal(err)
	}
	p := &player{conn: conn, done: make(chan struct{})}
	cfg := SessionConfig{
		DeviceID: testDevice, Own: own, Pipeline: ethereal(tg.t), Backoff: backoff.Policy{First: time.Second, Most: 4 * time.Second, Factor: 2},
		OnPhase: func(ph Phase, _ error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.phases = append(p.phases, ph)
		},
		OnTables: func(tenure uint64, h Tables) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.tables, p.tenure = append(p.tables, h), tenure
		},
	}
	if change != nil {
		change(&cfg)
	}
	if p.Session, err = NewSession(cfg, conn); err != nil {
		tg.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() {
		defer close(p.done)
		if err := p.Run(ctx); !errors.Is(err, context.Canceled) {
			tg.t.Errorf("Run: %v", err)
		}
	}()
	return p
}

func (p *player) phase() Phase {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.phases) == 0 {
		return Waiting
	}
	return p.phases[len(p.phases)-1]
}

func (p *player) stop() {
	p.cancel()
	<-p.done
	p.conn.Close()
	synctest.Wait() // the switch has noticed
}

// write writes and waits for the outcome.
func (p *player) write(us []controller.Update) error {
	p.mu.Lock()
	tenure := p.tenure
	p.mu.Unlock()
	done := make(chan error, 1)
	p.Write(tenure, us, nil, func(err error) { done <- err })
	return <-done
}

func (p *player) held() Tables {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tables[len(p.tables)-1]
}

func aggTables(t *testing.T) []controller.Entry {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	c, err := controller.New(controller.Config{Fabric: f, CarrierV4: controller.UDPSourcePort, QuenchIntervalUs: 10})
	if err != nil {
		t.Fatal(err)
	}
	return c.Desired(f.AggID(0))
}

func in(t *testing.T, f func(t *testing.T, tg *target)) {
	t.Helper()
	ethereal(t)
	if _, err := loadProgram(); err != nil { // outside the bubble, since shared
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		tg := newTarget(t)
		defer tg.down()
		f(t, tg)
	})
}

func wantPhase(t *testing.T, who string, p *player, want Phase) {
	t.Helper()
	synctest.Wait()
	if got := p.phase(); got != want {
		t.Fatalf("%s is %v, want %v; phases %v", who, got, want, p.phases)
	}
}

// TestRepair programs an empty switch, breaks its tables by hand, and has a new
// session repair what differs and nothing else.
func TestRepair(t *testing.T) {
	in(t, func(t *testing.T, tg *target) {
		want := aggTables(t)
		p := tg.play(1, func(c *SessionConfig) { c.BatchSize = 5 })
		wantPhase(t, "the session", p, Serving)
		if n := tg.pushes.Load(); n != 1 {
			t.Errorf("%d pipelines pushed, want 1", n)
		}
		if h := p.held(); len(h.Entries) != 1 || h.Entries[0].Table != controller.Device || len(h.Stray) != 0 {
			t.Errorf("an empty switch holds %+v, want a default action only", h)
		}
		if err := p.write(controller.Diff(p.held().Entries, want)); err != nil {
			t.Fatal(err)
		}
		p.stop()

		// Nothing differs: nothing is written.
		tg.writes.Store(0)
		p = tg.play(1, nil)
		wantPhase(t, "the second session", p, Serving)
		if diff := cmp.Diff(want, p.held().Entries); diff != "" {
			t.Errorf("read back (-want +got):\n%s", diff)
		}
		if us := controller.Diff(p.held().Entries, want); len(us) != 0 {
			t.Errorf("to repair: %v", us)
		}
		if n := tg.pushes.Load(); n != 1 {
			t.Errorf("%d pipelines pushed, want 1", n)
		}
		// Break things.
		broken := append([]controller.Entry(nil), want[:len(want)-2]...)
		if err := p.write(controller.Diff(want, broken)); err != nil {
			t.Fatal(err)
		}
		p.stop()
		p = tg.play(1, nil)
		wantPhase(t, "the third session", p, Serving)
		us := controller.Diff(p.held().Entries, want)
		if len(us) != 2 {
			t.Errorf("to repair: %v, want 2 inserts", us)
		}
		if err := p.write(us); err != nil {
			t.Fatal(err)
		}
		p.stop()
	})
}

// TestStandby has two controllers, loses the primary, and brings it back.
func TestStandby(t *testing.T) {
	in(t, func(t *testing.T, tg *target) {
		a, b := tg.play(1, nil), tg.play(2, nil)
		wantPhase(t, "the higher one", b, Serving)
		wantPhase(t, "the lower one", a, Backup)
		if err := a.write(controller.Diff(nil, aggTables(t))); !errors.Is(err, ErrNotServing) {
			t.Errorf("the backup wrote: %v", err)
		}
		b.stop()
		wantPhase(t, "the survivor", a, Serving)
		if err := a.write(controller.Diff(nil, aggTables(t))); err != nil {
			t.Error(err)
		}
		if n := tg.pushes.Load(); n > 2 {
			t.Errorf("%d pipelines pushed, want at most one each", n)
		}
		b = tg.play(2, nil)
		synctest.Wait()
		// Number 2 outranks 1 at the same number of take-overs only.
		if a.phase() != Serving || b.phase() != Backup {
			t.Errorf("the survivor is %v, the one that came back %v", a.phase(), b.phase())
		}
		a.stop()
		wantPhase(t, "the one that came back", b, Serving)
		b.stop()
	})
}

// TestDemoted takes a controller's role away in the middle of a write that the
// switch does not answer.
func TestDemoted(t *testing.T) {
	in(t, func(t *testing.T, tg *target) {
		a := tg.play(1, func(c *SessionConfig) { c.CallTimeout, c.KeepAlive = time.Hour, time.Hour })
		wantPhase(t, "the first", a, Serving)
		release := make(chan struct{})
		tg.setFault(func(method string, _ any) error {
			if method == p4.P4Runtime_Write_FullMethodName {
				<-release
				return status.Error(codes.Unavailable, "late")
			}
			return nil
		})
		outcome := make(chan error, 2)
		tables := aggTables(t)
		a.Write(1, controller.Diff(nil, tables), nil, func(err error) { outcome <- err })
		a.Write(1, controller.Diff(tables, nil), nil, func(err error) { outcome <- err })
		synctest.Wait()
		before := tg.writes.Load()
		b := tg.play(2, nil)
		wantPhase(t, "the second", b, Serving)
		wantPhase(t, "the first", a, Backup)
		if err := <-outcome; err == nil {
			t.Error("the write under way succeeded")
		}
		if err := <-outcome; !errors.Is(err, ErrNotServing) {
			t.Errorf("the write that waited: %v", err)
		}
		if n := tg.writes.Load(); n != before {
			t.Errorf("%d updates sent after the demotion", n-before)
		}
		close(release)
		a.stop()
		b.stop()
	})
}

// TestReconnect cuts a session off and counts how often it tries.
func TestReconnect(t *testing.T) {
	in(t, func(t *testing.T, tg *target) {
		p := tg.play(1, nil)
		wantPhase(t, "the session", p, Serving)
		if err := p.write(controller.Diff(nil, aggTables(t))); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		tg.down()
		wantPhase(t, "the session", p, Waiting)
		time.Sleep(20 * time.Second)
		tg.up()
		for p.phase() != Serving {
			time.Sleep(10 * time.Millisecond)
			if time.Since(began) > time.Minute {
				t.Fatalf("still %v", p.phase())
			}
		}
		if diff := cmp.Diff(aggTables(t), p.held().Entries); diff != "" {
			t.Errorf("read back (-want +got):\n%s", diff)
		}
		p.stop()
	})
}

// TestSilent has a switch that stops answering without closing anything.
func TestSilent(t *testing.T) {
	in(t, func(t *testing.T, tg *target) {
		p := tg.play(1, nil)
		wantPhase(t, "the session", p, Serving)
		release := make(chan struct{})
		tg.setFault(func(string, any) error { <-release; return nil })
		time.Sleep(11 * time.Second) // a keep-alive is sent after 5 s and given up after 5 more
		synctest.Wait()
		if got := p.phase(); got == Serving {
			t.Errorf("still %v", got)
		}
		close(release)
		tg.setFault(nil)
		time.Sleep(10 * time.Second)
		wantPhase(t, "the session", p, Serving)
		p.stop()
	})
}

// deafSwitch says that nobody is primary, and answers no further bid.
type deafSwitch struct {
	p4.UnimplementedP4RuntimeServer
	streams atomic.Int64
}

func (d *deafSwitch) StreamChannel(s p4.P4Runtime_StreamChannelServer) error {
	d.streams.Add(1)
	if _, err := s.Recv(); err != nil {
		return err
	}
	a := &p4.MasterArbitrationUpdate{
		DeviceId: testDevice, ElectionId: &p4.Uint128{High: 5, Low: 9}, Status: &spb.Status{Code: int32(codes.NotFound)},
	}
	if err := s.Send(&p4.StreamMessageResponse{Update: &p4.StreamMessageResponse_Arbitration{Arbitration: a}}); err != nil {
		return err
	}
	<-s.Context().Done()
	return s.Context().Err()
}

func (*deafSwitch) Capabilities(context.Context, *p4.CapabilitiesRequest) (*p4.CapabilitiesResponse, error) {
	return &p4.CapabilitiesResponse{}, nil
}

// TestBidUnanswered: a session whose higher bid is not answered opens another stream.
func TestBidUnanswered(t *testing.T) {
	in(t, func(t *testing.T, tg *target) {
		tg.down()
		tg.lis.Store(bufconn.Listen(1 << 16))
		tg.srv = grpc.NewServer()
		deaf := &deafSwitch{}
		p4.RegisterP4RuntimeServer(tg.srv, deaf)
		srv, lis := tg.srv, tg.lis.Load()
		tg.done.Go(func() { srv.Serve(lis) })
		p := tg.play(1, nil)
		wantPhase(t, "the session", p, Bidding)
		time.Sleep(10 * time.Second) // 5 s without an answer, and a second of back-off
		synctest.Wait()
		if n := deaf.streams.Load(); n < 2 {
			t.Errorf("%d stream was opened in 10 s, phases %v; want another one", n, p.phases)
		}
		p.stop()
	})
}

// TestRefused has a switch refuse one update of many.
func TestRefused(t *testing.T) {
	in(t, func(t *testing.T, tg *target) {
		p := tg.play(1, nil)
		wantPhase(t, "the session", p, Serving)
		tables := aggTables(t)
		us := controller.Diff(nil, tables)
		if err := p.write(us); err != nil {
			t.Fatal(err)
		}
		last := us[len(us)-1]
		err := p.write([]controller.Update{last})
		var we *WriteError
		if !errors.As(err, &we) || !errors.Is(err, ErrRefused) {
			t.Fatalf("inserted twice: %v", err)
		}
		if len(we.Updates) != 1 || we.Updates[0].Code != codes.AlreadyExists || !we.Updates[0].Update.Entry.Equal(last.Entry) {
			t.Errorf("blamed: %+v", we.Updates)
		}
		wantPhase(t, "the session", p, Pausing)
		time.Sleep(2 * time.Second)
		wantPhase(t, "the session", p, Serving)
		if diff := cmp.Diff(tables, p.held().Entries); diff != "" {
			t.Errorf("read back (-want +got):\n%s", diff)
		}
		p.stop()
	})
}
