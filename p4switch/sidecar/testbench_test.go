//go:build linux

package sidecar_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	gnmi "github.com/openconfig/gnmi/proto/gnmi"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
	"github.com/ethereal-fabric/ethereal/p4switch/sidecar"
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
		EventInterface: "s1-ev", PortEvents: eventPackets, Refresh: b.refresh,
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

// etherType is that of port-event packets here: one for local experiments.
const etherType = 0x88B5

// eventPackets are Ethernet frames with a byte for up, the port's number and the epoch.
var eventPackets = &portstate.EventPackets{Ports: 512, Append: func(b []byte, port uint16, up bool, epoch uint32) []byte {
	state := byte(0)
	if up {
		state = 1
	}
	b = binary.BigEndian.AppendUint16(append(b, make([]byte, 12)...), etherType)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(append(b, state), port), epoch)
}}

// await returns the first port event for which ok holds.
func (b *bench) await(t *testing.T, what string, ok func(event) bool) event {
	t.Helper()
	var found *event
	for deadline := time.Now().Add(patience); found == nil; {
		b.events.Receive(64, func(f []byte) {
			if len(f) < 21 || binary.BigEndian.Uint16(f[12:]) != etherType {
				return
			}
			e := event{port: binary.BigEndian.Uint16(f[15:]), up: f[14] == 1, epoch: binary.BigEndian.Uint32(f[17:])}
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
