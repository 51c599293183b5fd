package frame

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

var opcodes = []Opcode{
	SendFirst, SendMiddle, SendLast, SendLastImmediate, SendOnly, SendOnlyImmediate,
	WriteFirst, WriteMiddle, WriteLast, WriteLastImmediate, WriteOnly, WriteOnlyImmediate, Acknowledge, CNP,
}

func drawStack(t *rapid.T) Stack {
	s := Stack{
		Tagged:       rapid.Bool().Draw(t, "tagged"),
		VLAN:         rapid.Uint16().Draw(t, "vlan"),
		TrafficClass: rapid.Byte().Draw(t, "class"),
		TTL:          rapid.Byte().Draw(t, "ttl"),
		SourcePort:   rapid.Uint16().Draw(t, "sport"),
		BTH: BTHFields{
			Opcode:     rapid.SampledFrom(opcodes).Draw(t, "opcode"),
			Solicited:  rapid.Bool().Draw(t, "solicited"),
			PKey:       rapid.Uint16().Draw(t, "pkey"),
			FECN:       rapid.Bool().Draw(t, "fecn"),
			BECN:       rapid.Bool().Draw(t, "becn"),
			DestQP:     rapid.Uint32Range(0, Mask24).Draw(t, "qp"),
			AckRequest: rapid.Bool().Draw(t, "ackreq"),
			PSN:        rapid.Uint32Range(0, Mask24).Draw(t, "psn"),
		},
		PayloadLen: rapid.IntRange(0, 9000).Draw(t, "payload"),
	}
	s.DstMAC, s.SrcMAC = [6]byte{2, 0, 0, 0, 0, 1}, [6]byte{2, 0, 0, 0, 0, 2}
	if rapid.Bool().Draw(t, "v6") {
		s.Src = netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "src")))
		s.Dst = netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "dst")))
		s.FlowLabel = rapid.Uint32Range(0, 1<<20-1).Draw(t, "flow label")
	} else {
		s.Src = netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "src")))
		s.Dst = netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "dst")))
		s.ID = rapid.Uint16().Draw(t, "id")
	}
	x := s.BTH.Opcode.extensions()
	if x.reth {
		s.RETH = RETHFields{rapid.Uint64().Draw(t, "va"), rapid.Uint32().Draw(t, "rkey"), rapid.Uint32().Draw(t, "len")}
	}
	if x.aeth {
		s.AETH = AETHFields{Syndrome(rapid.Byte().Draw(t, "syndrome")), rapid.Uint32Range(0, Mask24).Draw(t, "msn")}
	}
	if x.imm {
		s.Immediate = rapid.Uint32().Draw(t, "imm")
	}
	return s
}

// build makes the whole frame, its payload from a cheap generator.
func build(t interface{ Fatal(...any) }, s *Stack, seed byte) []byte {
	b := make([]byte, s.FrameLen())
	n, err := s.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.PayloadLen {
		b[n+i] = byte(i)*seed + seed
	}
	f, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	f.SetICRC()
	return b
}

func TestEncodeParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawStack(t)
		b := build(t, &want, rapid.Byte().Draw(t, "payload seed"))
		f, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.VerifyICRC(); err != nil {
			t.Fatal(err)
		}
		h := f.BTH()
		got := Stack{
			DstMAC: [6]byte(b), SrcMAC: [6]byte(b[6:]), Tagged: want.Tagged, VLAN: want.VLAN,
			Src: f.Source(), Dst: f.Destination(), TrafficClass: f.TrafficClass(), FlowLabel: f.FlowLabel(),
			TTL: want.TTL, ID: want.ID, SourcePort: f.SourcePort(), PayloadLen: f.PayloadLen(),
			BTH: BTHFields{
				Opcode: h.Opcode(), Solicited: h.Solicited(), PKey: h.PKey(), FECN: h.FECN(), BECN: h.BECN(),
				DestQP: h.DestQP(), AckRequest: h.AckRequest(), PSN: h.PSN(),
			},
		}
		if r := f.RETH(); r != nil {
			got.RETH = RETHFields{r.VirtualAddress(), r.RKey(), r.Length()}
		}
		if a := f.AETH(); a != nil {
			got.AETH = AETHFields{a.Syndrome(), a.MSN()}
		}
		got.Immediate, _ = f.Immediate()
		if d := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); d != "" {
			t.Fatalf("after encode and parse (-want +got):\n%s", d)
		}
		if f.Len() != len(b) || f.HeaderLen() != want.HeaderLen() {
			t.Fatalf("Len %d HeaderLen %d, want %d and %d", f.Len(), f.HeaderLen(), len(b), want.HeaderLen())
		}

		// Headers alone say the same.
		cut, err := ParseHeaders(b[:f.HeaderLen()])
		if err != nil {
			t.Fatalf("headers alone: %v", err)
		}
		if cut.PayloadLen() != want.PayloadLen || cut.Len() != len(b) {
			t.Fatalf("headers alone: payload %d of %d, want %d of %d", cut.PayloadLen(), cut.Len(), want.PayloadLen, len(b))
		}
		if _, ok := cut.ICRC(); ok || cut.SetICRC() || (want.PayloadLen > 0 && cut.Payload() != nil) {
			t.Fatal("a cut frame gave an ICRC or a payload")
		}
	})
}

