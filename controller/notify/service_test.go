package notify

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/fabric/staterpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type served struct {
	*Service
	t     *testing.T
	lis   *bufconn.Listener
	epoch uint64
}

// serve runs f with a service that has not started yet.
func serve(t *testing.T, cfg ServiceConfig, f func(t *testing.T, s *served)) {
	synctest.Test(t, func(t *testing.T) {
		cfg.Hosts = 1000
		s := &served{Service: NewService(cfg), t: t, lis: bufconn.Listen(1 << 12)}
		srv := grpc.NewServer()
		staterpc.RegisterFabricStateServer(srv, s.Service)
		done := make(chan struct{})
		go func() {
			defer close(done)
			srv.Serve(s.lis)
		}()
		f(t, s)
		srv.Stop()
		<-done
		s.Wait()
	})
}

func (s *served) start(history int) {
	s.t.Helper()
	hub, err := NewHub(&statepb.Update{Instance: "a", Snapshot: true}, history)
	if err != nil {
		s.t.Fatal(err)
	}
	s.Start(hub)
}

// change publishes the next change of a link.
func (s *served) change(link uint32) {
	s.t.Helper()
	s.epoch++
	err := s.Publish(&statepb.Update{Epoch: s.epoch, Instance: "a", Links: []*statepb.LinkState{{Link: link, Epoch: s.epoch, Up: s.epoch%2 == 0}}})
	if err != nil {
		s.t.Fatal(err)
	}
}

type client struct {
	grpc.BidiStreamingClient[statepb.AgentMessage, statepb.Update]
	close func()
}

func (s *served) dial(messages ...*statepb.AgentMessage) *client {
	s.t.Helper()
	// A window that does not grow: how much one who reads nothing takes must not depend on how busy the machine is.
	conn, err := grpc.NewClient("passthrough:controller", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(1<<16), grpc.WithStaticConnWindowSize(1<<16),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.lis.DialContext(ctx) }))
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w, err := staterpc.NewFabricStateClient(conn).Watch(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, m := range messages {
		if err := w.Send(m); err != nil {
			s.t.Fatal(err)
		}
	}
	return &client{w, func() { cancel(); conn.Close() }}
}

func hello(host uint32, instance string, last uint64) *statepb.AgentMessage {
	return &statepb.AgentMessage{Message: &statepb.AgentMessage_Hello{Hello: &statepb.Hello{Host: host, Instance: instance, LastEpoch: last}}}
}

func (c *client) expect(t *testing.T, want string) {
	t.Helper()
	u, err := c.Recv()
	got := fmt.Sprintf("%s %d snapshot=%v heartbeat=%v links=%d", u.GetInstance(), u.GetEpoch(), u.GetSnapshot(), u.GetHeartbeat(), len(u.GetLinks()))
	if err != nil {
		got = status.Code(err).String()
	}
	if got != want {
		t.Fatalf("got %q (%v), want %q", got, err, want)
	}
}

func TestWatch(t *testing.T) {
	serve(t, ServiceConfig{}, func(t *testing.T, s *served) {
		c := s.dial(hello(1, "", 0))
		synctest.Wait()
		if as := s.Agents(); len(as) != 1 || as[0].Host != 1 {
			t.Errorf("agents %+v", as)
		}
		time.Sleep(10 * time.Second) // not started: nothing is said
		s.start(4)
		c.expect(t, "a 0 snapshot=true heartbeat=false links=0")
		s.change(7)
		c.expect(t, "a 1 snapshot=false heartbeat=false links=1")
		began := time.Now()
		c.expect(t, "a 1 snapshot=false heartbeat=true links=0")
		if d := time.Since(began); d != time.Second {
			t.Errorf("a heartbeat after %v", d)
		}
		c.close()

		s.change(8)
		s.change(7)
		c = s.dial(hello(1, "a", 1)) // resumes
		c.expect(t, "a 2 snapshot=false heartbeat=false links=1")
		c.expect(t, "a 3 snapshot=false heartbeat=false links=1")
		other := s.dial(hello(2, "b", 3)) // had another instance's
		other.expect(t, "a 3 snapshot=true heartbeat=false links=2")
		other.close()
		again := s.dial(hello(1, "a", 3)) // the old stream is half open, say
		c.expect(t, "Aborted")
		s.change(9)
		again.expect(t, "a 4 snapshot=false heartbeat=false links=1")
		again.close()
		c.close()
		synctest.Wait()
		if as := s.Agents(); len(as) != 0 {
			t.Errorf("agents %+v", as)
		}
	})
}

