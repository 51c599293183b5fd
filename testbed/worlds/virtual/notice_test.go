package virtual

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// notices sends a packet through and returns the ports by which notices leave.
func (s *programmed) notices(port uint32, data []byte, want frame.Quench) []uint32 {
	s.t.Helper()
	var ports []uint32
	for _, o := range s.send(port, data) {
		ports = append(ports, o.port)
		decoded := gopacket.NewPacket(o.data, layers.LayerTypeEthernet, gopacket.Default)
		udp, ok := decoded.Layer(layers.LayerTypeUDP).(*layers.UDP)
		if !ok || decoded.ErrorLayer() != nil {
			s.t.Fatalf("not a UDP packet: %v", decoded)
		}
		payload, ok := frame.NoticePayload(o.data)
		if !ok || len(o.data) != 66 || o.priority != 1 || sum(o.data[14:34]) != 0xffff || string(payload) != string(udp.Payload) {
			s.t.Errorf("port %d, queue %d: %d bytes, IP header sums to %#x, a notice: %v", o.port, o.priority, len(o.data), sum(o.data[14:34]), ok)
		}
		got, err := frame.ParseQuench(udp.Payload, netip.IPv4Unspecified())
		if err != nil {
			s.t.Fatal(err)
		}
		if want.Notice, want.Dst = true, netip.IPv4Unspecified(); got != want {
			s.t.Errorf("notice %+v, want %+v", got, want)
		}
	}
	slices.Sort(ports)
	return ports
}

// TestProgramNotices: the event of a port notifies all who could have sent by it, and
// switches pass the notice down.
func TestProgramNotices(t *testing.T) {
	oneGoroutine(t)
	// k = 4: ports 1 and 2 lead down, 3 and 4 up; a core's four ports down.
	for _, tt := range []struct {
		node string
		port uint16
		want []uint32
	}{
		{"tor0", 3, []uint32{1, 2}},
		{"tor0", 1, nil}, // to a host, which has no other way
		{"agg0", 4, []uint32{1, 2}},
		{"agg0", 1, []uint32{2, 3, 4}},
		{"core0", 2, []uint32{1, 3, 4}},
	} {
		s := newProgrammed(t, tt.node)
		q := frame.Quench{Switch: s.node, Port: fabric.PortNo(tt.port), Epoch: 5}
		if got := s.notices(p4src.PortEventPort, p4src.AppendPortEvent(nil, tt.port, false, 5), q); !cmp.Equal(got, tt.want) {
			t.Errorf("%s, port %d: notices leave by %v, want %v", tt.node, tt.port, got, tt.want)
		}
		if got := s.notices(p4src.PortEventPort, p4src.AppendPortEvent(nil, tt.port, true, 6), q); got != nil {
			t.Errorf("%s, port %d up: notices leave by %v", tt.node, tt.port, got)
		}
	}

	agg1 := newProgrammed(t, "agg1")
	made := agg1.send(p4src.PortEventPort, p4src.AppendPortEvent(nil, 1, false, 9))
	if len(made) != 3 {
		t.Fatalf("%d notices", len(made))
	}
	q := frame.Quench{Switch: agg1.node, Port: 1, Epoch: 9}
	for _, tt := range []struct {
		node string
		in   uint32
		want []uint32
	}{
		{"core0", 1, []uint32{2, 3, 4}}, // from below, down to the other pods
		{"agg2", 3, []uint32{1, 2}},     // from above
		{"tor0", 4, []uint32{1, 2}},
		{"tor0", 1, nil}, // forged: from a host
		{"agg0", 2, nil}, // forged: ToRs send no notices upward
	} {
		s := newProgrammed(t, tt.node)
		if got := s.notices(tt.in, made[0].data, q); !cmp.Equal(got, tt.want) {
			t.Errorf("%s, in by port %d: passed on by %v, want %v", tt.node, tt.in, got, tt.want)
		}
		refused := uint64(0)
		if tt.want == nil {
			refused = 1
		}
		if got := s.counter("drops", dropForged); got != refused {
			t.Errorf("%s, in by port %d: %d refused, want %d", tt.node, tt.in, got, refused)
		}
		if got := s.notices(4, made[0].data, q); tt.want != nil && got != nil {
			t.Errorf("%s: the same notice by another way is passed on by %v", tt.node, got)
		}
	}
}

// dropForged is where counter drops has port events, notices and quenches that hosts sent.
const dropForged = 4

// TestProgramQuenchOfHost: a quench passes where it comes from a switch. One that a host sends is dropped and counted,
// whatever source it gives and wherever it goes.
func TestProgramQuenchOfHost(t *testing.T) {
	oneGoroutine(t)
	quench := func(s *programmed, src, dst fabric.NodeID, ipv6 bool) []byte {
		data, udp := s.build(packet{src: src, dst: dst, ipv6: ipv6}), 14+20
		if ipv6 {
			udp = 14 + 40
		}
		binary.BigEndian.PutUint16(data[udp+2:], frame.QuenchPort) // switches read no further
		return data
	}
	for _, tt := range []struct {
		node     string
		in       uint32
		src, dst fabric.NodeID
		out      uint32 // 0: dropped
	}{
		{"tor0", 1, h0, h8, 0}, // its own address
		{"tor0", 1, h8, h1, 0}, // another's, to a host of the rack
		{"tor0", 2, h8, h0, 0},
		{"tor0", up0, h8, h0, 1}, // from a switch
		{"agg0", 2, h8, h0, 1},   // between ToRs of a pod
		{"agg0", 3, h8, h0, 1},
		{"core0", 3, h8, h0, 1},
	} {
		for _, ipv6 := range []bool{false, true} {
			s := newProgrammed(t, tt.node)
			out := uint32(0)
			for _, o := range s.send(tt.in, quench(s, tt.src, tt.dst, ipv6)) {
				out = o.port
			}
			if dropped := s.counter("drops", dropForged) == 1; out != tt.out || dropped != (tt.out == 0) {
				t.Errorf("%s, in by port %d, h%d to h%d, IPv6 %v: leaves by %d, want %d; counted as forged: %v",
					tt.node, tt.in, tt.src, tt.dst, ipv6, out, tt.out, dropped)
			}
		}
	}
}

// TestProgramNoticeRate: a port that flaps every microsecond makes one notice a
// quench interval at its own switch, and notices that a neighbour repeats every
// microsecond are passed on at that rate.
func TestProgramNoticeRate(t *testing.T) {
	oneGoroutine(t)
	s := newProgrammed(t, "tor0")
	notices := 0
	var last []byte
	for epoch := range uint32(1000) { // 2 us each
		for _, o := range s.send(p4src.PortEventPort, p4src.AppendPortEvent(nil, uint16(up0), false, 2*epoch+1)) {
			if o.port == 1 {
				notices++
				last = o.data
			}
		}
		s.portEvent(uint16(up0), true, 2*epoch+2)
	}
	if want := 2000 / quenchInterval; notices != want {
		t.Errorf("1,000 flaps in 2 ms: %d notices a host, want %d", notices, want)
	}
	notices = 0
	for range 1000 {
		for _, o := range s.send(up1, last) {
			if o.port == 1 {
				notices++
			}
		}
	}
	if want := 1000 / quenchInterval; notices != want {
		t.Errorf("1,000 notices of a port in 1 ms: %d passed on to a host, want %d", notices, want)
	}
}
