package transport

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

type received = packet

// tagOf returns a data packet's tag.
func tagOf(hdr []byte) csigTag { return csigTag(binary.BigEndian.Uint64(hdr[len(hdr)-csigSize:])) }

// TestStampCSIG: a switch replaces the tag if its port is worse, and only in data packets.
func TestStampCSIG(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Receiver, c.Control = Ideal, CSIG })
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 1 << 20})
	e := w.hosts[0].e
	hdr := dataHeader(e, e.qps[0])
	if _, _, _, ok := tagOf(hdr).hop(); ok {
		t.Error("a packet that no switch has sent has a signal")
	}
	for _, step := range []struct {
		hop       Hop
		wantDelay fabric.Time
		wantAt    fabric.NodeID
		wantPort  fabric.PortNo
	}{
		{Hop{Switch: 40, Port: 3, Rate: 400 * fabric.Gbps}, 0, 40, 3},
		{Hop{Switch: 41, Port: 9, Queue: 50_000, Rate: 400 * fabric.Gbps}, fabric.Microsecond, 41, 9},
		{Hop{Switch: 42, Port: 1, Queue: 100_000, Rate: 800 * fabric.Gbps}, fabric.Microsecond, 41, 9},      // as bad
		{Hop{Switch: 43, Port: 2, Queue: 20_000, Rate: 100 * fabric.Gbps}, 1600 * fabric.Nanosecond, 43, 2}, // fewer bytes, but slower
		{Hop{Switch: 44, Port: 5, Queue: 60_000, Rate: 400 * fabric.Gbps}, 1600 * fabric.Nanosecond, 43, 2},
		{Hop{Switch: 1<<24 - 1, Port: 1<<16 - 1, Queue: 1 << 30, Rate: fabric.Gbps}, 1048575 * fabric.Nanosecond, 1<<24 - 1, 1<<16 - 1},
	} {
		stampCSIG(hdr, step.hop)
		delay, at, port, ok := tagOf(hdr).hop()
		if delay != step.wantDelay || at != step.wantAt || port != step.wantPort || !ok {
			t.Errorf("after %+v: %v at switch %d, port %d, %v; want %v at %d, port %d", step.hop, delay, at, port, ok,
				step.wantDelay, step.wantAt, step.wantPort)
		}
	}
	ack := make([]byte, MaxHeader)
	ack = ack[:e.buildAck(controlPacket{dst: 1, syndrome: frame.ACK}, nil, ack).Len]
	as := bytes.Clone(ack)
	if stampCSIG(ack, Hop{Queue: 1 << 20, Rate: fabric.Gbps}); !bytes.Equal(ack, as) {
		t.Error("an ACK was written into")
	}
}

// FuzzStampCSIG: of any input only the last bytes are written.
func FuzzStampCSIG(f *testing.F) {
	f.Add(make([]byte, 120))
	f.Fuzz(func(t *testing.T, hdr []byte) {
		as := bytes.Clone(hdr)
		stampCSIG(hdr, Hop{7, 1, 1, 2, 3, fabric.Gbps})
		if n := max(0, len(hdr)-csigSize); !bytes.Equal(hdr[:n], as[:n]) {
			t.Fatal("headers were written into")
		}
	})
}

// TestCSIG: the window changes by the tag's delay as Swift's does by measured queueing, and not without a tag.
func TestCSIG(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Receiver, c.Control = Ideal, CSIG })
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 1 << 30})
	e := w.hosts[0].e
	q, c := e.qps[0], e.control.pacer.(*csig)
	s, packet, now := c.qps.at(q), int64(e.fullPacketBytes), fabric.Millisecond
	if whole := c.bandwidthDelay(c.trip); s.Window != whole {
		t.Errorf("begins with %d bytes, want a round trip's %d", s.Window, whole)
	}
	at := int32(0)
	answer := func(delay fabric.Time) {
		hdr := dataHeader(e, q)
		if delay >= 0 {
			stampCSIG(hdr, Hop{Switch: 5, Port: 1, Queue: int64(delay/fabric.Nanosecond) * 50, Rate: 400 * fabric.Gbps})
		}
		field := make([]byte, csigSize)
		e.control.ack.writeAck(&received{rest: hdr}, field)
		p := ackOf(q, at)
		p.rest = append(append([]byte{}, p.rest...), field...)
		sent := q.sent
		c.acked(now, q, p, 1, at+1, false)
		q.sent = sent
		at++
	}
	s.Window = 50 * packet
	answer(-1)
	if s.Window != 50*packet {
		t.Errorf("without a tag: %d bytes, want %d", s.Window, 50*packet)
	}
	for range 50 {
		answer(0)
	}
	if grown := s.Window - 50*packet; grown < packet*98/100 || grown > packet {
		t.Errorf("a round trip without queueing: %d bytes more, want a packet's %d", grown, packet)
	}
	s.Window = 50 * packet
	allowed := s.Allowed()
	answer((allowed - s.Base) * 9 / 10)
	if s.Window <= 50*packet || s.Base != c.trip {
		t.Errorf("below the allowance: %d bytes of %d, base %v of %v", s.Window, 50*packet, s.Base, c.trip)
	}
	s.Window = 50 * packet
	answer(2*allowed - s.Base)
	if want := 50 * packet * 6 / 10; s.Window < want-packet/10 || s.Window > want+packet/10 { // less 0.8 of (2-1)/2
		t.Errorf("a round trip of twice the allowance: %d bytes, want %d", s.Window, want)
	}
	answer(10 * allowed)
	if e.Stats().RateCuts != 1 {
		t.Errorf("%d cuts within a round trip", e.Stats().RateCuts)
	}
	now += 2 * fabric.Millisecond
	s.Window = 50 * packet
	answer(fabric.Millisecond)
	if s.Window != 25*packet {
		t.Errorf("a full buffer: %d bytes, want half of %d", s.Window, 50*packet)
	}
}
