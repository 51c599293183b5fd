package process_test

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"testing"
	"time"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/ethereal-fabric/ethereal/p4switch/p4runtime"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
	"github.com/ethereal-fabric/ethereal/p4switch/process"
)

// program reads a compiled program of testdata.
func program(t testing.TB, name string) ([]byte, *p4config.P4Info) {
	t.Helper()
	return readProgram(t, "testdata/"+name+".json", "testdata/"+name+".p4info.txtpb")
}

// readProgram reads p4c's output: BMv2 JSON, and P4Info as text.
func readProgram(t testing.TB, json, info string) ([]byte, *p4config.P4Info) {
	t.Helper()
	code, err := os.ReadFile(json)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(info)
	if err != nil {
		t.Fatal(err)
	}
	parsed := &p4config.P4Info{}
	if err := prototext.Unmarshal(text, parsed); err != nil {
		t.Fatal(err)
	}
	return code, parsed
}

// lab is a switch with ports in memory, numbered from 1, and their far ends.
type lab struct {
	t      testing.TB
	d      *process.Device
	far    []*porttest.Memory
	poller *port.Poller // of the far ends, by position
	stop   func()
}

const linkFrames = 4096 // what a link in memory holds

// newLab starts a switch that runs tm.p4.
func newLab(t testing.TB, links []int, cfg process.Config) *lab {
	t.Helper()
	return newLabOf(t, links, cfg, func(p *porttest.Memory) port.Port { return p })
}

// newLabOf is newLab with ports that wrap makes.
func newLabOf(t testing.TB, links []int, cfg process.Config, wrap func(*porttest.Memory) port.Port) *lab {
	t.Helper()
	l := &lab{t: t}
	var err error
	if l.poller, err = port.NewPoller(); err != nil {
		t.Fatal(err)
	}
	for i, size := range links {
		near, far := porttest.Pair(size)
		if err := l.poller.Add(far, i); err != nil {
			t.Fatal(err)
		}
		l.far = append(l.far, far)
		cfg.Ports = append(cfg.Ports, process.PortConfig{Number: uint32(i + 1), Name: string(rune('a' + i)), Port: wrap(near)})
	}
	if l.d, err = process.New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.d.Run(ctx) }()
	l.stop = func() {
		l.stop = func() {}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		if err := l.d.Close(); err != nil {
			t.Error(err)
		}
		if err := l.poller.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { l.stop() })
	json, info := program(t, "tm")
	if err := l.d.Install(json, info); err != nil {
		t.Fatal(err)
	}
	return l
}

// order is what a packet asks of tm.p4.
type order struct {
	port                          uint16
	priority, group, again, clone uint8
	tag                           uint16
}

func (o order) bytes() []byte {
	b := binary.BigEndian.AppendUint16(nil, o.port)
	b = append(b, o.priority, o.group, o.again, o.clone)
	return binary.BigEndian.AppendUint16(b, o.tag)
}

// seen is what tm.p4 writes into a packet.
type seen struct {
	Tag, Ingress  uint16
	Instance, QID uint8
	Enq, Deq      uint32
	EnqAt, Delta  uint32
	Payload       string
}

func parseSeen(b []byte) seen {
	return seen{
		Tag: binary.BigEndian.Uint16(b[6:]), Ingress: binary.BigEndian.Uint16(b[8:]), Instance: b[10], QID: b[11],
		Enq: binary.BigEndian.Uint32(b[12:]), Deq: binary.BigEndian.Uint32(b[16:]),
		EnqAt: binary.BigEndian.Uint32(b[20:]), Delta: binary.BigEndian.Uint32(b[24:]), Payload: string(b[28:]),
	}
}

func (l *lab) send(from int, orders ...order) {
	l.t.Helper()
	var frames [][]byte
	for _, o := range orders {
		frames = append(frames, append(o.bytes(), "payload"...))
	}
	if n := l.far[from-1].Send(frames); n != len(frames) {
		l.t.Fatalf("port %d took %d of %d frames", from, n, len(frames))
	}
}

// receive waits for n packets at a port's far end, at most five seconds.
func (l *lab) receive(at, n int) []seen {
	l.t.Helper()
	var got []seen
	for deadline := time.Now().Add(5 * time.Second); len(got) < n; {
		l.far[at-1].Receive(n-len(got), func(b []byte) { got = append(got, parseSeen(b)) })
		if len(got) == n {
			break
		}
		left := time.Until(deadline)
		if left <= 0 {
			l.t.Fatalf("%d of %d packets at port %d; %+v", len(got), n, at, l.d.Stats())
		}
		if _, err := l.poller.Wait(left, nil); err != nil {
			l.t.Fatal(err)
		}
	}
	return got
}

// until waits for the switch's counts to satisfy f, at most five seconds.
func (l *lab) until(f func(process.Stats) bool) process.Stats {
	l.t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; {
		s := l.d.Stats()
		if f(s) {
			return s
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("after five seconds: %+v", s)
		}
	}
}

// write sends updates as the primary controller.
func (l *lab) write(updates ...*p4.Update) {
	l.t.Helper()
	l.d.Do(func(c *p4runtime.Core) {
		s := c.OpenStream(func(*p4.StreamMessageResponse) error { return nil })
		defer s.Close()
		if err := s.Recv(arbitration()); err != nil {
			l.t.Fatal(err)
		}
		if err := c.Write(&p4.WriteRequest{ElectionId: &p4.Uint128{Low: 1}, Updates: updates}); err != nil {
			l.t.Fatal(err)
		}
	})
}

func arbitration() *p4.StreamMessageRequest {
	return &p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Arbitration{
		Arbitration: &p4.MasterArbitrationUpdate{ElectionId: &p4.Uint128{Low: 1}},
	}}
}

func insert(e *p4.Entity) *p4.Update { return &p4.Update{Type: p4.Update_INSERT, Entity: e} }

func tags(got []seen) []uint16 {
	var out []uint16
	for _, s := range got {
		out = append(out, s.Tag)
	}
	return out
}
