package virtual

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/usid"
)

// dropForeign is where counter drops has what hosts sent by others' addresses.
const dropForeign = 6

// TestProgramForeignSource: a ToR drops and counts what a host sends with another's source address, whatever it is:
// data, acknowledgements, packets with options, other protocols. From switches every source passes.
func TestProgramForeignSource(t *testing.T) {
	oneGoroutine(t)
	for _, tt := range []struct {
		node string
		in   uint32
		src  fabric.NodeID
		out  bool
	}{
		{"tor0", 1, h0, true},
		{"tor0", 2, h1, true},
		{"tor0", 1, h1, false}, // of the same rack
		{"tor0", 2, h0, false},
		{"tor0", 1, 7, false}, // of another
		{"tor0", 1, 200, false},
		{"tor0", up0, h0, true},
		{"tor0", up1, 7, true},
		{"agg0", 1, 7, true},
		{"core0", 3, h0, true},
	} {
		s := newProgrammed(t, tt.node)
		for i, p := range []packet{
			{}, {ipv6: true}, {vlan: true}, {vlan: true, ipv6: true}, {opcode: 0x11}, {opcode: 0x81, ipv6: true},
			{dscp: 48}, {options: true}, {tcp: true}, {tcp: true, ipv6: true},
		} {
			for _, dst := range []fabric.NodeID{h8, 1} { // up, and to a host of tor0
				before := s.counter("drops", dropForeign)
				p.src, p.dst = 0, dst
				data := s.build(p)
				s.setSource(data, tt.src)
				got := s.send(tt.in, data)
				if counted := s.counter("drops", dropForeign) - before; len(got) == 1 != tt.out || counted == 1 == tt.out {
					t.Errorf("%s, port %d, packet %d from h%d to h%d: %d packets out, %d counted; want it to pass: %v",
						tt.node, tt.in, i, tt.src, dst, len(got), counted, tt.out)
				}
			}
		}
	}
}

// setSource gives a packet that build made another source.
func (s *programmed) setSource(data []byte, src fabric.NodeID) {
	at := 14
	if binary.BigEndian.Uint16(data[12:]) == 0x8100 {
		at += 4
	}
	if data[at]>>4 == 6 {
		a := s.f.HostAddr6(0).As16()
		if int(src) < s.f.Hosts() {
			a = s.f.HostAddr6(src).As16()
		} else {
			a[15] = byte(src) // no host's
		}
		copy(data[at+8:], a[:])
		return
	}
	a := netip.AddrFrom4([4]byte{10, 0, 0, byte(src)})
	if int(src) < s.f.Hosts() {
		a = s.f.HostAddr4(src)
	}
	b := a.As4()
	copy(data[at+12:], b[:])
}

// TestProgramForeignSourceOuter: the same for outer headers and what is within.
func TestProgramForeignSourceOuter(t *testing.T) {
	oneGoroutine(t)
	s := newProgrammedFor(t, "tor0", controller.NoCarrier, controller.MicroSegments)
	for _, outer := range []fabric.NodeID{h0, h1} {
		for _, inner := range []packet{{src: h0}, {src: h1}, {src: h0, ipv6: true}, {src: h1, ipv6: true}} {
			e, err := usid.New(s.f, outer)
			if err != nil {
				t.Fatal(err)
			}
			inner.dst = h8
			frame := s.build(inner)
			length, before := len(frame), s.counter("drops", dropForeign)
			frame = append(frame, make([]byte, usid.HeaderSize)...)
			got := s.send(1, frame[:e.Wrap(frame, length, length)])
			own := outer == h0 && inner.src == h0
			if counted := s.counter("drops", dropForeign) - before; len(got) == 1 != own || counted == 1 == own {
				t.Errorf("outer source h%d, inner h%d, IPv6 %v: %d packets out, %d counted",
					outer, inner.src, inner.ipv6, len(got), counted)
			}
		}
	}
}

