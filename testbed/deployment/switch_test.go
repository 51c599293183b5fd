package deployment

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4src/p4srctest"
	"github.com/ethereal-fabric/ethereal/p4switch/gnmi"
	"github.com/ethereal-fabric/ethereal/p4switch/p4runtime"
	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// chip is a switch whose ports have a board's names and numbers, and whose program another compiler has numbered.
type chip struct {
	f     *Fabric
	tor   fabric.NodeID
	mu    sync.Mutex
	ports *portstate.Ports
}

func device(p int) (name string, number uint32) { return fmt.Sprintf("%d/0", p), uint32(128 + 4*p) }

func newChip(t *testing.T) *chip {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := &chip{tor: f.ToRID(0)}
	var configs []portstate.Config
	var mapped []targets.Port
	for p := 1; p <= f.Node(c.tor).Ports(); p++ {
		name, number := device(p)
		configs = append(configs, portstate.Config{Name: name, Number: number})
		mapped = append(mapped, targets.Port{Name: name, ID: number})
	}
	if c.ports, err = portstate.New(configs); err != nil {
		t.Fatal(err)
	}
	now := func() int64 { return time.Now().UnixNano() }
	core, err := p4runtime.New(p4runtime.Config{DeviceID: 17, Ports: c.ports, Now: now, Load: program.Load})
	if err != nil {
		t.Fatal(err)
	}
	gn, err := gnmi.New(gnmi.Config{Ports: c.ports, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	rt, telemetry := p4runtime.NewServer(&c.mu, core), gnmi.NewServer(&c.mu, gn)
	srv := grpc.NewServer(rpc.Options(rpc.Budget{}, nil)...)
	rt.Register(srv)
	telemetry.Register(srv)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skipf("no TCP on the loopback: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { rt.Run(ctx) })
	done.Go(func() { telemetry.Run(ctx) })
	done.Go(func() { srv.Serve(lis) })
	t.Cleanup(func() { srv.Stop(); cancel(); done.Wait() })

	pipeline, err := p4rt.NewPipeline(p4srctest.Renumbered(p4src.V1ModelP4Info()), p4src.V1ModelJSON())
	if err != nil {
		t.Fatal(err)
	}
	m, err := targets.NewPortMap(mapped)
	if err != nil {
		t.Fatal(err)
	}
	addr := lis.Addr().String()
	cfg := daemon.Config{Core: controller.Config{Fabric: f}, Targets: map[fabric.NodeID]daemon.Target{c.tor: {
		P4Runtime: addr, GNMI: addr, DeviceID: 17, Ports: m, Pipeline: pipeline,
	}}}
	c.f, err = Open(cfg, func(addr string) (*grpc.ClientConn, error) {
		return grpc.NewClient(addr, append(p4rt.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// install makes the test primary, and the switch run the program.
func (c *chip) install(t *testing.T) (client p4.P4RuntimeClient, w p4rt.Writer) {
	t.Helper()
	s := c.f.Switch(c.tor)
	conn, err := s.dial(s.target.P4Runtime)
	if err != nil {
		t.Fatal(err)
	}
	client, w = s.pipeline.Client(conn), p4rt.Writer{DeviceID: 17, ElectionID: p4rt.ElectionID{Low: 1}.Proto()}
	packets, err := p4rt.OpenPacketStream(t.Context(), client, s.pipeline.Schema(), w, func(p4rt.PacketIn) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { packets.Close(); conn.Close() })
	if err := s.pipeline.Install(t.Context(), client, w); err != nil {
		t.Fatal(err)
	}
	return client, w
}

// TestCounters: counters are found by their names, whatever their ids, and those of ports are by the fabric's numbers.
// A switch without a program, or that is not there, has counted nothing.
func TestCounters(t *testing.T) {
	c := newChip(t)
	counters := func(want Counted) {
		t.Helper()
		got, err := c.f.Counters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got[int(c.tor)-c.f.Hosts()]); d != "" {
			t.Errorf("counted (-want +got):\n%s", d)
		}
	}
	counters(Counted{})
	client, w := c.install(t)
	_, number := device(2)
	for name, cell := range map[string]*p4.CounterEntry{
		CounterData:  {Index: &p4.Index{Index: int64(number)}, Data: &p4.CounterData{PacketCount: 7, ByteCount: 700}},
		CounterDrops: {Index: &p4.Index{Index: 3}, Data: &p4.CounterData{PacketCount: 2, ByteCount: 200}},
	} {
		cell.CounterId, _ = c.f.Switch(c.tor).pipeline.CounterID(name)
		if _, err := client.Write(t.Context(), &p4.WriteRequest{DeviceId: w.DeviceID, ElectionId: w.ElectionID, Updates: []*p4.Update{{
			Type: p4.Update_MODIFY, Entity: &p4.Entity{Entity: &p4.Entity_CounterEntry{CounterEntry: cell}},
		}}}); err != nil {
			t.Fatal(err)
		}
	}
	counters(Counted{CounterData: {2: {7, 700}}, CounterControl: {}, CounterDrops: {3: {2, 200}}, CounterFallback: {}})
}

// TestPorts: a link is cut and healed by the names of its ports, and what the switch says of them is the fabric's.
func TestPorts(t *testing.T) {
	c := newChip(t)
	link := c.f.Node(c.tor).Link(2)
	ctx, cancel := context.WithCancel(t.Context())
	synced, news, ended := make(chan struct{}, 1), make(chan string, 8), make(chan error)
	go func() {
		ended <- c.f.Switch(c.tor).Watch(ctx, func() { synced <- struct{}{} }, func(text string) { news <- text })
	}()
	<-synced
	for _, up := range []bool{false, true} {
		if err := c.f.SetEnabled(t.Context(), link, up); err != nil {
			t.Fatal(err)
		}
		want, notUp := "port 2 down", []string{"tor0:2/0"}
		if up {
			want, notUp = "port 2 up", nil
		}
		if got := <-news; got != want {
			t.Errorf("news %q, want %q", got, want)
		}
		got, err := c.f.NotUp(t.Context())
		if d := cmp.Diff(notUp, got); d != "" || err != nil {
			t.Errorf("not up (-want +got): %v\n%s", err, d)
		}
	}
	cancel()
	<-ended
	// A port that the switch does not name is not up.
	c.f.Switch(c.tor).ports++
	if got, err := c.f.NotUp(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("not up: %v, %v; want the one that is missing", got, err)
	}
}

// TestInterfaces: what a program without counters sends, its interfaces count.
func TestInterfaces(t *testing.T) {
	c := newChip(t)
	c.ports.Counters = func(number uint32) portstate.Counters {
		return portstate.Counters{OutPkts: uint64(number), OutOctets: 100 * uint64(number)}
	}
	got, err := c.f.Switch(c.tor).readCounters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Counted{CounterData: {1: {132, 13200}, 2: {136, 13600}}}, got); d != "" {
		t.Errorf("counted (-want +got):\n%s", d)
	}
}

// TestSince: a switch that was started again meanwhile counts from 0.
func TestSince(t *testing.T) {
	before := Counted{"a": {1: {10, 1000}, 2: {5, 500}}}
	after := Counted{"a": {1: {13, 1300}, 2: {2, 200}, 3: {1, 100}}, "b": {0: {4, 40}}}
	want := Counted{"a": {1: {3, 300}, 2: {2, 200}, 3: {1, 100}}, "b": {0: {4, 40}}}
	if d := cmp.Diff(want, after.Since(before)); d != "" {
		t.Errorf("since (-want +got):\n%s", d)
	}
}
