package linkstate

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	gnmipb "github.com/openconfig/gnmi/proto/gnmi"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/ethereal-fabric/ethereal/controller/backoff"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4switch/gnmi"
	"github.com/ethereal-fabric/ethereal/p4switch/p4runtime"
	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// target is a switch's gNMI server, that can be faulted.
type target struct {
	t     *testing.T
	mu    sync.Mutex
	ports *portstate.Ports
	gn    *gnmi.Core
	srv   *grpc.Server
	lis   atomic.Pointer[bufconn.Listener]
	stop  context.CancelFunc
	done  sync.WaitGroup

	// refuse answers a subscription with an error; nil: none.
	refuse func(*gnmipb.SubscribeRequest) error
	mute   bool // nothing is sent
}

type wrapped struct {
	grpc.ServerStream
	tg *target
}

func (w wrapped) RecvMsg(m any) error {
	err := w.ServerStream.RecvMsg(m)
	if r, ok := m.(*gnmipb.SubscribeRequest); ok && err == nil && w.tg.refuse != nil {
		err = w.tg.refuse(r)
	}
	return err
}

func (w wrapped) SendMsg(m any) error {
	w.tg.mu.Lock()
	mute := w.tg.mute
	w.tg.mu.Unlock()
	if mute {
		return nil
	}
	return w.ServerStream.SendMsg(m)
}

func newTarget(t *testing.T) *target {
	t.Helper()
	ports, err := portstate.New([]portstate.Config{{Name: "Ethernet1", Number: 1}, {Name: "Ethernet2", Number: 2}})
	if err != nil {
		t.Fatal(err)
	}
	tg := &target{t: t, ports: ports}
	now := func() int64 { return time.Now().UnixNano() }
	if tg.gn, err = gnmi.New(gnmi.Config{Ports: ports, Now: now}); err != nil {
		t.Fatal(err)
	}
	tg.up()
	return tg
}

func (tg *target) up() {
	core, err := p4runtime.New(p4runtime.Config{DeviceID: 1, Now: func() int64 { return time.Now().UnixNano() }})
	if err != nil {
		tg.t.Fatal(err)
	}
	tg.lis.Store(bufconn.Listen(1 << 16))
	tg.srv = grpc.NewServer(grpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		return next(srv, wrapped{ss, tg})
	}))
	p4rt, telemetry := p4runtime.NewServer(&tg.mu, core), gnmi.NewServer(&tg.mu, tg.gn)
	p4rt.Register(tg.srv)
	telemetry.Register(tg.srv)
	ctx, cancel := context.WithCancel(context.Background())
	tg.stop = cancel
	srv, lis := tg.srv, tg.lis.Load()
	tg.done.Go(func() { p4rt.Run(ctx) })
	tg.done.Go(func() { telemetry.Run(ctx) })
	tg.done.Go(func() { srv.Serve(lis) })
}

func (tg *target) down() {
	tg.srv.Stop()
	tg.stop()
	tg.done.Wait()
}

func (tg *target) set(port uint32, up bool) {
	tg.mu.Lock()
	defer tg.mu.Unlock()
	if err := tg.ports.SetOper(port, up, time.Now().UnixNano()); err != nil {
		tg.t.Fatal(err)
	}
}

// listener is a session and what it said.
type listener struct {
	*Session
	conn   *grpc.ClientConn
	cancel context.CancelFunc
	done   chan struct{}
	mu     sync.Mutex
	health []Health
	events []Change
}

func (tg *target) listen() *listener { return tg.listenEvery(0) }

// listenEvery has heartbeats of its own; 0: the default's.
func (tg *target) listenEvery(heartbeat time.Duration) *listener {
	conn, err := grpc.NewClient("passthrough:switch", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return tg.lis.Load().DialContext(ctx) }))
	if err != nil {
		tg.t.Fatal(err)
	}
	l := &listener{conn: conn, done: make(chan struct{})}
	l.Session, err = NewSession(SessionConfig{
		Ports: 2, Heartbeat: heartbeat, Backoff: backoff.Policy{First: time.Second, Most: 4 * time.Second, Factor: 2},
		OnHealth: func(h Health, _ error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.health = append(l.health, h)
		},
		OnChanges: func(cs []Change) {
			l.mu.Lock()
			defer l.mu.Unlock()
			for _, c := range cs {
				c.TimeNs = 0
				l.events = append(l.events, c)
			}
		},
	}, conn)
	if err != nil {
		tg.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go func() {
		defer close(l.done)
		if err := l.Run(ctx); !errors.Is(err, context.Canceled) {
			tg.t.Errorf("Run: %v", err)
		}
	}()
	return l
}

func (l *listener) close() {
	l.cancel()
	<-l.done
	l.conn.Close()
}

// expect compares what was said since the last call.
func (l *listener) expect(t *testing.T, health []Health, events ...Change) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.health, health) {
		t.Errorf("healths %v, want %v", l.health, health)
	}
	if diff := cmp.Diff(events, l.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	l.health, l.events = nil, nil
}

func TestSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tg := newTarget(t)
		tg.set(2, false)
		l := tg.listen()
		l.expect(t, []Health{Syncing, Fresh}, Change{Port: 1, Up: true}, Change{Port: 2})
		tg.set(1, false)
		tg.set(2, true)
		l.expect(t, nil, Change{Port: 1}, Change{Port: 2, Up: true})
		time.Sleep(5 * time.Minute) // heartbeats alone keep it fresh
		l.expect(t, nil)

		// The connection breaks; a port changes meanwhile.
		tg.down()
		l.expect(t, []Health{Disconnected})
		tg.set(1, true)
		tg.up()
		time.Sleep(10 * time.Second)
		l.expect(t, []Health{Syncing, Fresh}, Change{Port: 1, Up: true})

		// The switch falls silent.
		tg.mu.Lock()
		tg.mute = true
		tg.mu.Unlock()
		time.Sleep(13 * time.Second)
		l.expect(t, []Health{Stale})
		tg.mu.Lock()
		tg.mute = false
		tg.mu.Unlock()
		time.Sleep(20 * time.Second)
		l.expect(t, []Health{Syncing, Fresh})
		l.close()
		tg.down()
	})
}

