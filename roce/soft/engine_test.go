package soft

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// pair is two engines and what is on the way between them.
type pair struct {
	t    testing.TB
	e    [2]*Engine
	log  [2]log
	now  fabric.Time
	lose func(frame []byte) bool // or changes it
}

// log has the calls of an engine's handler.
type log struct {
	done, timeouts, failed []transport.QP
	acked                  int64
	written                []written
	quenches               []frame.Quench
}

type written struct {
	Src     fabric.NodeID
	Key     uint32
	Address uint64
	Bytes   int64
}

func (l *log) Acked(_ fabric.Time, _ transport.QP, n int64) { l.acked += n }
func (l *log) Done(_ fabric.Time, qp transport.QP)          { l.done = append(l.done, qp) }
func (l *log) Timeout(_ fabric.Time, qp transport.QP)       { l.timeouts = append(l.timeouts, qp) }
func (l *log) Failed(_ fabric.Time, qp transport.QP, _ frame.Syndrome) {
	l.failed = append(l.failed, qp)
}
func (l *log) Quench(_ fabric.Time, q frame.Quench) { l.quenches = append(l.quenches, q) }
func (l *log) Written(_ fabric.Time, src fabric.NodeID, key uint32, address uint64, n int64) {
	l.written = append(l.written, written{src, key, address, n})
}

func newPair(t testing.TB, change func(*Config)) *pair {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{t: t}
	for i := range p.e {
		c := Config{NIC: transport.Config{Fabric: f, Host: fabric.NodeID(i), MTU: 1000, Control: transport.NoControl}}
		if change != nil {
			change(&c)
		}
		if p.e[i], err = New(c, &p.log[i]); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// run hands frames over until neither engine has one, or a time is over.
func (p *pair) run(until fabric.Time) {
	p.t.Helper()
	buf := make([]byte, p.e[0].MaxFrame())
	for p.now < until {
		moved := false
		for i, e := range p.e {
			s, ok := e.Next(p.now, buf)
			if !ok {
				continue
			}
			moved = true
			frame := bytes.Clone(buf[:s.Len])
			if p.lose == nil || !p.lose(frame) {
				p.e[1-i].Receive(p.now, frame)
			}
		}
		if moved {
			p.now += fabric.Microsecond
			continue
		}
		next, ok := fabric.Time(0), false
		for _, e := range p.e {
			if at, is := e.NextWake(); is && (!ok || at < next) {
				next, ok = at, true
			}
		}
		if !ok {
			return
		}
		p.now = max(next, p.now+1)
	}
}

func random(n int, seed uint64) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// TestBytes: what was sent arrives, whole, once, in its place, whatever frames are lost or damaged on the way.
func TestBytes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ipv6 := rapid.Bool().Draw(rt, "ipv6")
		p := newPair(t, func(c *Config) {
			c.NIC.IPv6, c.NIC.FlowLabel = ipv6, ipv6
			c.NIC.AckEvery = rapid.IntRange(1, 4).Draw(rt, "ack every")
		})
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "losses"), 0))
		damaged := uint64(0)
		p.lose = func(frame []byte) bool {
			switch rng.IntN(20) {
			case 0:
				return true
			case 1: // any bit of what the ICRC covers
				i := 14 + rng.IntN(len(frame)-14)
				if i == 14+1 || i == 14+8 { // class, TTL: masked. The IPv6 ones are, too, but harmless
					return false
				}
				frame[i] ^= 1 << rng.IntN(8)
				damaged++
			}
			return false
		}
		region := make([]byte, 64<<10)
		if err := p.e[1].Register(7, region); err != nil {
			t.Fatal(err)
		}
		want := make([]byte, len(region))
		var wantWritten []written
		at := 0
		n := rapid.IntRange(1, 8).Draw(rt, "messages")
		for i := range n {
			size := rapid.IntRange(1, 6000).Draw(rt, "size")
			m := Message{QP: transport.QP(i + 1), Dst: 1, ID: uint64(i / 2), Data: random(size, uint64(i)), Label: fabric.Label(i % 2), Key: 7, Address: uint64(at)}
			copy(want[at:], m.Data)
			wantWritten = append(wantWritten, written{0, 7, m.Address, int64(size)})
			at += size
			if err := p.e[0].Write(0, m); err != nil {
				t.Fatal(err)
			}
		}
		p.run(10 * fabric.Second)
		if len(p.log[0].done) != n {
			rt.Fatalf("%d of %d queue pairs are done; sender %+v, receiver %+v", len(p.log[0].done), n, p.e[0].Stats(), p.e[1].Stats())
		}
		if !bytes.Equal(region, want) {
			rt.Fatal("the region has other bytes than were written")
		}
		got := map[written]int{}
		for _, w := range p.log[1].written {
			got[w]++
		}
		for _, w := range wantWritten {
			if got[w] != 1 {
				rt.Fatalf("%+v was reported %d times", w, got[w])
			}
		}
		if len(p.log[1].written) != len(wantWritten) {
			rt.Fatalf("%d writes reported, %d posted", len(p.log[1].written), len(wantWritten))
		}
		s := [2]Stats{p.e[0].Stats(), p.e[1].Stats()}
		if caught := s[0].BadICRC + s[0].BadFrame + s[0].Foreign + s[0].NotForUs + s[1].BadICRC + s[1].BadFrame + s[1].Foreign + s[1].NotForUs; caught > damaged {
			rt.Fatalf("%d frames refused, %d were damaged", caught, damaged)
		}
	})
}

