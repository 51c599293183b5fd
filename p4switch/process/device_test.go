package process_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/p4switch/p4runtime"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
	"github.com/ethereal-fabric/ethereal/p4switch/process"
)

func TestForward(t *testing.T) {
	l := newLab(t, []int{linkFrames, linkFrames, linkFrames}, process.Config{})
	var orders []order
	for i := range 1000 {
		orders = append(orders, order{port: 3, tag: uint16(i)})
	}
	l.send(1, orders...)
	for i, s := range l.receive(3, 1000) {
		want := seen{Tag: uint16(i), Ingress: 1, EnqAt: s.EnqAt, Payload: "payload"}
		if diff := cmp.Diff(want, s); diff != "" {
			t.Fatalf("packet %d: %s", i, diff)
		}
	}
	l.send(2, order{port: 9}, order{port: 511})
	s := l.until(func(s process.Stats) bool { return s.Ingress == 1002 && s.NoPort == 1 })
	if s.PipelineDrops.Total() != 1 || s.Sent != 1000 {
		t.Errorf("%+v", s)
	}
}

// A packet for a port that has no interface passes egress, as in BMv2: what it is cloned to is sent, and it
// recirculates.
func TestPortWithoutInterface(t *testing.T) {
	l := newLab(t, []int{linkFrames, linkFrames}, process.Config{})
	l.write(insert(&p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{
		PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
			Type: &p4.PacketReplicationEngineEntry_CloneSessionEntry{CloneSessionEntry: &p4.CloneSessionEntry{
				SessionId: 5, Replicas: []*p4.Replica{{PortKind: &p4.Replica_EgressPort{EgressPort: 2}, Instance: 1}},
			}},
		}}}))
	l.send(1, order{port: 300, clone: 5, tag: 7}, order{port: 300, again: 2, tag: 8})
	if got := tags(l.receive(2, 1)); len(got) != 1 || got[0] != 7 {
		t.Errorf("the clone: %v", got)
	}
	s := l.until(func(s process.Stats) bool { return s.NoPort == 2 })
	if s.Recirculated != 2 || s.Sent != 1 {
		t.Errorf("%+v", s)
	}
}

// tagged is a port whose frames have tags: that of the order, plus 1.
type tagged struct {
	*porttest.Memory
	tag   uint64
	wrong func(got uint64, s seen)
}

func (p *tagged) Receive(limit int, f func([]byte)) int {
	return p.Memory.Receive(limit, func(b []byte) {
		p.tag = uint64(binary.BigEndian.Uint16(b[6:])) + 1
		f(b)
	})
}

func (p *tagged) Tag() uint64 { return p.tag }

func (p *tagged) SendTagged(frames [][]byte, tags []uint64) int {
	for i, b := range frames {
		if s := parseSeen(b); tags[i] != uint64(s.Tag)+1 {
			p.wrong(tags[i], s)
		}
	}
	return p.Send(frames)
}

// What the switch makes of a frame leaves with the frame's tag: copies and clones, recirculated or not, after a queue,
// and when a port took part of a batch.
func TestTags(t *testing.T) {
	l := newLabOf(t, []int{linkFrames, 1, linkFrames}, process.Config{QueueDepth: 1000}, func(p *porttest.Memory) port.Port {
		return &tagged{Memory: p, wrong: func(got uint64, s seen) { t.Errorf("%+v has the tag %d", s, got) }}
	})
	replicas := []*p4.Replica{{PortKind: &p4.Replica_EgressPort{EgressPort: 2}, Instance: 1}, {PortKind: &p4.Replica_EgressPort{EgressPort: 3}, Instance: 2}}
	l.write(insert(&p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{
		PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
			Type: &p4.PacketReplicationEngineEntry_CloneSessionEntry{CloneSessionEntry: &p4.CloneSessionEntry{SessionId: 5, Replicas: replicas[:1]}},
		}}}), insert(&p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{
		PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
			Type: &p4.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: &p4.MulticastGroupEntry{MulticastGroupId: 6, Replicas: replicas}},
		}}}))
	var orders []order
	for i := range uint16(20) {
		orders = append(orders, order{port: 2, tag: 5 * i}, order{port: 3, tag: 5*i + 1}, order{port: 3, clone: 5, tag: 5*i + 2},
			order{group: 6, tag: 5*i + 3}, order{port: 2, again: 2, tag: 5*i + 4})
	}
	l.send(1, orders...)
	l.receive(2, 80)
	l.receive(3, 60)
}

