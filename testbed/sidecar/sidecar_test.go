//go:build linux

package sidecar_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	gnmi "github.com/openconfig/gnmi/proto/gnmi"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/testbed/port"
	"github.com/ethereal-fabric/ethereal/testbed/port/porttest"
	"github.com/ethereal-fabric/ethereal/testbed/sidecar"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

// bench is a sidecar over two interfaces of a namespace, with a client and, as
// the switch would have it, the other end of the event pair.
type bench struct {
	ns      *porttest.Namespace
	refresh time.Duration
	client  gnmi.GNMIClient
	events  *port.Interface
	poller  *port.Poller
	stop    func() // ends the sidecar
}

func newBench(t *testing.T, refresh time.Duration) *bench {
	t.Helper()
	b := &bench{ns: porttest.Enter(t), refresh: refresh}
	b.ns.Veth(t, "s1-eth1", "h1", 1500)
	b.ns.Veth(t, "s1-eth2", "h2", 1500)
	b.ns.Veth(t, "s1-ev", "s1-evp", 1500)
	var err error
	if b.events, err = port.OpenInterface("s1-evp", port.InterfaceOptions{}); err != nil {
		t.Fatal(err)
	}
	if b.poller, err = port.NewPoller(); err != nil {
		t.Fatal(err)
	}
	if err := b.poller.Add(b.events, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.stop()
		for _, c := range []interface{ Close() error }{b.events, b.poller} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	b.start(t)
	return b
}

// start starts a sidecar that knows nothing; another must have been stopped.
func (b *bench) start(t *testing.T) {
	t.Helper()
	s, err := sidecar.New(sidecar.Config{
		Interfaces:     []sidecar.Interface{{Number: 1, Device: "s1-eth1"}, {Number: 2, Device: "s1-eth2", Name: "Ethernet2"}},
		EventInterface: "s1-ev", Refresh: b.refresh,
	})
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Run(ctx) })
	g.Go(func() error { return s.Serve(ctx, lis) })
	conn, err := grpc.NewClient("passthrough:///"+lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(b.ns.Dial))
	if err != nil {
		t.Fatal(err)
	}
	b.client = gnmi.NewGNMIClient(conn)
	b.stop = func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		if err := g.Wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("sidecar: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		b.stop = func() {}
	}
}

// event is a port-event packet.
type event struct {
	port  uint16
	up    bool
	epoch uint32
}

