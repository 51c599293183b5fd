package tofino

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// dscpV4 returns an IPv4 packet with another DSCP.
func dscpV4(packet []byte, dscp byte) []byte {
	b := slices.Clone(packet)
	b[15] = dscp << 2
	b[24], b[25] = 0, 0
	binary.BigEndian.PutUint16(b[24:], checksum(b[14:34]))
	return b
}

// TestChipEdges: what the other tests and P4Testgen do not reach. Malformed port events are dropped; the mark of a
// rerouted packet is set beside each DSCP; of two packets to a dead port in one interval the first is quenched; IPv6
// packets that go down are marked; without carriers no packet has a label; upper bits of the hash.
func TestChipEdges(test *testing.T) {
	chip, sw := torOnBoth(test)
	t := &twins{T: test, chip: chip, sw: sw}
	none := func(what string, port uint32, data []byte) {
		t.Helper()
		if out := t.both(what, port, data); len(out) != 0 {
			t.Errorf("%s: %v, want nothing", what, out)
		}
	}
	write := tables{test, sw}
	sync := func() {
		t.Helper()
		if err := chip.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	event := func(port uint16, up bool) []byte { return p4src.AppendPortEvent(nil, port, up, 5) }
	version := event(3, false)
	version[len(version)-8] = 2
	none("an event of version 2", p4src.PortEventPort, version)
	none("an event of port 515", p4src.PortEventPort, event(515, false))

	v6 := program.FieldMatch{Value: []byte{0xFD, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, PrefixLen: 16}
	write.insert("route_v6", v6, 0, "forward_down", 5)
	sync()
	down := labelledPacketV6(0)
	down[14+24+1] = 1 // to fd01::9, by port 5
	down[14+1] |= 2 << 4
	if out := t.both("IPv6, ECT(0), down", 1, down); len(out) != 1 || out[0].Data[15]>>4&3 != 3 {
		t.Errorf("an IPv6 packet by a port that marks: %v, want CE", out)
	}

	t.both("down event", p4src.PortEventPort, event(3, false))
	for dscp := range byte(4) {
		if out := t.both("rerouted", 1, dscpV4(labelledPacket(0), 0x28|dscp)); len(out) != 2 {
			t.Errorf("DSCP %d, dead port: %v, want a quench and the packet by another port", dscp, out)
		}
	}
	var idle []Packet // 2 us of the model's clock
	for range 300 {
		idle = append(idle, Packet{1, event(3, true)})
	}
	if _, err := chip.InjectAll(idle); err != nil {
		t.Fatal(err)
	}
	t.both("the first of two", 1, labelledPacket(0))
	t.now -= 1e9 // in the same microsecond
	if out := t.both("the second of two", 1, labelledPacket(0)); len(out) != 1 {
		t.Errorf("the second packet to a dead port in one interval: %v, want it by another port alone", out)
	}
	t.both("back", p4src.PortEventPort, event(3, true))

	carriers := write.id("label_carrier")
	for h := range sw.Entries(carriers) {
		if err := sw.Delete(carriers, h); err != nil {
			t.Fatal(err)
		}
	}
	sync()
	if out, err := chip.Inject(1, labelledPacket(0)); err != nil || len(out) != 1 {
		t.Errorf("a label without a carrier: %v, %v, want it by one uplink", out, err)
	}
	if err := sw.SetDefault(write.id("device"), write.call("device", "set_device", 7, 0x1234, 16, 2, 1, 1000)); err != nil {
		t.Fatal(err)
	}
	sync()
	ports := map[uint32]bool{}
	for source := range uint16(64) {
		packet := unlabelledPacket()
		binary.BigEndian.PutUint16(packet[34:], 0x1000+source)
		out, err := chip.Inject(1, packet)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range out {
			ports[p.Port] = true
		}
	}
	if len(ports) != 2 {
		t.Errorf("by the hash's upper bits packets leave by ports %v, want both uplinks", ports)
	}
}

// unlabelledPacket is labelledPacket with a UDP source port that is no label.
func unlabelledPacket() []byte {
	b := labelledPacket(0)
	binary.BigEndian.PutUint16(b[34:], 0x1000)
	return b
}