// TestEncodeAgainstGopacket has another decoder read what Encode writes.
func TestEncodeAgainstGopacket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawStack(t)
		s.SourcePort |= fabric.FirstLabelPort // gopacket takes port 53 for DNS, either way
		b := build(t, &s, 3)
		p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
		if e := p.ErrorLayer(); e != nil {
			t.Fatal(e.Error())
		}
		udp, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
		if !ok || udp.DstPort != Port || uint16(udp.SrcPort) != s.SourcePort || int(udp.Length) != 8+len(udp.Payload) {
			t.Fatalf("UDP layer: %+v", udp)
		}
		if ip, ok := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4); ok {
			out := gopacket.NewSerializeBuffer()
			sum := ip.Checksum
			if err := gopacket.SerializeLayers(out, gopacket.SerializeOptions{ComputeChecksums: true}, ip); err != nil {
				t.Fatal(err)
			}
			if ip.Checksum != sum {
				t.Fatalf("IPv4 checksum %#04x, want %#04x", sum, ip.Checksum)
			}
		}
	})
}

func TestEncodeErrors(t *testing.T) {
	a4, a6 := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::2")
	big := make([]byte, MaxHeaders)
	for _, tt := range []struct {
		name string
		s    Stack
		b    []byte
		want string
	}{
		{"buffer", Stack{Src: a4, Dst: a4}, make([]byte, 53), "the headers are 54 bytes, the buffer has 53"},
		{"no address", Stack{}, big, "not of one IP version"},
		{"mixed", Stack{Src: a4, Dst: a6}, big, "not of one IP version"},
		{"payload", Stack{Src: a4, Dst: a4, PayloadLen: 70000}, big, "70000 bytes"},
		{"negative", Stack{Src: a6, Dst: a6, PayloadLen: -1}, big, "-1 bytes"},
	} {
		if _, err := tt.s.Encode(tt.b); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want it to contain %q", tt.name, err, tt.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	s := Stack{Src: netip.MustParseAddr("10.0.0.2"), Dst: netip.MustParseAddr("10.0.0.3"), TTL: 64, BTH: BTHFields{Opcode: WriteOnly}, PayloadLen: 8}
	edit := func(at int, v ...byte) func([]byte) []byte {
		return func(b []byte) []byte { copy(b[at:], v); return b }
	}
	for _, tt := range []struct {
		name string
		edit func([]byte) []byte
		is   error
	}{
		{"ARP", edit(12, 0x08, 0x06), ErrNotRoCE},
		{"three tags", edit(12, 0x81, 0, 0, 0, 0x81, 0, 0, 0, 0x81, 0), ErrNotRoCE},
		{"TCP", edit(14+9, 6), ErrNotRoCE},
		{"fragment", edit(14+6, 0x20, 0), ErrNotRoCE},
		{"port", edit(34+2, 0, 53), ErrNotRoCE},
		{"version", edit(14, 0x65), ErrMalformed},
		{"header length", edit(14, 0x44), ErrMalformed},
		{"total length", edit(16, 0xff, 0xff), ErrMalformed},
		{"UDP length", edit(38, 0, 9), ErrMalformed},
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }, ErrMalformed},
		{"empty", func([]byte) []byte { return nil }, ErrMalformed},
	} {
		if _, err := Parse(tt.edit(build(t, &s, 1))); !errors.Is(err, tt.is) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.is)
		}
	}
	whole := build(t, &s, 1)
	for n := range whole {
		if _, err := Parse(whole[:n]); !errors.Is(err, ErrMalformed) {
			t.Errorf("cut to %d bytes: error %v, want ErrMalformed", n, err)
		}
	}
}

