package virtual

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/usid"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/p4runtime"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// programmed is a switch with the P4 program and a controller's entries.
type programmed struct {
	t    *testing.T
	f    *fabric.Fabric
	node fabric.NodeID
	core *p4runtime.Core
	sw   *interp.Switch
	now  int64 // ns
}

const quenchInterval = 10 // us

func newProgrammed(t *testing.T, name string) *programmed {
	t.Helper()
	return newProgrammedFor(t, name, controller.UDPSourcePort, controller.FlowLabel)
}

// newProgrammedFor is newProgrammed for carriers of labels.
func newProgrammedFor(t *testing.T, name string, v4, v6 controller.Carrier) *programmed {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	s := &programmed{t: t, f: f, now: 1_000_000}
	if s.node, err = f.NodeByName(name); err != nil {
		t.Fatal(err)
	}
	lab := newLab(t)
	control, err := controller.New(controller.Config{
		Fabric: f, CarrierV4: v4, CarrierV6: v6,
		QuenchIntervalUs: quenchInterval, ControlPriority: 1, CloneClass: 1, MaxGroupSize: lab.schema.MaxGroupSize(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.core, err = p4runtime.New(p4runtime.Config{
		DeviceID: 1, Now: func() int64 { return s.now }, Switch: interp.Config{QueuesPerPort: 8},
		OnSwitch: func(sw *interp.Switch) { s.sw = sw },
	})
	if err != nil {
		t.Fatal(err)
	}
	stream := s.core.OpenStream(func(*p4.StreamMessageResponse) error { return nil })
	if err := stream.Recv(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Arbitration{
		Arbitration: &p4.MasterArbitrationUpdate{DeviceId: 1, ElectionId: &p4.Uint128{Low: 1}},
	}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.core.SetForwardingPipelineConfig(&p4.SetForwardingPipelineConfigRequest{
		DeviceId: 1, ElectionId: &p4.Uint128{Low: 1}, Action: p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT,
		Config: &p4.ForwardingPipelineConfig{P4Info: p4src.V1ModelP4Info(), P4DeviceConfig: p4src.V1ModelJSON()},
	}); err != nil {
		t.Fatal(err)
	}
	batches, err := lab.schema.WriteRequests(p4rt.Writer{DeviceID: 1, ElectionID: &p4.Uint128{Low: 1}}, controller.Diff(nil, control.Desired(s.node)))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		if err := s.core.Write(b.Request); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// out is a packet that left the switch.
type out struct {
	port     uint32
	priority uint8
	data     []byte
}

// send passes a packet through, a microsecond after the last.
func (s *programmed) send(port uint32, data []byte) []out {
	s.now += 1000
	var batch interp.Batch
	s.sw.Ingress(interp.Input{Port: port, Data: data, Length: len(data), Now: s.now}, &batch)
	var outs []out
	for _, p := range batch.Packets {
		priority := p.Priority
		var more interp.Batch
		o, ok := s.sw.Egress(p, interp.QueueState{DeqTime: s.now}, &more)
		if ok {
			outs = append(outs, out{o.Port, priority, append([]byte(nil), o.Data...)})
		}
	}
	return outs
}

func (s *programmed) portEvent(port uint16, up bool, epoch uint32) {
	s.t.Helper()
	for _, o := range s.send(p4src.PortEventPort, p4src.AppendPortEvent(nil, port, up, epoch)) {
		if _, ok := frame.NoticePayload(o.data); !ok || up {
			s.t.Errorf("of a port event comes %+v", o)
		}
	}
}

// counter returns a cell's packets.
func (s *programmed) counter(name string, index int) uint64 {
	s.t.Helper()
	id, ok := s.sw.Program().CounterByName(name)
	if !ok {
		s.t.Fatalf("no counter %s", name)
	}
	packets, _, err := s.sw.Counter(id, index)
	if err != nil {
		s.t.Fatal(err)
	}
	return packets
}

// packet describes a RoCEv2 packet to build.
type packet struct {
	src, dst fabric.NodeID
	label    fabric.Label
	ipv6     bool
	vlan     bool
	opcode   byte // 0: RDMA WRITE middle
	ttl      uint8
	dscp     uint8
	options  bool // IPv4 options
	tcp      bool
}

func (s *programmed) build(p packet) []byte {
	s.t.Helper()
	var ls []gopacket.SerializableLayer
	ether := &layers.Ethernet{SrcMAC: make(net.HardwareAddr, 6), DstMAC: make(net.HardwareAddr, 6), EthernetType: layers.EthernetTypeIPv4}
	if p.ipv6 {
		ether.EthernetType = layers.EthernetTypeIPv6
	}
	ls = append(ls, ether)
	if p.vlan {
		ls = append(ls, &layers.Dot1Q{VLANIdentifier: 7, Type: ether.EthernetType})
		ether.EthernetType = layers.EthernetTypeDot1Q
	}
	if p.ttl == 0 {
		p.ttl = 64
	}
	protocol := layers.IPProtocolUDP
	if p.tcp {
		protocol = layers.IPProtocolTCP
	}
	if p.ipv6 {
		ls = append(ls, &layers.IPv6{
			Version: 6, HopLimit: p.ttl, NextHeader: protocol, FlowLabel: 0xFC000 | uint32(p.label),
			TrafficClass: p.dscp << 2,
			SrcIP:        s.f.HostAddr6(p.src).AsSlice(), DstIP: s.f.HostAddr6(p.dst).AsSlice(),
		})
	} else {
		ip := &layers.IPv4{
			Version: 4, TTL: p.ttl, Protocol: protocol, TOS: p.dscp << 2,
			SrcIP: s.f.HostAddr4(p.src).AsSlice(), DstIP: s.f.HostAddr4(p.dst).AsSlice(),
		}
		if p.options {
			ip.Options = []layers.IPv4Option{{OptionType: 148, OptionLength: 4, OptionData: []byte{0, 0}}} // router alert
		}
		ls = append(ls, ip)
	}
	if p.opcode == 0 {
		p.opcode = 0x07
	}
	bth := []byte{p.opcode, 0x40, 0xff, 0xff, 0, 0, 0, 5, 0, 0, 0, 9}
	if p.tcp {
		ls = append(ls, gopacket.Payload(make([]byte, 40)))
	} else {
		// RoCEv2 leaves the UDP checksum at 0.
		udp := binary.BigEndian.AppendUint16(nil, 0xC000|uint16(p.label))
		udp = append(udp, 4791>>8, 4791&0xff, 0, 8+12+200, 0, 0)
		ls = append(ls, gopacket.Payload(append(append(udp, bth...), make([]byte, 200)...)))
	}
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ls...); err != nil {
		s.t.Fatal(err)
	}
	return buf.Bytes()
}

// sum is the one's complement sum of 16-bit words: 0xffff over a header with a
// right checksum.
func sum(b []byte) uint16 {
	total := uint32(0)
	for i := 0; i+1 < len(b); i += 2 {
		total += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for total>>16 != 0 {
		total = total&0xffff + total>>16
	}
	return uint16(total)
}

// Ports of tor0: hosts h0, h1 at 1 and 2, agg0 and agg1 at 3 and 4.
const (
	h0, h1, h8 = fabric.NodeID(0), fabric.NodeID(1), fabric.NodeID(8)
	up0, up1   = uint32(3), uint32(4)
)

func TestProgramForwards(t *testing.T) {
	oneGoroutine(t)
	s := newProgrammed(t, "tor0")
	tests := []struct {
		name string
		p    packet
		port uint32
	}{
		{"label 0", packet{src: h0, dst: h8, label: 0}, up0},
		{"label 3", packet{src: h0, dst: h8, label: 3}, up1},
		{"label 3 by IPv6", packet{src: h0, dst: h8, label: 3, ipv6: true}, up1},
		{"label 2 under a VLAN tag", packet{src: h0, dst: h8, label: 2, vlan: true}, up1},
		{"down: the label does not matter", packet{src: h8, dst: h1, label: 3}, 2},
	}
	for _, tt := range tests {
		in := uint32(1)
		if tt.p.src != h0 {
			in = up0
		}
		got := s.send(in, s.build(tt.p))
		if len(got) != 1 || got[0].port != tt.port {
			t.Errorf("%s: %d packets out, %+v, want one at port %d", tt.name, len(got), got, tt.port)
			continue
		}
		if ip := got[0].data[14:34]; !tt.p.ipv6 && !tt.p.vlan && (sum(ip) != 0xffff || ip[8] != 63) {
			t.Errorf("%s: IP header sums to %#x, TTL %d", tt.name, sum(ip), ip[8])
		}
	}
	for _, p := range []packet{{src: h0, dst: h8, label: 77}, {src: h0, dst: h8, tcp: true}} {
		if got := s.send(1, s.build(p)); len(got) != 1 || got[0].port != up0 && got[0].port != up1 {
			t.Errorf("%+v: out %+v, want one uplink by ECMP", p, got)
		}
	}
	if a, b := s.counter("fallback", 1), s.counter("fallback", 2); a != 1 || b != 1 {
		t.Errorf("fallback: %d unlabelled, %d of unknown label, want 1 and 1", a, b)
	}
	if got := s.send(1, s.build(packet{src: h0, dst: h8, ttl: 1})); len(got) != 0 || s.counter("drops", 1) != 1 {
		t.Errorf("TTL 1: out %+v, %d counted", got, s.counter("drops", 1))
	}
}

// TestProgramPriority: ACKs, CNPs and RoCEv2 packets with DSCP CS6 go first and count as control, also with the mark of
// a rerouted packet. Data and foreign traffic do not.
func TestProgramPriority(t *testing.T) {
	oneGoroutine(t)
	s := newProgrammed(t, "tor0")
	for _, tt := range []struct {
		p    packet
		want uint8 // the priority
		data uint64
	}{
		{packet{opcode: 0x11}, 1, 0},
		{packet{opcode: 0x12}, 1, 0},
		{packet{opcode: 0x81}, 1, 0},
		{packet{opcode: 0x0a}, 0, 1},
		{packet{opcode: 0x0a, dscp: 48}, 1, 0},
		{packet{opcode: 0x0a, dscp: 48 | 3}, 1, 0},
		{packet{opcode: 0x0a, dscp: 48 | 3, ipv6: true}, 1, 0},
		{packet{opcode: 0x0a, dscp: 48, vlan: true}, 1, 0},
		{packet{opcode: 0x0a, dscp: 46}, 0, 1}, // EF
		{packet{opcode: 0x0a, dscp: 56}, 0, 1}, // CS7
		{packet{opcode: 0x0a, dscp: 56, ipv6: true}, 0, 1},
		{packet{tcp: true, dscp: 48}, 0, 0},
	} {
		tt.p.src, tt.p.dst = h0, h8
		tx := func(class string) uint64 {
			return s.counter("port_tx_"+class, int(up0)) + s.counter("port_tx_"+class, int(up1))
		}
		data, control := tx("data"), tx("control")
		if got := s.send(1, s.build(tt.p)); len(got) != 1 || got[0].priority != tt.want {
			t.Errorf("%+v: %d packets out, want one of priority %d", tt.p, len(got), tt.want)
		}
		data, control = tx("data")-data, tx("control")-control
		if data != tt.data || data+control != 1 {
			t.Errorf("%+v: counted as %d data and %d control packets, want %d data", tt.p, data, control, tt.data)
		}
	}
}

// TestProgramPriorityOuter: in an outer header, the DSCP of either header makes a packet control.
func TestProgramPriorityOuter(t *testing.T) {
	oneGoroutine(t)
	s := newProgrammedFor(t, "tor0", controller.NoCarrier, controller.MicroSegments)
	wrapper, err := usid.New(s.f, h0)
	if err != nil {
		t.Fatal(err)
	}
	for _, outer := range []uint8{0, 48, 51} {
		for _, inner := range []packet{{}, {dscp: 48}, {ipv6: true}, {ipv6: true, dscp: 48}} {
			inner.src, inner.dst, inner.opcode = h0, h8, 0x0a
			frame := s.build(inner)
			length := len(frame)
			data := append(frame, make([]byte, usid.HeaderSize)...)
			data = data[:wrapper.Wrap(data, length, length)]
			data[14], data[15] = 6<<4|outer>>2, outer<<6|data[15]&0xf // the traffic class
			want := uint8(0)
			if outer != 0 || inner.dscp != 0 {
				want = 1
			}
			if got := s.send(1, data); len(got) != 1 || got[0].priority != want {
				t.Errorf("outer DSCP %d, %+v: %d packets out, want one of priority %d", outer, inner, len(got), want)
			}
		}
	}
}

// TestProgramHeaderChecksum: a header with options stays right, a broken one
// broken.
func TestProgramHeaderChecksum(t *testing.T) {
	oneGoroutine(t)
	s := newProgrammed(t, "tor0")
	got := s.send(1, s.build(packet{src: h0, dst: h8, options: true}))
	if len(got) != 1 || sum(got[0].data[14:38]) != 0xffff {
		t.Errorf("with options: out %+v", got)
	}
	broken := s.build(packet{src: h0, dst: h8})
	broken[24] ^= 0x33
	if got := s.send(1, broken); len(got) != 1 || sum(got[0].data[14:34]) == 0xffff {
		t.Errorf("a broken header is mended: %+v", got)
	}
	// A marked header is right, too.
	s.portEvent(uint16(up0), false, 1)
	for _, o := range s.send(1, s.build(packet{src: h0, dst: h8, label: 0})) {
		if sum(o.data[14:34]) != 0xffff {
			t.Errorf("port %d: IP header sums to %#x", o.port, sum(o.data[14:34]))
		}
	}
}

// TestProgramReroutes: a dead uplink is gone round, with a mark, and the source
// is notified; it comes back with the port.
func TestProgramReroutes(t *testing.T) {
	oneGoroutine(t)
	for _, shape := range []packet{{}, {ipv6: true}, {vlan: true}, {ipv6: true, vlan: true}} {
		s := newProgrammed(t, "tor0")
		s.portEvent(uint16(up0), false, 7)
		p := shape
		p.src, p.dst, p.label = h0, h8, 1
		got := s.send(1, s.build(p))
		if len(got) != 2 {
			t.Fatalf("%+v: %d packets out, want the packet and a quench", shape, len(got))
		}
		for _, o := range got {
			if o.port == up1 {
				class := o.data[15]
				if shape.ipv6 {
					class = o.data[14]<<4 | o.data[15]>>4
				}
				if !shape.vlan && class>>2&3 != 3 {
					t.Errorf("%+v: rerouted without the mark: traffic class %#x", shape, class)
				}
				continue
			}
			if o.port != 1 || o.priority != 1 {
				t.Errorf("%+v: the quench leaves by port %d in queue %d, want 1 and 1", shape, o.port, o.priority)
			}
			s.checkQuench(o.data, p, frame.Quench{
				Rerouted: true, Labelled: true, Label: 1, Switch: s.node, Port: fabric.PortNo(up0), Epoch: 7, DstQP: 5, PSN: 9,
			})
		}
		if s.counter("fallback", 3) != 1 {
			t.Errorf("%+v: %d reroutes counted", shape, s.counter("fallback", 3))
		}
		s.portEvent(uint16(up0), true, 8)
		if got := s.send(1, s.build(p)); len(got) != 1 || got[0].port != up0 {
			t.Errorf("%+v: after the port came back: %+v", shape, got)
		}
	}
}

// checkQuench parses a quench with a library, checks its checksums, lengths and
// addresses, and compares its content.
func (s *programmed) checkQuench(data []byte, p packet, want frame.Quench) {
	s.t.Helper()
	decoded := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.Default)
	udp, ok := decoded.Layer(layers.LayerTypeUDP).(*layers.UDP)
	if !ok || decoded.ErrorLayer() != nil {
		s.t.Fatalf("not a UDP packet: %v", decoded)
	}
	src, _ := netip.AddrFromSlice(decoded.NetworkLayer().NetworkFlow().Src().Raw())
	dst, _ := netip.AddrFromSlice(decoded.NetworkLayer().NetworkFlow().Dst().Raw())
	wantSrc, wantDst := s.f.HostAddr4(p.dst), s.f.HostAddr4(p.src)
	if p.ipv6 {
		wantSrc, wantDst = s.f.HostAddr6(p.dst), s.f.HostAddr6(p.src)
		if err := udp.SetNetworkLayerForChecksum(decoded.NetworkLayer()); err != nil {
			s.t.Fatal(err)
		}
		buf, was := gopacket.NewSerializeBuffer(), udp.Checksum
		if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{ComputeChecksums: true}, udp, gopacket.Payload(udp.Payload)); err != nil {
			s.t.Fatal(err)
		}
		if udp.Checksum != was {
			s.t.Errorf("UDP checksum %#x, want %#x", was, udp.Checksum)
		}
	}
	if src != wantSrc || dst != wantDst || udp.DstPort != p4src.QuenchUDPPort || int(udp.Length) != 8+len(udp.Payload) {
		s.t.Errorf("quench from %v to %v, UDP port %d, length %d", src, dst, udp.DstPort, udp.Length)
	}
	got, err := frame.ParseQuench(udp.Payload, src)
	if err != nil {
		s.t.Fatal(err)
	}
	if want.Dst = wantSrc; got != want {
		s.t.Errorf("quench %+v, want %+v", got, want)
	}
}

// TestProgramQuenchRate: a source learns of a port at most once an interval,
// another source, or of another port, in its own time.
func TestProgramQuenchRate(t *testing.T) {
	oneGoroutine(t)
	s := newProgrammed(t, "tor0")
	s.portEvent(uint16(up0), false, 1)
	quenches := func(src fabric.NodeID, packets int) (n int) {
		in := uint32(src) + 1
		for range packets { // one a microsecond
			for _, o := range s.send(in, s.build(packet{src: src, dst: h8, label: 0})) {
				if o.port == in {
					n++
				}
			}
		}
		return n
	}
	if n := quenches(h0, 50); n != 50/quenchInterval {
		t.Errorf("%d quenches for 50 packets in 50 us, want %d", n, 50/quenchInterval)
	}
	if n := quenches(h1, 1); n != 1 {
		t.Errorf("another source gets %d quenches, want 1", n)
	}
}

// TestProgramDeadEnds: no way down and no way up drop, count and tell.
func TestProgramDeadEnds(t *testing.T) {
	oneGoroutine(t)
	s := newProgrammed(t, "tor0")
	s.portEvent(2, false, 3)
	got := s.send(up1, s.build(packet{src: h8, dst: h1, label: 2}))
	if len(got) != 1 || got[0].port != up1 || s.counter("drops", 2) != 1 {
		t.Fatalf("dead port to a host: out %+v, %d counted", got, s.counter("drops", 2))
	}
	s.checkQuench(got[0].data, packet{src: h8, dst: h1}, frame.Quench{Switch: s.node, Port: 2, Epoch: 3, DstQP: 5, PSN: 9})

	s.portEvent(uint16(up0), false, 1)
	s.portEvent(uint16(up1), false, 1)
	got = s.send(1, s.build(packet{src: h0, dst: h8, label: 0}))
	if len(got) != 1 || got[0].port != 1 || s.counter("drops", 3) != 1 {
		t.Errorf("no live uplink: out %+v, %d counted", got, s.counter("drops", 3))
	}
	if got := s.send(1, s.build(packet{src: h0, dst: h8, tcp: true})); len(got) != 0 {
		t.Errorf("TCP is answered: %+v", got)
	}
	if got := s.send(1, p4src.AppendPortEvent(nil, uint16(up0), true, 9)); len(got) != 0 || s.counter("drops", 4) != 1 {
		t.Errorf("a port event from a host: out %+v, %d counted", got, s.counter("drops", 4))
	}
	if got := s.send(1, s.build(packet{src: h0, dst: h8, label: 0})); len(got) == 1 && got[0].port != 1 {
		t.Error("a host's port event brought the port back")
	}
}