// Behind a link that takes one frame at a time the switch's own queue grows,
// to its depth and no further, and packets can read how deep it was.
func TestQueue(t *testing.T) {
	const depth = 20
	l := newLab(t, []int{linkFrames, 1}, process.Config{QueueDepth: depth})
	var orders []order
	for i := range 100 {
		orders = append(orders, order{port: 2, tag: uint16(i)})
	}
	l.send(1, orders...)
	s := l.until(func(s process.Stats) bool { return s.Ingress == 100 })
	if s.TailDrops == 0 || s.Sent != 1 {
		t.Errorf("%+v", s)
	}
	kept := 100 - int(s.TailDrops)
	got := l.receive(2, kept)
	// One on the link and a batch on its way; the queue behind them.
	fast := kept - depth
	if fast < 1 || fast > 1+64 {
		t.Fatalf("%d packets did not wait in the queue; %+v", fast, s)
	}
	for i, p := range got[fast:] {
		if int(p.Tag) != fast+i || int(p.Enq) != i || int(p.Deq) != depth-1-i {
			t.Errorf("packet %d of the queue: %+v", i, p)
		}
	}
	for i, p := range got[:fast] {
		if p.Enq != 0 || p.Deq != 0 || int(p.Tag) != i {
			t.Errorf("packet %d before the queue: %+v", i, p)
		}
	}
	if last, first := got[kept-1], got[fast]; last.EnqAt+last.Delta < first.EnqAt+first.Delta {
		t.Errorf("the last packet left %d us before the first", first.EnqAt+first.Delta-last.EnqAt-last.Delta)
	}
	// Room is for everyone: the port is not stuck.
	l.send(1, order{port: 2, tag: 1000})
	if p := l.receive(2, 1)[0]; p.Tag != 1000 {
		t.Errorf("%+v", p)
	}
}

func TestPriorities(t *testing.T) {
	l := newLab(t, []int{linkFrames, 1}, process.Config{Queues: 3})
	l.send(1, order{port: 2, tag: 1}, order{port: 2, tag: 2})
	l.until(func(s process.Stats) bool { return s.Ingress == 2 }) // the link is busy now
	l.send(1, order{port: 2, tag: 10}, order{port: 2, tag: 11, priority: 1}, order{port: 2, tag: 12, priority: 2},
		order{port: 2, tag: 13, priority: 2}, order{port: 2, tag: 14}, order{port: 2, tag: 15, priority: 3})
	s := l.until(func(s process.Stats) bool { return s.Ingress == 8 })
	discards := func() {
		t.Helper()
		if n := l.d.PortCounters(2).OutDiscards; s.PipelineDrops.Total() != 1 || n != 1 { // there is no queue 3
			t.Errorf("gNMI says %d of %+v", n, s)
		}
	}
	discards()
	got := l.receive(2, 7)
	if diff := cmp.Diff([]uint16{1, 2, 12, 13, 11, 10, 14}, tags(got)); diff != "" {
		t.Error(diff)
	}
	if got[2].QID != 2 || got[5].Enq != 0 || got[6].Enq != 1 {
		t.Errorf("%+v", got)
	}
	json, info := program(t, "tm")
	if err := l.d.Install(json, info); err != nil {
		t.Fatal(err)
	}
	s = l.d.Stats()
	discards() // counts go on under a new program
}

