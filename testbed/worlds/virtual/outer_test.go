package virtual

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/usid"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// walk passes a host's packet from switch to switch of a fabric, and returns over how many links it went, how many
// packets came to be at once, and what came to hosts.
func walk(switches map[fabric.NodeID]*programmed, from fabric.NodeID, frame []byte) (crossed, most int, arrived map[fabric.NodeID][][]byte) {
	type at struct {
		end  fabric.End
		data []byte
	}
	f := switches[16].f
	peer := func(e fabric.End) fabric.End {
		l := f.Link(f.Node(e.Node).Link(e.Port))
		if l.A == e {
			return l.B
		}
		return l.A
	}
	arrived = map[fabric.NodeID][][]byte{}
	for way := []at{{peer(fabric.End{Node: from, Port: 1}), frame}}; len(way) > 0 && crossed < 1000; way = way[1:] {
		crossed, most = crossed+1, max(most, len(way))
		x := way[0]
		if s := switches[x.end.Node]; s != nil {
			for _, o := range s.send(uint32(x.end.Port), x.data) {
				if int(o.port) <= f.Node(x.end.Node).Ports() {
					way = append(way, at{peer(fabric.End{Node: x.end.Node, Port: fabric.PortNo(o.port)}), o.data})
				}
			}
			continue
		}
		arrived[x.end.Node] = append(arrived[x.end.Node], x.data)
	}
	return crossed, most, arrived
}

// TestForgedOuterHeaders: a host may write what it likes into an outer header. Its packet goes over at most as many
// links as a list has segments, and two more, whatever they are, multiplies nowhere, and brings nobody a quench or a
// notice: a ToR drops and counts those, and agents take nothing but RoCEv2 out of an outer header.
func TestForgedOuterHeaders(t *testing.T) {
	oneGoroutine(t)
	switches := map[fabric.NodeID]*programmed{}
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Switches() {
		id := fabric.NodeID(f.Hosts() + i)
		switches[id] = newProgrammedFor(t, f.Name(id), controller.NoCarrier, controller.MicroSegments)
	}
	s, rng := switches[16], rand.New(rand.NewPCG(1, 7))
	anybody := func() fabric.NodeID { // most often the host itself: its ToR drops others' addresses
		if rng.IntN(4) > 0 {
			return 0
		}
		return fabric.NodeID(rng.IntN(f.Hosts()))
	}
	wrap := func(inner []byte, dst [16]byte, next byte) []byte {
		out := make([]byte, 0, len(inner)+usid.HeaderSize)
		out = append(append(out, inner[:12]...), 0x86, 0xdd)
		out = binary.BigEndian.AppendUint32(out, 6<<28|rng.Uint32()&(1<<28-1))
		out = binary.BigEndian.AppendUint16(out, uint16(len(inner)-14))
		out = append(out, next, byte(1+rng.IntN(255)))
		src := f.HostAddr6(anybody()).As16()
		return append(append(append(out, src[:]...), dst[:]...), inner[14:]...)
	}
	nested, drops, longest := 0, uint64(0), 0
	for n := range 4000 {
		victim := fabric.NodeID(rng.IntN(f.Hosts()))
		kind, ipv6 := n%4, rng.IntN(2) == 1
		data := s.build(packet{src: anybody(), dst: victim, ipv6: ipv6})
		next, udp := byte(4), 14+20
		if ipv6 {
			next, udp = 41, 14+40
		}
		if kind > 0 { // a quench, where switches look, or a notice
			binary.BigEndian.PutUint16(data[udp+2:], frame.QuenchPort)
			if kind == 2 && !ipv6 {
				copy(data[14+16:], []byte{224, 0, 0, 1})
			}
		}
		for range 1 + kind/3 { // kind 3: an outer header in an outer header
			var ids []fabric.NodeID
			if rng.IntN(4) == 0 { // what an honest host writes, to the victim
				ids, _ = f.Segments(nil, 0, victim, fabric.Label(rng.IntN(int(f.LabelSpan()))))
			}
			for len(ids) == 0 || len(ids) < fabric.MaxUSIDs && rng.IntN(4) > 0 {
				ids = append(ids, fabric.NodeID(rng.IntN(f.Nodes())))
			}
			if rng.IntN(2) == 0 { // as many hops as there are segments: to and fro
				ids = []fabric.NodeID{16, 24, 16, 24, 16, 24}[:fabric.MaxUSIDs]
			}
			data, next = wrap(data, fabric.SID(ids...).As16(), next), 41
		}
		if kind == 3 {
			nested++
		}
		crossed, most, arrived := walk(switches, 0, data)
		longest = max(longest, crossed)
		if limit := fabric.MaxUSIDs + 2; most > 1 || crossed > limit {
			t.Fatalf("%d packets at once, over %d links; want 1, over at most %d", most, crossed, limit)
		}
		for host, frames := range arrived {
			for _, x := range frames {
				inner := usid.Unwrap(x)
				if _, notice := frame.NoticePayload(inner); notice {
					t.Errorf("host %d gets a forged notice", host)
				}
				for _, at := range []int{14 + 20, 14 + 40} {
					if len(inner) > at+4 && binary.BigEndian.Uint16(inner[at+2:]) == frame.QuenchPort && int(inner[14]>>4) == 4+(at-34)/10 {
						t.Errorf("host %d gets a forged quench: % x", host, inner[:at+8])
					}
				}
			}
		}
	}
	drops = s.counter("drops", dropForged)
	t.Logf("at most %d links; %d dropped as forged at the host's ToR, %d outer headers within another", longest, drops, nested)
	if drops == 0 {
		t.Error("none was dropped as forged: no packet has tried it")
	}
}
