package daemon

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/fabric/staterpc"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/internal/durable"
)

// controller sends what a test gives it.
type controller struct {
	staterpc.UnimplementedFabricStateServer
	lis *bufconn.Listener
	srv *grpc.Server

	mu      sync.Mutex
	hellos  []*statepb.Hello
	say     chan *statepb.Update
	reports chan *statepb.Report
}

func newController() *controller {
	c := &controller{lis: bufconn.Listen(1 << 16), srv: grpc.NewServer(), say: make(chan *statepb.Update, 16), reports: make(chan *statepb.Report, 16)}
	staterpc.RegisterFabricStateServer(c.srv, c)
	go c.srv.Serve(c.lis)
	return c
}

func (c *controller) Watch(stream grpc.BidiStreamingServer[statepb.AgentMessage, statepb.Update]) error {
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.hellos = append(c.hellos, m.GetHello())
	c.mu.Unlock()
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			c.reports <- m.GetReport()
		}
	}()
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case u := <-c.say:
			if u == nil {
				return errors.New("asked to end")
			}
			if err := stream.Send(u); err != nil {
				return err
			}
		}
	}
}

func update(instance string, snapshot bool, epoch uint64, links ...*statepb.LinkState) *statepb.Update {
	return &statepb.Update{Instance: instance, Snapshot: snapshot, Epoch: epoch, Links: links}
}

func link(id uint32, up bool, epoch uint64) *statepb.LinkState {
	return &statepb.LinkState{Link: id, Up: up, Epoch: epoch}
}