// A queue's rate spaces packets out.
func TestQueueRate(t *testing.T) {
	l := newLab(t, []int{linkFrames, linkFrames}, process.Config{QueueRate: 1000})
	start := time.Now()
	l.send(1, order{port: 2, tag: 1}, order{port: 2, tag: 2}, order{port: 2, tag: 3}, order{port: 2, tag: 4})
	got := l.receive(2, 4)
	if d := time.Since(start); d < 2500*time.Microsecond {
		t.Errorf("four packets took %v at 1000 packets/s", d)
	}
	if diff := cmp.Diff([]uint16{1, 2, 3, 4}, tags(got)); diff != "" {
		t.Error(diff)
	}
	for i, p := range got[1:] {
		if left := p.EnqAt + p.Delta - got[0].EnqAt; int(left) < (i+1)*1000-2 {
			t.Errorf("packet %d left %d us after the first came", p.Tag, left)
		}
	}
}

// A slow port does not hold up others.
func TestNoHeadOfLineBlocking(t *testing.T) {
	l := newLab(t, []int{linkFrames, 1, linkFrames}, process.Config{})
	var orders []order
	for i := range 500 {
		orders = append(orders, order{port: uint16(2 + i%2), tag: uint16(i)})
	}
	l.send(1, orders...)
	if got := l.receive(3, 250); got[249].Tag != 499 {
		t.Errorf("%+v", got[249])
	}
}

func TestMulticastAndClone(t *testing.T) {
	l := newLab(t, []int{linkFrames, linkFrames, linkFrames}, process.Config{})
	replicas := []*p4.Replica{{PortKind: &p4.Replica_Port{Port: []byte{1}}, Instance: 1}, {PortKind: &p4.Replica_Port{Port: []byte{3}}, Instance: 2}}
	l.write(
		insert(&p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
			Type: &p4.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: &p4.MulticastGroupEntry{MulticastGroupId: 5, Replicas: replicas}}}}}),
		insert(&p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
			Type: &p4.PacketReplicationEngineEntry_CloneSessionEntry{CloneSessionEntry: &p4.CloneSessionEntry{SessionId: 7, Replicas: replicas[1:]}}}}}),
	)
	l.send(2, order{group: 5, tag: 1}, order{port: 2, clone: 7, tag: 2}, order{port: 1, again: 3, tag: 3})
	type brief struct {
		Tag      uint16
		Instance uint8
	}
	for at, want := range map[int][]brief{1: {{1, 5}, {3, 4}}, 2: {{2, 0}}, 3: {{1, 5}, {2, 2}}} {
		var got []brief
		for _, p := range l.receive(at, len(want)) {
			got = append(got, brief{p.Tag, p.Instance})
		}
		if diff := cmp.Diff(want, got); diff != "" && at != 1 {
			t.Errorf("port %d: %s", at, diff)
		} else if at == 1 && got[0].Instance == got[1].Instance { // may overtake each other
			t.Errorf("port 1: %+v", got)
		}
	}
	if s := l.d.Stats(); s.Recirculated != 3 {
		t.Errorf("%+v", s)
	}
}

func TestCPUPort(t *testing.T) {
	l := newLab(t, []int{linkFrames, linkFrames}, process.Config{CPUPort: 255})
	in := make(chan *p4.PacketIn, 10)
	var s *p4runtime.Stream
	l.d.Do(func(c *p4runtime.Core) {
		s = c.OpenStream(func(m *p4.StreamMessageResponse) error {
			if p := m.GetPacket(); p != nil {
				in <- p
			}
			return nil
		})
		if err := s.Recv(arbitration()); err != nil {
			t.Fatal(err)
		}
	})
	l.send(2, order{port: 255, tag: 77})
	select {
	case p := <-in:
		if !bytes.HasSuffix(p.GetPayload(), []byte("payload")) || len(p.GetMetadata()) != 1 || !bytes.Equal(p.GetMetadata()[0].GetValue(), []byte{2}) {
			t.Errorf("%v", p)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("no packet-in")
	}
	l.d.Do(func(*p4runtime.Core) {
		err := s.Recv(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Packet{Packet: &p4.PacketOut{
			Payload:  append(order{port: 9, tag: 78}.bytes(), "out"...),
			Metadata: []*p4.PacketMetadata{{MetadataId: 1, Value: []byte{1}}},
		}}})
		if err != nil {
			t.Error(err)
		}
	})
	if p := l.receive(1, 1)[0]; p.Tag != 78 || p.Ingress != 255 || p.Payload != "out" {
		t.Errorf("%+v", p)
	}
	l.d.Do(func(*p4runtime.Core) { s.Close() })
}