// await returns the first port event for which ok holds.
func (b *bench) await(t *testing.T, what string, ok func(event) bool) event {
	t.Helper()
	var found *event
	for deadline := time.Now().Add(patience); found == nil; {
		b.events.Receive(64, func(f []byte) {
			if len(f) < p4src.PortEventBytes || int(f[12])<<8|int(f[13]) != p4src.EtherTypePortEvent || f[14] != 1 {
				return
			}
			e := event{
				port: uint16(f[16])<<8 | uint16(f[17]), up: f[15] == 1,
				epoch: uint32(f[18])<<24 | uint32(f[19])<<16 | uint32(f[20])<<8 | uint32(f[21]),
			}
			if found == nil && ok(e) {
				found = &e
			}
		})
		if time.Now().After(deadline) {
			t.Fatalf("no port event: %s", what)
		}
		if found == nil {
			if _, err := b.poller.Wait(100*time.Millisecond, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	return *found
}

func path(name string, rest ...string) *gnmi.Path {
	p := &gnmi.Path{Elem: []*gnmi.PathElem{{Name: "interfaces"}, {Name: "interface", Key: map[string]string{"name": name}}}}
	for _, r := range rest {
		p.Elem = append(p.Elem, &gnmi.PathElem{Name: r})
	}
	return p
}

func (b *bench) set(t *testing.T, name string, enabled bool) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := b.client.Set(ctx, &gnmi.SetRequest{Update: []*gnmi.Update{{
		Path: path(name, "config", "enabled"), Val: &gnmi.TypedValue{Value: &gnmi.TypedValue_BoolVal{BoolVal: enabled}},
	}}})
	return err
}

// get reads one leaf.
func (b *bench) get(t *testing.T, p *gnmi.Path) *gnmi.TypedValue {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := b.client.Get(ctx, &gnmi.GetRequest{Path: []*gnmi.Path{p}, Encoding: gnmi.Encoding_PROTO})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetNotification()[0].GetUpdate()[0].GetVal()
}

// watch subscribes to an interface's oper-status; the channel gets its values.
func (b *bench) watch(t *testing.T, name string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := b.client.Subscribe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Send(&gnmi.SubscribeRequest{Request: &gnmi.SubscribeRequest_Subscribe{Subscribe: &gnmi.SubscriptionList{
		Encoding:     gnmi.Encoding_PROTO,
		Subscription: []*gnmi.Subscription{{Path: path(name, "state", "oper-status"), Mode: gnmi.SubscriptionMode_ON_CHANGE}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	out, done := make(chan string, 64), make(chan struct{})
	go func() {
		defer close(done)
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			for _, u := range m.GetUpdate().GetUpdate() {
				out <- u.GetVal().GetStringVal()
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return out
}

func expect(t *testing.T, what string, from <-chan string, want string) {
	t.Helper()
	select {
	case got := <-from:
		if got != want {
			t.Fatalf("%s: %s, want %s", what, got, want)
		}
	case <-time.After(patience):
		t.Fatalf("%s: nothing, want %s", what, want)
	}
}

// A Set takes the interface down, subscribers and the program hear of it, and
// of the way back.
func TestSetEnabled(t *testing.T) {
	b := newBench(t, time.Hour)
	updates := b.watch(t, "s1-eth1")
	expect(t, "at first", updates, "UP")
	first := b.await(t, "port 1 at the start", func(e event) bool { return e.port == 1 })
	if !first.up || first.epoch == 0 || first.epoch > 50_001 {
		t.Errorf("at the start: %+v", first)
	}
	if err := b.set(t, "s1-eth1", false); err != nil {
		t.Fatal(err)
	}
	if b.ns.IsUp(t, "s1-eth1") {
		t.Error("the interface is up after it was disabled")
	}
	expect(t, "disabled", updates, "DOWN")
	down := b.await(t, "port 1 down", func(e event) bool { return e.port == 1 && !e.up })
	if diff := cmp.Diff(first.epoch+1, down.epoch); diff != "" {
		t.Error(diff)
	}
	if v := b.get(t, path("s1-eth1", "state", "admin-status")).GetStringVal(); v != "DOWN" {
		t.Errorf("admin-status %s", v)
	}
	if v := b.get(t, path("s1-eth1", "config", "id")).GetUintVal(); v != 1 {
		t.Errorf("port number %d", v)
	}
	if err := b.set(t, "s1-eth1", true); err != nil {
		t.Fatal(err)
	}
	expect(t, "enabled", updates, "UP")
	b.await(t, "port 1 up", func(e event) bool { return e.port == 1 && e.up && e.epoch == down.epoch+1 })
	if err := b.set(t, "nowhere", false); status.Code(err) != codes.NotFound && status.Code(err) != codes.InvalidArgument {
		t.Errorf("an interface that is not there: %v", err)
	}
}

// What others do to an interface, and to its peer, is seen. Its counters are
// the kernel's.
func TestFollows(t *testing.T) {
	b := newBench(t, time.Hour)
	updates := b.watch(t, "Ethernet2")
	expect(t, "at first", updates, "UP")
	b.ns.Up(t, "h2", false) // the peer: the carrier is gone
	expect(t, "without a carrier", updates, "DOWN")
	b.await(t, "port 2 down", func(e event) bool { return e.port == 2 && !e.up })
	if v := b.get(t, path("Ethernet2", "state", "admin-status")).GetStringVal(); v != "UP" {
		t.Errorf("admin-status %s", v)
	}
	b.ns.Up(t, "h2", true)
	expect(t, "with it again", updates, "UP")

	link, err := netlink.LinkByName("s1-eth2")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkDel(link); err != nil {
		t.Fatal(err)
	}
	expect(t, "removed", updates, "DOWN")
	if err := b.set(t, "Ethernet2", false); err == nil {
		t.Error("an interface that was removed can be disabled")
	}
	b.ns.Veth(t, "s1-eth2", "h2", 1500)
	expect(t, "there again", updates, "UP")

	out, err := port.OpenInterface("h2", port.InterfaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // the test is over
	frame := make([]byte, 100)
	frame[12], frame[13] = 0x88, 0xb5
	out.Send([][]byte{frame, frame, frame})
	for deadline := time.Now().Add(patience); ; {
		v := b.get(t, path("Ethernet2", "state", "counters", "in-octets")).GetUintVal()
		if v == 300 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("in-octets %d, want 300", v)
		}
	}
}

// state returns what gNMI says of port 1: configured, and operational.
func (b *bench) state(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("enabled %v, %s", b.get(t, path("s1-eth1", "config", "enabled")).GetBoolVal(),
		b.get(t, path("s1-eth1", "state", "oper-status")).GetStringVal())
}

// awaitState waits for what comes by netlink.
func (b *bench) awaitState(t *testing.T, what, want string) {
	t.Helper()
	got := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); runtime.Gosched() {
		if got = b.state(t); got == want {
			return
		}
	}
	t.Fatalf("%s: %s, want %s", what, got, want)
}

// recreate removes port 1's interface, and makes it again.
func (b *bench) recreate(t *testing.T, between func()) {
	t.Helper()
	link, err := netlink.LinkByName("h1") // takes its peer with it, and what is stacked on that
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkDel(link); err != nil {
		t.Fatal(err)
	}
	between()
	b.ns.Veth(t, "s1-eth1", "h1", 1500)
}

// A port is closed, opened and closed again, by a sidecar that was there all
// the time and by one that was started in between, on an interface that was made
// anew under it too.
func TestInjectAgain(t *testing.T) {
	for _, c := range []struct {
		name    string
		between func(*testing.T, *bench)
	}{
		{"same sidecar", func(*testing.T, *bench) {}},
		{"sidecar restarted", func(t *testing.T, b *bench) { b.stop(); b.start(t) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, time.Hour)
			for round := range 3 {
				if err := b.set(t, "s1-eth1", false); err != nil {
					t.Fatal(err)
				}
				c.between(t, b)
				if diff := cmp.Diff("enabled false, DOWN", b.state(t)); diff != "" {
					t.Fatalf("round %d, closed: %s", round, diff)
				}
				if b.ns.IsUp(t, "s1-eth1") {
					t.Fatalf("round %d: the interface is up", round)
				}
				b.await(t, "port 1 down", func(e event) bool { return e.port == 1 && !e.up })
				if err := b.set(t, "s1-eth1", true); err != nil {
					t.Fatal(err)
				}
				c.between(t, b)
				b.awaitState(t, "opened", "enabled true, UP")
				b.await(t, "port 1 up", func(e event) bool { return e.port == 1 && e.up })
			}
			for round := range 2 {
				if err := b.set(t, "s1-eth1", false); err != nil {
					t.Fatal(err)
				}
				b.recreate(t, func() { c.between(t, b) })
				b.awaitState(t, "made anew", "enabled true, UP")
				if err := b.set(t, "s1-eth1", false); err != nil {
					t.Fatal(err)
				}
				if b.ns.IsUp(t, "s1-eth1") {
					t.Fatalf("round %d: the new interface is up", round)
				}
				if err := b.set(t, "s1-eth1", true); err != nil {
					t.Fatal(err)
				}
				b.awaitState(t, "opened", "enabled true, UP")
			}
		})
	}
}

// What others do to an interface is its configuration, so that gNMI can undo it.
func TestOthersClose(t *testing.T) {
	b := newBench(t, time.Hour)
	b.ns.Up(t, "s1-eth1", false)
	b.awaitState(t, "closed by others", "enabled false, DOWN")
	if err := b.set(t, "s1-eth1", true); err != nil {
		t.Fatal(err)
	}
	b.awaitState(t, "opened", "enabled true, UP")
	if !b.ns.IsUp(t, "s1-eth1") {
		t.Error("the interface is down after it was enabled")
	}
}

// A Set that follows another at once is not undone by the news of the first.
func TestSetAtOnce(t *testing.T) {
	b := newBench(t, time.Hour)
	updates := b.watch(t, "s1-eth1")
	expect(t, "at first", updates, "UP")
	const rounds = 20
	for range rounds {
		for _, enabled := range []bool{false, true} {
			if err := b.set(t, "s1-eth1", enabled); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.awaitState(t, "in the end", "enabled true, UP")
	for range rounds {
		expect(t, "closed", updates, "DOWN")
		expect(t, "opened", updates, "UP")
	}
	select {
	case more := <-updates:
		t.Errorf("%s, though nobody did anything", more)
	default:
	}
}

// An interface that is stacked on another stays open, and loses its carrier.
func TestStacked(t *testing.T) {
	b := newBench(t, time.Hour)
	b.stop()
	stack := func() {
		b.ns.Rename(t, "s1-eth1", "lower")
		b.ns.Macvlan(t, "lower", "s1-eth1")
	}
	stack()
	b.start(t)
	if diff := cmp.Diff("enabled true, UP", b.state(t)); diff != "" {
		t.Fatal(diff)
	}
	for range 2 {
		if err := b.set(t, "s1-eth1", false); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("enabled false, DOWN", b.state(t)); diff != "" {
			t.Fatal(diff)
		}
		if b.ns.IsUp(t, "lower") || !b.ns.IsUp(t, "s1-eth1") {
			t.Fatalf("up: lower %v, the switch's %v", b.ns.IsUp(t, "lower"), b.ns.IsUp(t, "s1-eth1"))
		}
		b.stop()
		b.start(t)
		if diff := cmp.Diff("enabled false, DOWN", b.state(t)); diff != "" {
			t.Fatal("after a restart", diff)
		}
		if err := b.set(t, "s1-eth1", true); err != nil {
			t.Fatal(err)
		}
		b.awaitState(t, "opened", "enabled true, UP")
		b.ns.Up(t, "lower", false)
		b.awaitState(t, "closed by others", "enabled false, DOWN")
		b.recreate(t, func() {})
		b.awaitState(t, "a plain one", "enabled true, UP")
		stack()
		b.awaitState(t, "stacked again", "enabled true, UP")
	}
}

// A program that lost its state is told of a dead port again, with the epoch
// it had.
func TestRefresh(t *testing.T) {
	b := newBench(t, 20*time.Millisecond)
	if err := b.set(t, "s1-eth1", false); err != nil {
		t.Fatal(err)
	}
	down := b.await(t, "port 1 down", func(e event) bool { return e.port == 1 && !e.up })
	for range 3 {
		again := b.await(t, "port 1 down again", func(e event) bool { return e.port == 1 })
		if diff := cmp.Diff(down, again, cmp.AllowUnexported(event{})); diff != "" {
			t.Error(diff)
		}
		b.await(t, "port 2 up again", func(e event) bool { return e.port == 2 && e.up })
	}
}

func TestBadConfig(t *testing.T) {
	porttest.Enter(t)
	one := []sidecar.Interface{{Number: 1, Device: "a"}}
	for _, c := range []struct {
		name string
		cfg  sidecar.Config
		want string
	}{
		{"none", sidecar.Config{}, "sidecar: no interfaces"},
		{"refresh", sidecar.Config{Interfaces: one, Refresh: -1}, "sidecar: refresh -1ns is negative"},
		{"twice", sidecar.Config{Interfaces: append(one, one...)}, "sidecar: interface a is given twice"},
		{"number", sidecar.Config{Interfaces: []sidecar.Interface{{Number: 1, Device: "a"}, {Number: 1, Device: "b"}}}, "switchd: two ports have the number 1"},
		{"event interface", sidecar.Config{Interfaces: one, EventInterface: "nowhere"}, "port: interface nowhere: route ip+net: no such network interface"},
		{"event port", sidecar.Config{Interfaces: []sidecar.Interface{{Number: 512, Device: "a"}}, EventInterface: "lo"}, "sidecar: port 512 of a: port events know ports below 512"},
	} {
		t.Run(c.name, func(t *testing.T) {
			porttest.Enter(t)
			s, err := sidecar.New(c.cfg)
			if err == nil {
				s.Close() //nolint:errcheck // it should not be there
				t.Fatal("no error")
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
