package tofino

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// withSource returns a packet with another source address.
func withSource(packet []byte, src string) []byte {
	b, a := slices.Clone(packet), netip.MustParseAddr(src).AsSlice()
	if len(a) == 16 {
		copy(b[14+8:], a)
		return b
	}
	copy(b[14+12:], a)
	b[24], b[25] = 0, 0
	binary.BigEndian.PutUint16(b[24:], checksum(b[14:34]))
	return b
}

// TestChipSources: what a host sends with another's source address is dropped and counted, whatever it is. Addresses
// that are no host's pass, and so does every address at a port to a switch.
func TestChipSources(test *testing.T) {
	chip, sw := torOnBoth(test)
	t := &twins{T: test, chip: chip, sw: sw}
	for _, tt := range []struct {
		port uint32
		src  string
		out  int
	}{
		{1, "10.0.0.1", 1}, {1, "10.0.0.2", 0}, {1, "10.1.0.1", 0}, {1, "0.0.0.0", 1}, {1, "10.0.0.0", 0},
		{2, "10.0.0.2", 1}, {2, "10.0.0.1", 0},
		{3, "10.0.0.1", 1}, {5, "192.0.2.1", 1},
		{1, "fd00::1", 1}, {1, "fd00::2", 0}, {1, "fd00:0:0:1::1", 0}, {1, "fd01::1", 0}, {1, "::1", 0}, {1, "::", 0},
		{1, "fe80::1", 1}, {1, "febf::2", 1}, {1, "fec0::1", 0}, {1, "fd00::1:0:0:1", 0}, {1, "fd00::8000:0:1", 0},
		{2, "fd00::2", 1}, {2, "fd00::1", 0}, {4, "fd00::9", 1},
	} {
		packet := labelledPacket(0)
		if netip.MustParseAddr(tt.src).Is6() {
			packet = labelledPacketV6(0)
		}
		ack := withSource(packet, tt.src)
		ack[len(ack)-32-12] = 0x11
		for what, data := range map[string][]byte{"data from ": withSource(packet, tt.src), "ACK from ": ack} {
			if out := t.both(what+tt.src, tt.port, data); len(out) != tt.out {
				t.Errorf("%s%s by port %d: %d packets leave, want %d", what, tt.src, tt.port, len(out), tt.out)
			}
		}
	}
	many := withSource(labelledPacketV6(0), "::") // duplicate address detection
	copy(many[14+24:], netip.MustParseAddr("ff02::1:ff00:2").AsSlice())
	t.both("to a multicast group", 1, many)
	sameCounters(test, chip, sw, func(port int) int { return port })
}

// TestChipClass: RoCEv2 packets with DSCP CS6, or 51 after a reroute, are control: they leave unmarked and are counted
// as such.
func TestChipClass(test *testing.T) {
	chip, sw := torOnBoth(test)
	t := &twins{T: test, chip: chip, sw: sw}
	tables{test, sw}.insert("route_v6", program.FieldMatch{Value: append([]byte{0xFD, 1}, make([]byte, 14)...), PrefixLen: 16},
		0, "forward_down", 5)
	if err := chip.Sync(); err != nil {
		t.Fatal(err)
	}
	const ect0, ce = 2, 3
	for dscp, control := range map[byte]bool{48: true, 49: true, 51: true, 46: false, 56: false, 0: false, 47: false, 52: false} {
		v4, v6 := labelledPacket(0), labelledPacketV6(0)
		v4[14+17] = 1   // to 10.1.0.1, by port 5, which marks
		v6[14+24+1] = 1 // to fd01::9, by port 5
		v4 = dscpV4(v4, dscp)
		v4[15] |= ect0
		v4 = withSource(v4, "10.0.0.1") // and its checksum
		binary.BigEndian.PutUint16(v6[14:], 6<<12|uint16(dscp<<2|ect0)<<4|0xF)
		for _, data := range [][]byte{v4, v6} {
			out := t.both("a packet to a port that marks", 1, data)
			if len(out) != 1 {
				t.Fatalf("DSCP %d: %d packets leave", dscp, len(out))
			}
			ecn := out[0].Data[15] & 3
			if out[0].Data[14]>>4 == 6 {
				ecn = out[0].Data[15] >> 4 & 3
			}
			if ecn == ce == control {
				t.Errorf("DSCP %d: ECN %d, want control: %v", dscp, ecn, control)
			}
		}
	}
	sameCounters(test, chip, sw, func(port int) int { return port })
}