// TestWatch follows one of two controllers until it breaks off, and then the other
// from all that it has said.
func TestWatch(t *testing.T) {
	cs := map[string]*controller{"a": newController(), "b": newController()}
	got := make(chan *statepb.Update, 16)
	w, err := NewWatcher(WatchConfig{
		Host: 3, Links: 32, Controllers: []string{"a", "b"}, Apply: func(u *statepb.Update) {
			if !u.GetHeartbeat() {
				got <- u
			}
		}, Retry: time.Millisecond, RetryMost: 10 * time.Millisecond,
		Probe: func(ps []*statepb.ProbeRequest, done func([]*statepb.ProbeResult)) {
			done([]*statepb.ProbeResult{{Id: ps[0].GetId(), Sent: ps[0].GetPackets(), Lost: 1}})
		},
		Dial: func(addr string) (*grpc.ClientConn, error) {
			return grpc.NewClient("passthrough:"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return cs[addr].lis.DialContext(ctx) }))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		for _, c := range cs {
			c.srv.Stop()
		}
	}()
	want := func(u *statepb.Update) {
		t.Helper()
		select {
		case x := <-got:
			if diff := cmp.Diff(u, x, protocmp.Transform()); diff != "" {
				t.Fatalf("applied (-want +got):\n%s", diff)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("not applied: %v", u)
		}
	}
	cs["a"].say <- update("A", true, 2, link(5, false, 1))
	want(update("A", true, 2, link(5, false, 1)))
	cs["a"].say <- update("A", false, 3, link(6, false, 1))
	want(update("A", false, 3, link(6, false, 1)))
	// The other speaks, too; it is remembered, not followed.
	cs["b"].say <- update("B", true, 1)
	cs["b"].say <- update("B", false, 2, link(6, false, 1))
	for {
		if c := w.Controllers()[1]; c.Epoch == 2 {
			if c.Followed || !c.Open || c.Updates != 2 {
				t.Fatalf("b: %+v", c)
			}
			break
		}
		time.Sleep(time.Millisecond)
	}
	// Both receive what timed out; the one that asks for probes receives their results.
	w.Report(Suspicions(nil, 1))
	w.Report(Suspicions([]hostagent.Failed{{Dst: 9, DstToR: 17, Label: 2}}, 5))
	cs["b"].say <- &statepb.Update{Instance: "B", Epoch: 2, Heartbeat: true, Probes: []*statepb.ProbeRequest{{Id: 4, Packets: 3}}}
	dst := uint32(9)
	reported := &statepb.Report{Suspicions: []*statepb.Suspicion{{DstTor: 17, Label: 2, Timeouts: 1, TimeNs: 5, Dst: &dst}}}
	for _, x := range []struct {
		at   string
		want *statepb.Report
	}{{"a", reported}, {"b", reported}, {"b", &statepb.Report{Probes: []*statepb.ProbeResult{{Id: 4, Sent: 3, Lost: 1}}}}} {
		select {
		case r := <-cs[x.at].reports:
			if diff := cmp.Diff(x.want, r, protocmp.Transform()); diff != "" {
				t.Errorf("reported to %s (-want +got):\n%s", x.at, diff)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s was not notified of %v", x.at, x.want)
		}
	}
	cs["a"].say <- nil
	want(update("B", true, 2, link(6, false, 1)))
	// a comes back: it is asked to go on from where it was, and is not followed.
	cs["a"].say <- update("A", false, 4, link(5, true, 2))
	for w.Controllers()[0].Epoch != 4 {
		time.Sleep(time.Millisecond)
	}
	if h := cs["a"].hellos; len(h) != 2 || h[1].GetInstance() != "A" || h[1].GetLastEpoch() != 3 || h[1].GetHost() != 3 {
		t.Errorf("hellos to a: %v", h)
	}
	// b ends as well: a's whole state counts again.
	cs["b"].say <- nil
	want(update("A", true, 4, link(5, true, 2), link(6, false, 1)))
}

// TestMerge joins what one controller says, link by link and suspicion by
// suspicion.
func TestMerge(t *testing.T) {
	suspect := func(id uint32, is bool, epoch uint64) *statepb.Suspect {
		return &statepb.Suspect{Link: id, Suspected: is, Epoch: epoch}
	}
	view := update("A", true, 5, link(1, false, 3), link(2, true, 2))
	view.Suspects = []*statepb.Suspect{suspect(4, true, 1), suspect(5, true, 3)}
	more := update("A", false, 6, link(1, true, 4), link(3, false, 1))
	more.Suspects = []*statepb.Suspect{suspect(4, false, 2), suspect(5, false, 2)}
	want := update("A", true, 6, link(1, true, 4), link(2, true, 2), link(3, false, 1))
	want.Suspects = []*statepb.Suspect{suspect(4, false, 2), suspect(5, true, 3)}
	if diff := cmp.Diff(want, Merge(view, more), protocmp.Transform()); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	other := update("B", false, 1, link(7, false, 1))
	if diff := cmp.Diff(update("B", true, 1, link(7, false, 1)), Merge(view, other), protocmp.Transform()); diff != "" {
		t.Errorf("of another instance (-want +got):\n%s", diff)
	}
}

// TestState writes a state and reads it, and refuses what is not one.
func TestState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h3.json")
	s, err := ReadState(path, 3)
	if err != nil || s.Known() != nil {
		t.Fatalf("no file: %+v, %v", s, err)
	}
	u := update("A", true, 7, link(5, false, 3), link(6, true, 2))
	s.SetLinks(u)
	homes := map[labeller.QP]fabric.Label{{Dst: netip.MustParseAddr("10.0.1.2"), Num: 4}: 2, {Dst: netip.MustParseAddr("10.0.1.2"), Num: 3}: 1}
	s.SetHomes(homes)
	if err := s.Write(durable.OS, path); err != nil {
		t.Fatal(err)
	}
	again, err := ReadState(path, 3)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(homes, again.HomeLabels()) {
		t.Errorf("homes %v, written %v", again.HomeLabels(), homes)
	}
	if diff := cmp.Diff(s, again, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("state (-written +read):\n%s", diff)
	}
	if diff := cmp.Diff(u, again.Known(), protocmp.Transform()); diff != "" {
		t.Errorf("links (-sent +known):\n%s", diff)
	}
	if _, err := ReadState(path, 4); !errors.Is(err, ErrConfig) {
		t.Errorf("another host's file: %v", err)
	}
	for _, text := range []string{"", "{", `{"version":1,"host":3}`, `{"version":2,"host":3,"more":1}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadState(path, 3); !errors.Is(err, ErrConfig) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestWithoutControllers: a watcher that has nobody to listen to goes on until it
// is asked to end.
func TestWithoutControllers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := NewWatcher(WatchConfig{
			Host: 3, Links: 32, Apply: func(*statepb.Update) {},
			Dial: func(string) (*grpc.ClientConn, error) { return nil, errors.New("nobody to dial") },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("it ended by itself: %v", err)
		default:
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
}