// TestProgramTunnels: addresses within a tunnel that is not RoCEv2's are not the fabric's: nobody takes its outer
// header off. The tunnel's ends have addresses of the fabric.
func TestProgramTunnels(t *testing.T) {
	oneGoroutine(t)
	s := newProgrammedFor(t, "tor0", controller.NoCarrier, controller.MicroSegments)
	for _, tt := range []struct {
		outer fabric.NodeID
		inner packet
		out   bool
	}{
		{h0, packet{tcp: true}, true},
		{h0, packet{tcp: true, ipv6: true}, true},
		{h1, packet{tcp: true}, false},
		{h1, packet{tcp: true, ipv6: true}, false},
		{h0, packet{}, false},
		{h0, packet{ipv6: true}, false},
	} {
		tt.inner.src, tt.inner.dst = 7, h8
		inner, next := s.build(tt.inner), byte(4)
		if tt.inner.ipv6 {
			next = 41
		}
		frame := binary.BigEndian.AppendUint16(append([]byte{}, inner[:12]...), 0x86dd)
		frame = binary.BigEndian.AppendUint32(frame, 6<<28)
		frame = append(binary.BigEndian.AppendUint16(frame, uint16(len(inner)-14)), next, 64)
		src, dst := s.f.HostAddr6(tt.outer).As16(), s.f.HostAddr6(h8).As16()
		frame = append(append(append(frame, src[:]...), dst[:]...), inner[14:]...)
		before := s.counter("drops", dropForeign)
		got := s.send(1, frame)
		if counted := s.counter("drops", dropForeign) - before; len(got) == 1 != tt.out || counted == 1 == tt.out {
			t.Errorf("outer source h%d, %+v: %d packets out, %d counted; want it to pass: %v",
				tt.outer, tt.inner, len(got), counted, tt.out)
		}
	}
}

// TestProgramNobodysSource: what hosts look for neighbours and addresses by is not counted as foreign.
func TestProgramNobodysSource(t *testing.T) {
	oneGoroutine(t)
	s := newProgrammed(t, "tor0")
	for _, tt := range []struct {
		src, dst string // no dst: h8
		want     uint64
	}{
		{"0.0.0.0", "255.255.255.255", 0},
		{"::", "ff02::1:ff00:2", 0},
		{"fe80::1", "ff02::2", 0},
		{"fe80::1", "", 0},
		{"febf::2", "", 0},
		{"::", "", 1},
		{"fec0::1", "", 1},
		{"ff02::1", "", 1},
		{"169.254.1.1", "", 1},
		{"127.0.0.1", "", 1},
	} {
		a := netip.MustParseAddr(tt.src)
		data := s.build(packet{src: h0, dst: h8, ipv6: a.Is6(), tcp: true})
		at, size := 14+12, 4
		if a.Is6() {
			at, size = 14+8, 16
		}
		copy(data[at:], a.AsSlice())
		if tt.dst != "" {
			copy(data[at+size:], netip.MustParseAddr(tt.dst).AsSlice())
		}
		before := s.counter("drops", dropForeign)
		s.send(1, data)
		if got := s.counter("drops", dropForeign) - before; got != tt.want {
			t.Errorf("%s to %s: %d counted as foreign, want %d", tt.src, tt.dst, got, tt.want)
		}
	}
	// Neither ARP nor LLDP has an address to check.
	for kind, reason := range map[uint16]int{0x0806: 5, 0x88CC: -1} {
		before := s.counter("drops", dropForeign)
		s.send(1, append(binary.BigEndian.AppendUint16(make([]byte, 12, 64), kind), make([]byte, 46)...))
		if got := s.counter("drops", dropForeign) - before; got != 0 {
			t.Errorf("EtherType %#x: counted as foreign", kind)
		}
		if reason >= 0 && s.counter("drops", reason) != 1 {
			t.Errorf("EtherType %#x: not counted for reason %d", kind, reason)
		}
	}
}
