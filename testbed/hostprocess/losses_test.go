package hostprocess

import (
	"bytes"
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/testbed/host"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
)

// pair is two hosts with four paths between them, and a network that takes 100 us and
// loses what lose says.
type pair struct {
	ranks   [2]*Rank
	reports []hostproto.Event
	lose    func(now fabric.Time, label fabric.Label, opcode frame.Opcode) bool
}

func newPair(t *testing.T, s host.Settings) *pair {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 4, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{}
	for i := range p.ranks {
		if p.ranks[i], err = New(Config{Fabric: f, Host: fabric.NodeID(i), Notify: func(e hostproto.Event) {
			if e.Kind == hostproto.Fault {
				t.Errorf("host %d: %s", i, e.Text)
			}
			if i == 0 {
				p.reports = append(p.reports, e)
			}
		}}); err != nil {
			t.Fatal(err)
		}
		if err := p.ranks[i].Configure(0, s); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// post has host 0 send a message.
func (p *pair) post(t *testing.T, now fabric.Time, id uint64, bytes int64) {
	t.Helper()
	if err := p.ranks[1].Expect([]hostproto.Inbound{{ID: id, Key: uint32(id), Bytes: bytes}}); err != nil {
		t.Fatal(err)
	}
	if err := p.ranks[0].Post(now, []hostproto.Outbound{{ID: id, Dst: 1, Key: uint32(id), Bytes: bytes}}); err != nil {
		t.Fatal(err)
	}
}

// run runs until the messages that host 0 has posted are sent, or a time.
func (p *pair) run(now, until fabric.Time) fabric.Time {
	type flight struct {
		at    fabric.Time
		to    int
		frame []byte
	}
	var wire []flight
	buf := make([]byte, p.ranks[0].MaxFrame())
	for ; now < until && p.ranks[0].Stats().Open > 0; now += 10 * fabric.Microsecond {
		for len(wire) > 0 && wire[0].at <= now {
			p.ranks[wire[0].to].Receive(now, wire[0].frame)
			wire = wire[1:]
		}
		for i, r := range p.ranks {
			if at, ok := r.Wake(); ok && at <= now {
				r.Tick(now)
			}
			n, ok := r.Next(now, buf)
			if !ok {
				continue
			}
			if x, err := frame.Parse(buf[:n]); err == nil && i == 0 && p.lose(now, fabric.Label(x.SourcePort()-frame.SourcePort(0)), x.BTH().Opcode()) {
				continue
			}
			wire = append(wire, flight{now + 100*fabric.Microsecond, 1 - i, bytes.Clone(buf[:n])})
		}
	}
	return now
}

// TestLossyPath: a path that loses one packet in twenty is left for it, and no other; with
// the test off it is not.
func TestLossyPath(t *testing.T) {
	for _, off := range []bool{false, true} {
		p := newPair(t, host.Settings{Seed: 1, ResendOnFlip: true, TailProbe: true, Losses: hostagent.LossTest{Off: off}})
		packets := 0
		p.lose = func(_ fabric.Time, label fabric.Label, opcode frame.Opcode) bool {
			if label != 2 {
				return false
			}
			packets++
			return packets%20 == 0
		}
		now := fabric.Time(0)
		for id := range uint64(20) {
			p.post(t, now, id+1, 100_000)
			now = p.run(now, now+5*fabric.Second)
		}
		s, flips := p.ranks[0].Stats(), 0
		if s.Sent != 20 {
			t.Fatalf("off %v: %d of 20 messages are sent", off, s.Sent)
		}
		for _, e := range p.reports {
			if e.Kind != hostproto.Flip || e.Reason == hostagent.Return.String() {
				continue
			}
			if flips++; e.From != 2 || e.Reason != hostagent.ByLoss.String() {
				t.Errorf("off %v: %+v", off, e)
			}
		}
		if (flips == 0) != off {
			t.Errorf("off %v: %d flips for losses; %d packets by that path, of %d", off, flips, packets, s.FramesOut)
		}
	}
}

// TestLostTail: the last packet of a message is lost. Its queue pair is silent and sends a zero-length WRITE behind it,
// whose answer asks for it: that is sooner than the timer, and no reason to move. Where silence is not noticed, it
// costs the timer.
func TestLostTail(t *testing.T) {
	for _, without := range []bool{false, true} {
		p := newPair(t, host.Settings{Seed: 1, ResendOnFlip: true, TailProbe: !without})
		lost := false
		p.lose = func(_ fabric.Time, _ fabric.Label, opcode frame.Opcode) bool {
			if lost || !opcode.Ends() {
				return false
			}
			lost = true
			return true
		}
		p.post(t, 0, 1, 40_000)
		now, s := p.run(0, fabric.Second), p.ranks[0].Stats()
		moved := slices.ContainsFunc(p.reports, func(e hostproto.Event) bool { return e.Kind == hostproto.Flip })
		if s.Sent != 1 || !lost || (s.Timeouts > 0) != without || moved != without {
			t.Errorf("without %v: %d messages sent by %v, moved %v; %+v", without, s.Sent, now, moved, s.Stats.Stats)
		}
	}
}