func TestSetSourcePort(t *testing.T) {
	vs := vectors(t)
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SampledFrom(vs).Draw(t, "vector")
		b := append([]byte(nil), v.frame...)
		f, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		port := rapid.Uint16().Draw(t, "port")
		had := binary.BigEndian.Uint16(b[f.udp+6:])
		f.SetSourcePort(port)
		if f.SourcePort() != port {
			t.Fatalf("%s: port %d, want %d", v.name, f.SourcePort(), port)
		}
		if err := f.VerifyICRC(); err != nil {
			t.Fatalf("%s: port %d: %v", v.name, port, err)
		}
		switch sum := binary.BigEndian.Uint16(b[f.udp+6:]); {
		case had == 0 && sum != 0:
			t.Fatalf("%s: a UDP checksum appeared", v.name)
		case had != 0 && udpSum(&f) != 0xffff:
			t.Fatalf("%s: the UDP checksum no longer fits: %#04x", v.name, udpSum(&f))
		}
	})
}

// udpSum adds up the pseudo header and the datagram: 0xffff when the checksum
// is right.
func udpSum(f *Frame) uint16 {
	d := append([]byte(nil), f.b[f.udp:f.end]...)
	src, dst := f.Source().AsSlice(), f.Destination().AsSlice()
	d = append(append(append(d, make([]byte, len(d)%2)...), src...), dst...)
	sum := uint64(17 + f.end - f.udp)
	for i := 0; i < len(d); i += 2 {
		sum += uint64(binary.BigEndian.Uint16(d[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

// TestSetSourcePortKeepsChecksum goes through every port, so that the checksum
// meets 0, which would mean that there is none.
func TestSetSourcePortKeepsChecksum(t *testing.T) {
	s := Stack{Src: netip.MustParseAddr("fd00::2"), Dst: netip.MustParseAddr("fd00::3"), BTH: BTHFields{Opcode: Acknowledge}}
	b := build(t, &s, 0)
	f := mustParse(t, b)
	binary.BigEndian.PutUint16(b[f.udp+6:], ^udpSum(&f))
	met := false
	for port := range 1 << 16 {
		f.SetSourcePort(uint16(port))
		met = met || binary.BigEndian.Uint16(b[f.udp+6:]) == 0xffff
		if binary.BigEndian.Uint16(b[f.udp+6:]) == 0 || udpSum(&f) != 0xffff {
			t.Fatalf("port %#04x: UDP checksum %x adds up to %#04x", port, b[f.udp+6:f.udp+8], udpSum(&f))
		}
	}
	if !met {
		t.Error("no port made the checksum 0xffff: the test shows nothing")
	}
}

// TestSetSourcePortOddICRC has the ICRC begin at an odd byte of the datagram.
func TestSetSourcePortOddICRC(t *testing.T) {
	s := Stack{Src: netip.MustParseAddr("10.0.0.2"), Dst: netip.MustParseAddr("10.0.0.3"), BTH: BTHFields{Opcode: SendMiddle}, PayloadLen: 8}
	b := build(t, &s, 9)
	b = b[:len(b)-1]
	binary.BigEndian.PutUint16(b[16:], binary.BigEndian.Uint16(b[16:])-1)
	binary.BigEndian.PutUint16(b[38:], binary.BigEndian.Uint16(b[38:])-1)
	f := mustParse(t, b)
	f.SetICRC()
	binary.BigEndian.PutUint16(b[40:], ^udpSum(&f))
	if udpSum(&f) != 0xffff {
		t.Fatal("the test's own checksum is wrong")
	}
	f.SetSourcePort(0xC123)
	if err := f.VerifyICRC(); err != nil || udpSum(&f) != 0xffff {
		t.Errorf("ICRC: %v; UDP checksum adds up to %#04x, want 0xffff", err, udpSum(&f))
	}
}

func TestSetFlowLabel(t *testing.T) {
	for _, v := range vectors(t) {
		f := mustParse(t, v.frame)
		class, was := f.TrafficClass(), f.FlowLabel()
		f.SetFlowLabel(FlowLabel(0x1abc))
		if want := FlowLabel(0x1abc); f.IPv6() && f.FlowLabel() != want || !f.IPv6() && f.FlowLabel() != was {
			t.Errorf("%s: flow label %#x, want %#x", v.name, f.FlowLabel(), want)
		}
		if err := f.VerifyICRC(); err != nil || f.TrafficClass() != class {
			t.Errorf("%s: after the flow label: %v; traffic class %#x, want %#x", v.name, err, f.TrafficClass(), class)
		}
	}
}

func TestCorrectICRC(t *testing.T) {
	vs := vectors(t)
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SampledFrom(vs).Draw(t, "vector")
		b := append([]byte(nil), v.frame...)
		f, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		// Any run of bytes behind the BTH: all of them are covered.
		last := f.end - ICRCSize
		at := rapid.IntRange(f.bth+BTHSize, last).Draw(t, "at")
		to := rapid.SliceOfN(rapid.Byte(), 0, min(20, last-at)).Draw(t, "to")
		old, _ := f.ICRC()
		got := CorrectICRC(old, last-at-len(to), b[at:at+len(to)], to)
		copy(b[at:], to)
		if want, _ := f.ICRC(); got != want {
			t.Fatalf("%s: %d bytes at %d: corrected %#08x, computed %#08x", v.name, len(to), at, got, want)
		}
	})
}

// TestShift makes the table of shifts anew, by shifting in zero bits.
func TestShift(t *testing.T) {
	crc := uint32(1 << 31) // x^0
	bytes := 0
	for k, want := range shiftTables {
		for ; bytes < 1<<k; bytes++ {
			for range 8 {
				crc = crc>>1 ^ polynomial&-(crc&1)
			}
		}
		if crc != want {
			t.Errorf("shift[%d] is %#08x, want %#08x", k, want, crc)
		}
	}
}

func TestLabels(t *testing.T) {
	for _, tt := range []struct {
		l    fabric.Label
		port uint16
		flow uint32
	}{{0, 0xC000, 0xFC000}, {5, 0xC005, 0xFC005}, {1<<14 - 1, 0xFFFF, 0xFFFFF}} {
		if SourcePort(tt.l) != tt.port || FlowLabel(tt.l) != tt.flow {
			t.Errorf("label %d: port %#x flow label %#x, want %#x and %#x", tt.l, SourcePort(tt.l), FlowLabel(tt.l), tt.port, tt.flow)
		}
		if l, ok := LabelOfSourcePort(tt.port); !ok || l != tt.l {
			t.Errorf("port %#x: label %d %v, want %d", tt.port, l, ok, tt.l)
		}
		if l, ok := LabelOfFlowLabel(tt.flow); !ok || l != tt.l {
			t.Errorf("flow label %#x: label %d %v, want %d", tt.flow, l, ok, tt.l)
		}
	}
	if _, ok := LabelOfSourcePort(0xBFFF); ok {
		t.Error("port 0xBFFF carries a label")
	}
	if _, ok := LabelOfFlowLabel(0x1FACE); ok {
		t.Error("flow label 0x1FACE carries a label")
	}
}

// TestTshark has Wireshark's dissector read every opcode over both IP versions.
func TestTshark(t *testing.T) {
	tshark := systemtest.Program(t, "tshark", "", "apt-get install tshark")
	name := filepath.Join(t.TempDir(), "rocev2.pcap")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w := pcapgo.NewWriter(file)
	if err := w.WriteFileHeader(1<<16, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, src := range []string{"10.0.0.2", "fd00:0:0:e7::2"} {
		for _, op := range opcodes {
			s := Stack{
				Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(src).Next(), TTL: 64, SourcePort: 0xC007,
				BTH:  BTHFields{Opcode: op, PKey: DefaultPKey, DestQP: 0x1234, PSN: 0xABCDEF, BECN: op == CNP},
				AETH: AETHFields{ACK, 9}, RETH: RETHFields{0x1000, 5, 777}, PayloadLen: 301,
			}
			if op.Control() {
				s.PayloadLen = 0
			}
			b := build(t, &s, 7)
			if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(b), Length: len(b)}, b); err != nil {
				t.Fatal(err)
			}
			want += strings.Join([]string{strconv.Itoa(int(op)), "0x001234", strconv.Itoa(0xABCDEF), ""}, "|") + "\n"
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tshark, "-r", name, "-T", "fields", "-E", "separator=|", "-e", "infiniband.bth.opcode",
		"-e", "infiniband.bth.destqp", "-e", "infiniband.bth.psn", "-e", "_ws.malformed").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got strings.Builder
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "Running as user") {
			got.WriteString(line)
		}
	}
	if d := cmp.Diff(want, got.String()); d != "" {
		t.Errorf("opcode|QP|PSN|malformed as tshark reads them (-want +got):\n%s", d)
	}
}