func TestBadAgents(t *testing.T) {
	reports := 0
	serve(t, ServiceConfig{OnReport: func(host uint32, r *statepb.Report) { reports++ }}, func(t *testing.T, s *served) {
		report := &statepb.AgentMessage{Message: &statepb.AgentMessage_Report{Report: &statepb.Report{}}}
		for _, tt := range []struct {
			name     string
			messages []*statepb.AgentMessage
			want     codes.Code
		}{
			{"silent", nil, codes.DeadlineExceeded},
			{"no hello", []*statepb.AgentMessage{report}, codes.InvalidArgument},
			{"no such host", []*statepb.AgentMessage{hello(1000, "", 0)}, codes.InvalidArgument},
			{"two hellos", []*statepb.AgentMessage{hello(1, "", 0), hello(1, "", 0)}, codes.InvalidArgument},
		} {
			c := s.dial(tt.messages...)
			if _, err := c.Recv(); status.Code(err) != tt.want {
				t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
			}
			c.close()
		}
		c := s.dial(hello(1, "", 0), report)
		synctest.Wait()
		if reports != 1 {
			t.Errorf("%d reports", reports)
		}
		c.close()
	})
}

// TestStalled has an agent that reads nothing among some that do.
func TestStalled(t *testing.T) {
	serve(t, ServiceConfig{}, func(t *testing.T, s *served) {
		s.start(64)
		stalled := s.dial(hello(0, "", 0))
		synctest.Wait() // its stream is there before anything changes
		live := make([]*client, 4)
		for i := range live {
			live[i] = s.dial(hello(uint32(i+1), "", 0))
			live[i].expect(t, "a 0 snapshot=true heartbeat=false links=0")
		}
		const changes = 10_000
		for range changes {
			s.change(uint32(s.epoch % 10))
			// The stalled one's sender has taken it, too, or is blocked: if it came late it would take snapshots, and
			// be blocked as late as it likes.
			synctest.Wait()
			for _, c := range live {
				if u, err := c.Recv(); err != nil || u.GetEpoch() != s.epoch {
					t.Fatalf("update %d: %v, %v", s.epoch, u, err)
				}
			}
		}
		synctest.Wait()
		for _, a := range s.Agents() {
			if (a.Behind > changes/10) != (a.Host == 0) {
				t.Errorf("host %d is %d behind", a.Host, a.Behind)
			}
		}
		// It comes back: what it missed beyond the history is a snapshot.
		links, epoch, n := map[uint32]*statepb.LinkState{}, uint64(0), 0
		for epoch != s.epoch {
			u, err := stalled.Recv()
			if err != nil {
				t.Fatal(err)
			}
			epoch = Apply(links, u)
			n++
		}
		if len(links) != 10 || n >= changes {
			t.Errorf("%d links after %d updates", len(links), n)
		}
		stalled.close()
		for _, c := range live {
			c.close()
		}
	})
}

// An agent's reports are taken at a pace, after a burst.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, start := newRateLimiter(reportEvery, reportBurst), time.Now()
		for range reportBurst {
			if err := p.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("the burst took %v", took)
		}
		for range 100 {
			if err := p.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 100*reportEvery {
			t.Errorf("100 reports more took %v", took)
		}
	})
}

// TestComingAndGoingIsSaidSparingly has agents join and leave all the time: the log reports
// of some, and of how many it did not.
func TestComingAndGoingIsSaidSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := NewService(ServiceConfig{Hosts: 4, Log: slog.New(slog.NewTextHandler(&out, nil))})
		a := &agent{host: 1, addr: "there", end: func(error) {}}
		for range 10_000 {
			s.addAgent(a)
			s.removeAgent(a)
		}
		time.Sleep(time.Minute)
		s.addAgent(a)
		if n := strings.Count(out.String(), "\n"); n != logBurst+1 {
			t.Errorf("%d lines of 20001 events, want %d", n, logBurst+1)
		}
		if want := fmt.Sprintf("not_said_before=%d", 20_000-logBurst); !strings.Contains(out.String(), want) {
			t.Errorf("the log does not say %s", want)
		}
	})
}