// TestSpeeds has a port run slower, and a switch that has no port-speed: it reports its ports all the same.
func TestSpeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tg := newTarget(t)
		speed := func(name string) {
			tg.mu.Lock()
			defer tg.mu.Unlock()
			if err := tg.ports.SetSpeed(1, name, time.Now().UnixNano()); err != nil {
				t.Fatal(err)
			}
		}
		l := tg.listen()
		l.expect(t, []Health{Syncing, Fresh}, Change{Port: 1, Up: true}, Change{Port: 2, Up: true})
		speed("SPEED_100GB")
		l.expect(t, nil, Change{Port: 1, Speed: true, Rate: 100 * fabric.Gbps})
		speed("SPEED_400GB")
		l.expect(t, nil, Change{Port: 1, Speed: true, Rate: 400 * fabric.Gbps})
		l.close()
		tg.refuse = func(r *gnmipb.SubscribeRequest) error {
			for _, s := range r.GetSubscribe().GetSubscription() {
				if e := s.GetPath().GetElem(); e[len(e)-1].GetName() == "port-speed" {
					return status.Error(codes.NotFound, "no such leaf")
				}
			}
			return nil
		}
		l = tg.listen()
		l.expect(t, []Health{Syncing, Fresh}, Change{Port: 1, Up: true}, Change{Port: 2, Up: true})
		if l.Sampling() {
			t.Error("sampling")
		}
		l.close()
		tg.down()
	})
}

// TestFloodOfChanges: a switch that reports ever other states and speeds of a port has eight of each handed over, and
// one a second. The last state and speed are handed over, and other ports do not wait.
func TestFloodOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tg := newTarget(t)
		l := tg.listen()
		l.expect(t, []Health{Syncing, Fresh}, Change{Port: 1, Up: true}, Change{Port: 2, Up: true})
		const seconds = 10
		for i := range seconds * 1000 {
			tg.set(1, i%2 == 1)
			tg.mu.Lock()
			if err := tg.ports.SetSpeed(1, []string{"SPEED_100GB", "SPEED_400GB"}[i%2], time.Now().UnixNano()); err != nil {
				t.Error(err)
			}
			tg.mu.Unlock()
			time.Sleep(time.Millisecond)
		}
		tg.set(1, false)
		tg.set(2, false)
		synctest.Wait()
		l.mu.Lock()
		if last := l.events[len(l.events)-1]; last != (Change{Port: 2}) {
			t.Errorf("a port that has not flapped waits: last change %+v", last)
		}
		l.mu.Unlock()
		time.Sleep(3 * paceInterval)
		synctest.Wait()
		l.mu.Lock()
		states, speeds, up, rate := 0, 0, true, fabric.Rate(0)
		for _, c := range l.events {
			switch {
			case c.Port != 1:
			case c.Speed:
				speeds++
				rate = c.Rate
			default:
				states++
				up = c.Up
			}
		}
		l.mu.Unlock()
		if most := 8 + seconds + 2; states > most || speeds > most {
			t.Errorf("%d states and %d speeds were handed over, want at most %d each", states, speeds, most)
		}
		if up || rate != 400*fabric.Gbps {
			t.Errorf("the last state handed over is up=%v at %v, want down at 400 Gb/s", up, rate)
		}
		l.close()
		tg.down()
	})
}

// TestSample has a switch that knows no ON_CHANGE.
func TestSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tg := newTarget(t)
		tg.refuse = func(r *gnmipb.SubscribeRequest) error {
			for _, s := range r.GetSubscribe().GetSubscription() {
				if s.GetMode() == gnmipb.SubscriptionMode_ON_CHANGE {
					return status.Error(codes.Unimplemented, "no ON_CHANGE")
				}
			}
			return nil
		}
		l := tg.listen()
		l.expect(t, []Health{Syncing, Fresh}, Change{Port: 1, Up: true}, Change{Port: 2, Up: true})
		if !l.Sampling() {
			t.Error("not sampling")
		}
		tg.set(1, false)
		time.Sleep(time.Second)
		l.expect(t, nil, Change{Port: 1})
		l.close()
		tg.down()
	})
}

// TestDeaf has a switch that understands no way of asking: it is asked again
// only after a back-off.
func TestDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tg := newTarget(t)
		asked := 0
		tg.refuse = func(*gnmipb.SubscribeRequest) error {
			asked++
			return status.Error(codes.InvalidArgument, "what?")
		}
		l := tg.listen()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if most := len(requestForms) * 11; asked < len(requestForms) || asked > most {
			t.Errorf("asked %d times in 30 s, want %d to %d", asked, len(requestForms), most)
		}
		l.close()
		tg.down()
	})
}

// TestLongRun has a subscription last for longer than a fabric.Time: it stays fresh
// while reports come, and becomes stale when it is not.
func TestLongRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		tg := newTarget(t)
		l := tg.listenEvery(day)
		l.expect(t, []Health{Syncing, Fresh}, Change{Port: 1, Up: true}, Change{Port: 2, Up: true})
		for range 5 {
			time.Sleep(53*day + time.Hour)
			l.expect(t, nil)
		}
		tg.mu.Lock()
		tg.mute = true
		tg.mu.Unlock()
		time.Sleep(3*day + time.Minute)
		l.expect(t, []Health{Stale})
		l.close()
		tg.down()
	})
}