// A port that gNMI disables sends nothing and forgets what waited.
func TestDisabled(t *testing.T) {
	l := newLab(t, []int{linkFrames, 1}, process.Config{})
	l.send(1, order{port: 2, tag: 1}, order{port: 2, tag: 2}, order{port: 2, tag: 3})
	l.until(func(s process.Stats) bool { return s.Ingress == 3 })
	l.d.Do(func(c *p4runtime.Core) {
		if err := c.Ports().SetAdmin(2, false, 0); err != nil {
			t.Error(err)
		}
	})
	l.send(1, order{port: 2, tag: 4})
	l.until(func(s process.Stats) bool { return s.Ingress == 4 && s.PortDown >= 2 })
	if got := l.receive(2, 1); got[0].Tag != 1 {
		t.Errorf("%+v", got)
	}
	l.d.Do(func(c *p4runtime.Core) {
		if err := c.Ports().SetAdmin(2, true, 0); err != nil {
			t.Error(err)
		}
	})
	l.send(1, order{port: 2, tag: 5})
	if got := l.receive(2, 1); got[0].Tag != 5 {
		t.Errorf("%+v", got)
	}
}

// A new program takes over between two packets; queued packets finish in the
// old one.
func TestNewProgram(t *testing.T) {
	l := newLab(t, []int{linkFrames, 1}, process.Config{})
	l.send(1, order{port: 2, tag: 1}, order{port: 2, tag: 2}, order{port: 2, tag: 3})
	l.until(func(s process.Stats) bool { return s.Ingress == 3 })
	json, info := program(t, "lpm")
	if err := l.d.Install(json, info); err != nil {
		t.Fatal(err)
	}
	if err := l.d.Install([]byte("{"), info); err == nil {
		t.Error("a broken program was taken")
	}
	if diff := cmp.Diff([]uint16{1, 2, 3}, tags(l.receive(2, 3))); diff != "" {
		t.Error(diff)
	}
	l.send(1, order{port: 2, tag: 4}) // no IPv4: the new program sends it to port 0, which has no interface
	l.until(func(s process.Stats) bool { return s.Ingress == 4 && s.NoPort == 1 })
}

func TestConfigErrors(t *testing.T) {
	near, _ := porttest.Pair(1)
	for name, cfg := range map[string]process.Config{
		"queues":      {Queues: 9},
		"depth":       {QueueDepth: -1},
		"rate":        {QueueRate: -1},
		"no port":     {Ports: []process.PortConfig{{Number: 1, Name: "a"}}},
		"CPU port":    {CPUPort: 1, Ports: []process.PortConfig{{Number: 1, Name: "a", Port: near}}},
		"same number": {Ports: []process.PortConfig{{Number: 1, Name: "a", Port: near}, {Number: 1, Name: "b", Port: near}}},
	} {
		if d, err := process.New(cfg); err == nil {
			t.Errorf("%s: no error", name)
			d.Close() //nolint:errcheck // the test failed
		}
	}
}

// A switch whose ports the kernel's programs cannot be put on forwards all packets itself where it may, and says why.
func TestKernelOptional(t *testing.T) {
	l := newLab(t, []int{linkFrames, linkFrames}, process.Config{Kernel: true, KernelOptional: true})
	l.send(1, order{port: 2, tag: 5})
	if got := l.receive(2, 1)[0]; got.Tag != 5 {
		t.Errorf("%+v", got)
	}
	if k := l.d.Stats().Kernel; k == nil || k.Forwarded != 0 || !strings.Contains(k.Err, "takes network interfaces only") {
		t.Errorf("the kernel: %+v", k)
	}
	near, _ := porttest.Pair(1)
	_, err := process.New(process.Config{Kernel: true, Ports: []process.PortConfig{{Number: 1, Name: "a", Port: near}}})
	if err == nil || !strings.Contains(err.Error(), "port a") {
		t.Errorf("where it has to be the kernel: %v", err)
	}
}
