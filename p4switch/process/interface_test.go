//go:build linux

package process_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"

	bpf "github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	gnmi "github.com/openconfig/gnmi/proto/gnmi"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/p4switch/ebpf"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
	"github.com/ethereal-fabric/ethereal/p4switch/process"
)

// endpoint is a host's end of a link.
type endpoint struct {
	t      testing.TB
	port   *port.Interface
	poller *port.Poller
}

func newEndpoint(t testing.TB, name string) *endpoint {
	t.Helper()
	e := &endpoint{t: t}
	var err error
	if e.port, err = port.OpenInterface(name, port.InterfaceOptions{}); err != nil {
		t.Fatal(err)
	}
	if e.poller, err = port.NewPoller(); err != nil {
		t.Fatal(err)
	}
	if err := e.poller.Add(e.port, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.port.Close(); err != nil {
			t.Error(err)
		}
		if err := e.poller.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func (e *endpoint) send(frames ...[]byte) {
	e.t.Helper()
	if n := e.port.Send(frames); n != len(frames) {
		e.t.Fatalf("%d of %d frames taken", n, len(frames))
	}
}

// receive waits for n frames, at most a minute.
func (e *endpoint) receive(n int) [][]byte {
	e.t.Helper()
	var got [][]byte
	for deadline := time.Now().Add(time.Minute); ; {
		e.port.Receive(n-len(got), func(b []byte) { got = append(got, bytes.Clone(b)) })
		if len(got) == n {
			return got
		}
		left := time.Until(deadline)
		if left <= 0 {
			e.t.Fatalf("%d of %d frames after a minute", len(got), n)
		}
		if _, err := e.poller.Wait(left, nil); err != nil {
			e.t.Fatal(err)
		}
	}
}

// operStatus subscribes to a port's oper-status and returns its values as they
// come.
func (p *running) operStatus(t testing.TB, name string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := gnmi.NewGNMIClient(p.conn).Subscribe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	path := &gnmi.Path{Elem: []*gnmi.PathElem{{Name: "interfaces"}, {Name: "interface", Key: map[string]string{"name": name}}, {Name: "state"}, {Name: "oper-status"}}}
	err = stream.Send(&gnmi.SubscribeRequest{Request: &gnmi.SubscribeRequest_Subscribe{Subscribe: &gnmi.SubscriptionList{
		Mode: gnmi.SubscriptionList_STREAM, Encoding: gnmi.Encoding_PROTO,
		Subscription: []*gnmi.Subscription{{Path: path, Mode: gnmi.SubscriptionMode_ON_CHANGE}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	values := make(chan string, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			for _, u := range m.GetUpdate().GetUpdate() {
				values <- u.GetVal().GetStringVal()
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return values
}

func (p *running) setEnabled(t testing.TB, name string, enabled bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	path := &gnmi.Path{Elem: []*gnmi.PathElem{{Name: "interfaces"}, {Name: "interface", Key: map[string]string{"name": name}}, {Name: "config"}, {Name: "enabled"}}}
	_, err := gnmi.NewGNMIClient(p.conn).Set(ctx, &gnmi.SetRequest{Update: []*gnmi.Update{{
		Path: path, Val: &gnmi.TypedValue{Value: &gnmi.TypedValue_BoolVal{BoolVal: enabled}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

func expect(t testing.TB, values <-chan string, want string) {
	t.Helper()
	select {
	case got := <-values:
		if got != want {
			t.Fatalf("oper-status %s, not %s", got, want)
		}
	case <-time.After(5 * time.Second):
		t.Fatalf("no oper-status %s after five seconds", want)
	}
}

// The whole way, as a process that a script starts under the name of BMv2's:
// P4Runtime over TCP, forwarding, packet-in and -out, link state from netlink
// to gNMI and to the program, gNMI Set to the interface, and the end.
func TestProcess(t *testing.T) {
	systemtest.Only(t)
	ns := twoVeths(t)
	ns.Veth(t, "h3", "s3", 9000)
	dir := t.TempDir()
	p := startSwitch(t, ns, []string{etherealtest.Binary(t), "switch", "--pcap=" + dir, "--log-console"}, "s1", "s2", "s3")
	json, info := program(t, "tm")
	p.push(t, json, info)
	h1, h2 := newEndpoint(t, "h1"), newEndpoint(t, "h2")
	frame := func(o order, payload string) []byte { return append(o.bytes(), payload...) }

	h1.send(frame(order{port: 2, tag: 1}, "payload"))
	if got := parseSeen(h2.receive(1)[0]); got.Ingress != 1 || got.Payload != "payload" {
		t.Errorf("%+v", got)
	}
	big := string(bytes.Repeat([]byte{'x'}, 8900))
	h1.send(frame(order{port: 2, tag: 2}, big))
	if got := parseSeen(h2.receive(1)[0]); got.Payload != big {
		t.Errorf("%d bytes", len(got.Payload))
	}

	h1.send(frame(order{port: 255, tag: 3}, "upwards"))
	in, err := p.ctl.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if b := in.GetPacket().GetPayload(); !bytes.HasSuffix(b, []byte("upwards")) || !bytes.Equal(in.GetPacket().GetMetadata()[0].GetValue(), []byte{1}) {
		t.Errorf("packet-in %v", in)
	}
	err = p.ctl.Send(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Packet{Packet: &p4.PacketOut{
		Payload: frame(order{tag: 4}, "down"), Metadata: []*p4.PacketMetadata{{MetadataId: 1, Value: []byte{2}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := parseSeen(h2.receive(1)[0]); got.Tag != 4 || got.Ingress != 255 || got.Payload != "down" {
		t.Errorf("%+v", got)
	}

	status := p.operStatus(t, "s3")
	expect(t, status, "UP")
	ns.Up(t, "h3", false) // the far end: the near one loses its carrier
	expect(t, status, "DOWN")
	ns.Up(t, "h3", true)
	expect(t, status, "UP")
	p.setEnabled(t, "s3", false)
	expect(t, status, "DOWN")
	if ns.IsUp(t, "s3") {
		t.Error("s3 is up although it was disabled")
	}
	p.setEnabled(t, "s3", true)
	expect(t, status, "UP")
	if !ns.IsUp(t, "s3") {
		t.Error("s3 is down although it was enabled")
	}
	ns.Up(t, "s3", false) // others do, and gNMI undoes it
	expect(t, status, "DOWN")
	p.setEnabled(t, "s3", true)
	expect(t, status, "UP")
	p.end(t)
	if !p.cmd.ProcessState.Success() {
		t.Errorf("exit: %v\n%s", p.cmd.ProcessState, p.out)
	}
}

// Behind a slow interface the send blocks, and the switch's own queue grows:
// packets read its depth, and what it does not hold is dropped there.
func TestSlowInterface(t *testing.T) {
	ns := porttest.Enter(t)
	ns.Veth(t, "h1", "s1", 1500)
	ns.Veth(t, "h2", "s2", 1500)
	ns.Shape(t, "s2", 2_000_000, 3000, 1<<20)
	cfg := process.Config{QueueDepth: 30}
	for i, name := range []string{"s1", "s2"} {
		near, err := port.OpenInterface(name, port.InterfaceOptions{SendBuffer: 8 << 10})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Ports = append(cfg.Ports, process.PortConfig{Number: uint32(i + 1), Name: name, Port: near, Index: near.Index()})
	}
	links, err := port.OpenLinks()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Links = links
	d, err := process.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	defer func() {
		cancel()
		<-done
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	json, info := program(t, "tm")
	if err := d.Install(json, info); err != nil {
		t.Fatal(err)
	}
	h1, h2 := newEndpoint(t, "h1"), newEndpoint(t, "h2")
	const sent = 200
	for i := range sent {
		h1.send(append(order{port: 2, tag: uint16(i)}.bytes(), bytes.Repeat([]byte{'x'}, 1400)...))
	}
	var got []seen
	deepest := uint32(0)
	for deadline := time.Now().Add(5 * time.Second); ; {
		h2.port.Receive(sent, func(b []byte) {
			s := parseSeen(b)
			deepest = max(deepest, s.Enq)
			got = append(got, s)
		})
		s := d.Stats()
		if s.Ingress == sent && len(got) == sent-int(s.TailDrops) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d packets after five seconds; %+v", len(got), s)
		}
		if _, err := h2.poller.Wait(10*time.Millisecond, nil); err != nil {
			t.Fatal(err)
		}
	}
	if s := d.Stats(); s.TailDrops == 0 || deepest != 29 {
		t.Errorf("deepest queue %d; %+v", deepest, s)
	}
	if c := cfg.Ports[1].Port.Counters(); c.OutLost != 0 || int(c.OutPkts) != len(got) {
		t.Errorf("%+v for %d packets", c, len(got))
	}
}

// twoVeths returns a namespace, which the test enters, with the veths h1-s1 and h2-s2.
func twoVeths(t testing.TB) *porttest.Namespace {
	ns := porttest.Enter(t)
	ns.Veth(t, "h1", "s1", 9000)
	ns.Veth(t, "h2", "s2", 9000)
	return ns
}

// A dead uplink reaches Ethereal's program as a port event, and the next packet
// for it is answered with a quench. In the kernel, too: the packet that finds the
// port dead goes up.
func TestPortEvent(t *testing.T) {
	systemtest.Only(t)
	for _, where := range []string{"interpreter", "kernel"} {
		t.Run(where, func(t *testing.T) { testPortEvent(t, where) })
	}
}

func testPortEvent(t *testing.T, where string) {
	ns := twoVeths(t)
	if where == "kernel" {
		kernelOrSkip(t, "s1", "")
	}
	p := startSwitch(t, ns, []string{etherealtest.Binary(t), "switch", "--datapath", where}, "s1", "s2")
	p.program(t)
	// Quench at most every microsecond, and a session towards port 1.
	p.write(t,
		p.entry(t, p4.Update_MODIFY, "device", nil, "set_device", []byte{7}, []byte{1}, []byte{0}, []byte{1}, []byte{0}, []byte{1}),
		insert(&p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
			Type: &p4.PacketReplicationEngineEntry_CloneSessionEntry{CloneSessionEntry: &p4.CloneSessionEntry{
				SessionId: 513, Replicas: []*p4.Replica{{PortKind: &p4.Replica_Port{Port: []byte{1}}, Instance: 1}}}}}}}),
	)
	h1, h2 := newEndpoint(t, "h1"), newEndpoint(t, "h2")
	packet := rocePacket(200, 0xC001)
	h1.send(packet)
	if got := h2.receive(1)[0]; len(got) != 200 {
		t.Errorf("%d bytes", len(got))
	}
	status := p.operStatus(t, "s2")
	expect(t, status, "UP")
	ns.Up(t, "h2", false)
	expect(t, status, "DOWN")
	h1.send(packet)
	quench := h1.receive(1)[0]
	if got := binary.BigEndian.Uint16(quench[36:]); got != 47910 {
		t.Errorf("not a quench: %x", quench)
	}
	ns.Up(t, "h2", true)
	expect(t, status, "UP")
	for { // the kernel readies the link a moment after its carrier
		h1.send(packet)
		n := 0
		h2.port.Receive(10, func([]byte) { n++ })
		if n > 0 {
			break
		}
		if _, err := h2.poller.Wait(100*time.Millisecond, nil); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(0, h1.port.Receive(10, func([]byte) {})); diff != "" {
		t.Errorf("quenched although the link is back: %s", diff)
	}
}

// A port's interface that is removed and made again is the port's again, with another index.
func TestInterfaceMadeAgain(t *testing.T) {
	systemtest.Only(t)
	for _, where := range []string{"interpreter", "kernel"} {
		t.Run(where, func(t *testing.T) { testMadeAgain(t, where) })
	}
}

func testMadeAgain(t *testing.T, where string) {
	ns := twoVeths(t)
	if where == "kernel" {
		kernelOrSkip(t, "s1", ebpf.HookTCX)
	}
	p := startSwitch(t, ns, []string{etherealtest.Binary(t), "switch", "--datapath", where}, "s1", "s2")
	json, info := program(t, "lpm")
	p.push(t, json, info)
	for i, host := range []byte{10, 20} {
		p.write(t, p.entry(t, p4.Update_INSERT, "ipv4_lpm", lpm(24, host, 0, 0, 0), "forward", []byte{2, 0, 0, 0, 0, 9}, []byte{byte(i + 1)}))
	}
	h1 := newEndpoint(t, "h1")
	status := p.operStatus(t, "s2")
	expect(t, status, "UP")
	for round := range 3 {
		h2 := newEndpoint(t, "h2")
		to2, to1 := rocePacket(100+round, 0xC001), rocePacket(200+round, 0xC001)
		to2[30], to1[30] = 20, 10
		h1.send(to2)
		if got := len(h2.receive(1)[0]); got != 100+round {
			t.Errorf("round %d: %d bytes at h2", round, got)
		}
		h2.send(to1)
		if got := len(h1.receive(1)[0]); got != 200+round {
			t.Errorf("round %d: %d bytes at h1", round, got)
		}
		if where == "kernel" && attached(t, "s2") != 1 {
			t.Errorf("round %d: %d programs on s2, want 1", round, attached(t, "s2"))
		}
		ns.Remove(t, "h2")
		expect(t, status, "DOWN")
		ns.Veth(t, "h2", "s2", 2000+1000*round)
		expect(t, status, "UP")
	}
}

// attached is how many programs an interface has at its ingress, by TCX.
func attached(t *testing.T, name string) int {
	t.Helper()
	i, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := link.QueryPrograms(link.QueryOptions{Target: i.Index, Attach: bpf.AttachTCXIngress})
	if err != nil {
		t.Fatal(err)
	}
	return len(r.Programs)
}