// TestProtection has WRITEs that must not be: they change nothing, and fail at
// their sender.
func TestProtection(t *testing.T) {
	for _, c := range []struct {
		name string
		m    Message
	}{
		{"unknown key", Message{Key: 8, Data: make([]byte, 10)}},
		{"beyond the end", Message{Key: 7, Address: 91, Data: make([]byte, 10)}},
		{"far beyond", Message{Key: 7, Address: 1 << 40, Data: make([]byte, 10)}},
		{"round the address space", Message{Key: 7, Address: 1<<64 - 5, Data: make([]byte, 10)}},
		{"second packet", Message{Key: 7, Data: make([]byte, 1500)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPair(t, nil)
			region := bytes.Repeat([]byte{0xaa}, 100)
			if err := p.e[1].Register(7, region); err != nil {
				t.Fatal(err)
			}
			c.m.QP, c.m.Dst = 1, 1
			if err := p.e[0].Write(0, c.m); err != nil {
				t.Fatal(err)
			}
			p.run(fabric.Second)
			if diff := cmp.Diff([]transport.QP{1}, p.log[0].failed); diff != "" {
				t.Errorf("failed queue pairs (-want +got):\n%s", diff)
			}
			if !bytes.Equal(region, bytes.Repeat([]byte{0xaa}, 100)) || len(p.log[1].written) > 0 {
				t.Error("the region was written to")
			}
			if s := p.e[1].Stats(); s.NoRegion == 0 {
				t.Errorf("not counted: %+v", s)
			}
			// The slot can be used again.
			if err := p.e[0].Write(p.now, Message{QP: 2, Dst: 1, Key: 7, Data: make([]byte, 100)}); err != nil {
				t.Fatal(err)
			}
			p.run(2 * fabric.Second)
			if diff := cmp.Diff([]transport.QP{2}, p.log[0].done); diff != "" {
				t.Errorf("done (-want +got):\n%s", diff)
			}
		})
	}
}

// TestQuench has a quench in a frame of its own, whole and broken.
func TestQuench(t *testing.T) {
	p := newPair(t, nil)
	q := frame.Quench{Dst: p.e[1].addr, Switch: 3, Port: 1, Epoch: 5}
	raw := quenchFrame(p.e[1].addr.As4(), p.e[0].addr.As4(), q.Append(nil))
	p.e[0].Receive(0, bytes.Clone(raw))
	if diff := cmp.Diff([]frame.Quench{q}, p.log[0].quenches, cmp.Comparer(func(a, b frame.Quench) bool { return a == b })); diff != "" {
		t.Errorf("quenches (-want +got):\n%s", diff)
	}
	for n := range len(raw) {
		p.e[0].Receive(0, bytes.Clone(raw[:n]))
	}
	p.e[1].Receive(0, bytes.Clone(raw)) // for another host
	q.Notice = true                     // forged: to one host, from nowhere and from another host
	p.e[0].Receive(0, quenchFrame([4]byte{}, p.e[0].addr.As4(), q.Append(nil)))
	p.e[0].Receive(0, quenchFrame(p.e[1].addr.As4(), p.e[0].addr.As4(), q.Append(nil)))
	if n := len(p.log[0].quenches) + len(p.log[1].quenches); n != 1 {
		t.Errorf("%d quenches were taken, one was whole and for this host", n)
	}
}

func quenchFrame(src, dst [4]byte, payload []byte) []byte {
	b := make([]byte, 14+20+8, 14+20+8+len(payload))
	binary.BigEndian.PutUint16(b[12:], 0x0800)
	b[14], b[14+8], b[14+9] = 0x45, 64, 17
	binary.BigEndian.PutUint16(b[16:], uint16(28+len(payload)))
	copy(b[26:], src[:])
	copy(b[30:], dst[:])
	binary.BigEndian.PutUint16(b[34:], frame.QuenchPort)
	binary.BigEndian.PutUint16(b[36:], frame.QuenchPort)
	binary.BigEndian.PutUint16(b[38:], uint16(8+len(payload)))
	return append(b, payload...)
}

// FuzzReceive holds the engine to not panic and not to write outside of memory
// that was registered, whatever a frame says, with its ICRC put right.
func FuzzReceive(f *testing.F) {
	p := newPair(f, nil)
	buf := make([]byte, p.e[0].MaxFrame())
	if err := p.e[0].Write(0, Message{QP: 1, Dst: 1, Key: 7, Data: random(2500, 1)}); err != nil {
		f.Fatal(err)
	}
	for range 3 {
		if s, ok := p.e[0].Next(p.now, buf); ok {
			f.Add(bytes.Clone(buf[:s.Len]))
		}
		p.now += fabric.Millisecond
	}
	q := frame.Quench{Dst: p.e[0].addr, Switch: 3, Port: 1, Epoch: 5}
	f.Add(quenchFrame(p.e[0].addr.As4(), p.e[1].addr.As4(), q.Append(nil)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p := newPair(t, nil)
		memory := bytes.Repeat([]byte{0x55}, 400)
		if err := p.e[1].Register(7, memory[100:300:300]); err != nil {
			t.Fatal(err)
		}
		if r, err := frame.Parse(raw); err == nil {
			r.SetICRC()
		}
		p.e[1].Receive(0, bytes.Clone(raw))
		p.e[1].Receive(0, bytes.Clone(raw))
		for i, b := range memory {
			if b != 0x55 && (i < 100 || i >= 300) {
				t.Fatalf("byte %d was written", i)
			}
		}
		out := make([]byte, p.e[1].MaxFrame())
		for range 4 {
			if _, ok := p.e[1].Next(0, out); !ok {
				break
			}
		}
	})
}
