package tagger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller/labellertest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// loaded returns the program in the kernel, or skips with the reason why that
// is not possible here.
func loaded(t testing.TB, c Config) *Tagger {
	t.Helper()
	systemtest.Only(t)
	o, err := load(&c)
	if errors.Is(err, labeller.ErrNotPermitted) || errors.Is(err, labeller.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	tg := &Tagger{o: o}
	t.Cleanup(func() { tg.Close() })
	return tg
}

// pass has the kernel run the program on a frame, without an interface, and
// returns the frame as it would go out.
func pass(t failer, tg *Tagger, raw []byte) []byte {
	t.Helper()
	out := make([]byte, len(raw)+256)
	run := &ebpf.RunOptions{Data: raw, DataOut: out}
	ret, err := tg.o.Program.Run(run)
	if err != nil {
		t.Fatalf("run on %d bytes: %v", len(raw), err)
	}
	if int32(ret) != -1 {
		t.Fatalf("the program returned %d, want -1: others may be behind it", int32(ret))
	}
	return run.DataOut
}

// shape is a RoCEv2 frame as some program may make it.
type shape struct {
	dst      netip.Addr
	qpn      uint32
	port     uint16
	tags     int  // VLAN
	options  int  // of IPv4, in words
	checksum bool // of UDP
	odd      bool // payload without InfiniBand's pad
	payload  int
	opcode   frame.Opcode
	trailer  int // Ethernet padding
}

// bytes builds the frame with an encoder of its own where frame.Stack has
// none: options, two tags, UDP checksum, no pad. The ICRC is the full one.
func (s shape) bytes(t failer, rng *rand.Rand) []byte {
	t.Helper()
	src := netip.MustParseAddr("10.9.9.9")
	if s.dst.Is6() {
		src = netip.MustParseAddr("fd00::9:9")
	}
	st := frame.Stack{
		Src: src, Dst: s.dst, TTL: 61, TrafficClass: 0x62, ID: uint16(rng.Uint32()), FlowLabel: rng.Uint32() & 0xfffff,
		SourcePort: s.port, PayloadLen: s.payload,
		BTH: frame.BTHFields{Opcode: s.opcode, PKey: 0xffff, DestQP: s.qpn, PSN: rng.Uint32() & 0xffffff},
	}
	b := make([]byte, st.FrameLen(), st.FrameLen()+64)
	n, err := st.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	for i := n; i < len(b); i++ {
		b[i] = byte(rng.Uint32())
	}
	ip := 14
	if s.odd { // as no RNIC does: take the pad out, and its number from the BTH
		cut := -s.payload & 3
		b = b[:len(b)-cut]
		udp := ip + 20
		if s.dst.Is6() {
			udp = ip + 40
			add(b[ip+4:], -cut)
		} else {
			add(b[ip+2:], -cut)
		}
		add(b[udp+4:], -cut)
		b[udp+8+1] &^= 0x30
	}
	if s.dst.Is4() && s.options > 0 {
		o := bytes.Repeat([]byte{1}, 4*s.options) // no-operation
		b = append(b[:ip+20:ip+20], append(o, b[ip+20:]...)...)
		b[ip] += byte(s.options)
		add(b[ip+2:], len(o))
	}
	for i := range s.tags {
		kind := []byte{0x81, 0x00}
		if i > 0 {
			kind = []byte{0x88, 0xa8}
		}
		b = append(b[:12:12], append([]byte{kind[0], kind[1], 0x20, byte(i + 1)}, b[12:]...)...)
		ip += 4
	}
	f, err := frame.ParseTransport(b)
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	if !f.SetICRC() {
		t.Fatal("no ICRC")
	}
	if s.checksum {
		udp := ip + 20 + 4*s.options
		if s.dst.Is6() {
			udp = ip + 40
		}
		binary.BigEndian.PutUint16(b[udp+6:], udpChecksum(b[ip:], b[udp:]))
	}
	return append(b, make([]byte, s.trailer)...)
}

func add(field []byte, n int) {
	binary.BigEndian.PutUint16(field, binary.BigEndian.Uint16(field)+uint16(n))
}

// udpChecksum computes a UDP checksum from scratch.
func udpChecksum(ip, udp []byte) uint16 {
	addrs := ip[12:20]
	if ip[0]>>4 == 6 {
		addrs = ip[8:40]
	}
	sum := uint32(17) + uint32(len(udp))
	word := func(b []byte) {
		for i, v := range b {
			sum += uint32(v) << (8 * (1 - i&1))
			sum = sum&0xffff + sum>>16
		}
	}
	word(addrs)
	word(udp[:6])
	word([]byte{0, 0})
	word(udp[8:])
	if c := ^uint16(sum); c != 0 {
		return c
	}
	return 0xffff
}

// check has the kernel rewrite a frame and judges it: by an ICRC and a UDP
// checksum made anew, and byte by byte by Inline.
func check(t failer, tg *Tagger, in *labellertest.Inline, raw []byte, label fabric.Label, flowLabel bool) {
	t.Helper()
	want := bytes.Clone(raw)
	r := in.Rewrite(want)
	got := pass(t, tg, raw)
	if !bytes.Equal(got, want) {
		t.Fatalf("%d bytes (%v): the kernel and Inline differ\nframe  %x\nkernel %x\ninline %x", len(raw), r, head(raw), head(got), head(want))
	}
	if r != labeller.Labelled {
		return
	}
	f, err := frame.ParseTransport(got)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.VerifyICRC(); err != nil {
		t.Fatalf("%d bytes: %v", len(raw), err)
	}
	if flowLabel && f.IPv6() {
		if l, ok := frame.LabelOfFlowLabel(f.FlowLabel()); !ok || l != label {
			t.Fatalf("flow label %#x, want %#x", f.FlowLabel(), frame.FlowLabel(label))
		}
	} else if l, ok := frame.LabelOfSourcePort(f.SourcePort()); !ok || l != label {
		t.Fatalf("port %#x, want %#x", f.SourcePort(), frame.SourcePort(label))
	}
}

func head(b []byte) []byte { return b[:min(len(b), 128)] }

var (
	addr4 = netip.MustParseAddr("10.0.1.2")
	addr6 = netip.MustParseAddr("fd00::1:2")
)

// longest is the longest frame the kernel's test run takes; longer ones pass a
// veth pair in another test.
func longest(t testing.TB) int {
	t.Helper()
	tg := loaded(t, Config{})
	for _, n := range []int{9100, 4000, 3700, 3500, 3200, 2900, 2000} {
		if _, err := tg.o.Program.Run(&ebpf.RunOptions{Data: make([]byte, n)}); err == nil {
			return n
		}
	}
	return 1500
}

// TestAllLengths labels datagrams of every length the kernel's test run takes.
func TestAllLengths(t *testing.T) {
	tg := loaded(t, Config{})
	limit := longest(t)
	in := labellertest.NewInline(labeller.SourcePort, 0)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, dst := range []netip.Addr{addr4, addr6} {
		a := labeller.Assignment{QP: labeller.QP{Dst: dst, Num: 0xabcdef}, Label: 0x2a5c}
		if err := errors.Join(tg.Set(a), in.Set(a)); err != nil {
			t.Fatal(err)
		}
		n := 0
		for payload := 0; payload+78 <= limit; payload++ {
			s := shape{dst: dst, qpn: a.QP.Num, port: uint16(rng.Uint32()), odd: payload&7 < 4, checksum: payload&1 == 0,
				payload: payload, opcode: frame.WriteMiddle}
			check(t, tg, in, s.bytes(t, rng), a.Label, false)
			n++
		}
		t.Logf("%v: %d lengths, frames to %d bytes", dst, n, limit)
	}
}

// TestShapes draws frames of all shapes, and damages some, and compares the
// kernel with Inline: bytes and counters.
func TestShapes(t *testing.T) {
	for _, carrier := range []labeller.Carrier{labeller.SourcePort, labeller.FlowLabel} {
		tg := loaded(t, Config{IPv6: carrier})
		limit := longest(t)
		in := labellertest.NewInline(carrier, 0)
		var as []labeller.Assignment
		for i := range uint32(16) {
			as = append(as, labeller.Assignment{QP: labeller.QP{Dst: addr4, Num: i}, Label: fabric.Label(i * 1000)},
				labeller.Assignment{QP: labeller.QP{Dst: addr6, Num: i}, Label: fabric.Label(i*1000 + 1)})
		}
		if err := errors.Join(tg.Set(as...), in.Set(as...)); err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(rt *rapid.T) {
			s := shape{
				dst: rapid.SampledFrom([]netip.Addr{addr4, addr6}).Draw(rt, "dst"), qpn: rapid.Uint32Range(0, 19).Draw(rt, "qpn"),
				port: rapid.Uint16().Draw(rt, "port"), tags: rapid.IntRange(0, 2).Draw(rt, "tags"),
				checksum: rapid.Bool().Draw(rt, "checksum"), odd: rapid.Bool().Draw(rt, "odd"),
				payload: rapid.IntRange(0, limit-200).Draw(rt, "payload"), opcode: frame.WriteMiddle,
				trailer: rapid.IntRange(0, 40).Draw(rt, "trailer"),
			}
			if s.dst.Is4() {
				s.options = rapid.IntRange(0, 10).Draw(rt, "options")
			}
			b := s.bytes(rt, rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0)))
			label := fabric.Label(s.qpn * 1000)
			if s.dst.Is6() {
				label++
			}
			if rapid.IntRange(0, 3).Draw(rt, "damage") == 0 {
				for range rapid.IntRange(1, 3).Draw(rt, "bytes") {
					b[rapid.IntRange(12, min(len(b), 100)-1).Draw(rt, "at")] = rapid.Byte().Draw(rt, "byte")
				}
				b = b[:rapid.IntRange(14, len(b)).Draw(rt, "length")]
				if _, err := tg.o.Program.Run(&ebpf.RunOptions{Data: b}); errors.Is(err, syscall.EINVAL) {
					rt.Skip("the kernel's test run refuses frames cut off within the IP header")
				}
				in.Rewrite(bytes.Clone(b)) // counted like the kernel's
				want := bytes.Clone(b)
				r := in.Rewrite(want)
				if got := pass(rt, tg, b); !bytes.Equal(got, want) {
					rt.Fatalf("%v: the kernel and Inline differ\nframe  %x\nkernel %x\ninline %x", r, head(b), head(got), head(want))
				}
				return
			}
			check(rt, tg, in, b, label, carrier == labeller.FlowLabel)
		})
		compareCounters(t, tg, in)
	}
}

// TestLeftAlone passes frames that must not be touched, and says under which
// name each is counted.
func TestLeftAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	v4 := shape{dst: addr4, qpn: 1, payload: 64, opcode: frame.WriteMiddle}.bytes(t, rng)
	v6 := shape{dst: addr6, qpn: 1, payload: 64, opcode: frame.WriteMiddle}.bytes(t, rng)
	with := func(b []byte, at int, v ...byte) []byte {
		b = bytes.Clone(b)
		copy(b[at:], v)
		return b
	}
	fragment6 := func(offset uint16, next byte) []byte {
		b := with(v6, 14+6, 44)
		h := []byte{next, 0, byte(offset >> 8), byte(offset), 0, 0, 0, 1}
		b = append(b[:54:54], append(h, b[54:]...)...)
		add(b[18:], 8)
		return b
	}
	for _, tt := range []struct {
		name string
		raw  []byte
		want labeller.Reason
	}{
		{"IPv4, first fragment", with(v4, 14+6, 0x20, 0), labeller.Fragment},
		{"IPv4, later fragment", with(v4, 14+6, 0x00, 0x10), labeller.NotRoCE},
		{"IPv4, first fragment to another port", with(with(v4, 14+6, 0x20, 0), 36, 0, 53), labeller.NotRoCE},
		{"IPv6, first fragment", fragment6(1, 17), labeller.Fragment},
		{"IPv6, only fragment", fragment6(0, 17), labeller.Fragment},
		{"IPv6, later fragment", fragment6(8, 17), labeller.NotRoCE},
		{"IPv6, first fragment of TCP", fragment6(1, 6), labeller.NotRoCE},
		{"another UDP port", with(v4, 36, 0, 53), labeller.NotRoCE},
		{"TCP", with(v4, 14+9, 6), labeller.NotRoCE},
		{"ARP", with(v4, 12, 8, 6), labeller.NotRoCE},
		{"UDP length too large", with(v4, 38, 0xff, 0xff), labeller.Malformed},
		{"UDP length too small", with(v6, 58, 0, 12), labeller.Malformed},
		{"IPv4 header length of 4", with(v4, 14, 0x41), labeller.Malformed},
		{"IPv6 version 5", with(v6, 14, 0x50), labeller.Malformed},
		{"cut off", v4[:len(v4)-1], labeller.Malformed},
		{"three tags", append(with(v4[:12:12], 0), append([]byte{0x81, 0, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3}, v4[12:]...)...), labeller.NotRoCE},
		{"another queue pair", with(v4, 42+7, 2), labeller.NoLabel},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tg := loaded(t, Config{})
			in := labellertest.NewInline(labeller.SourcePort, 0)
			for _, dst := range []netip.Addr{addr4, addr6} {
				a := labeller.Assignment{QP: labeller.QP{Dst: dst, Num: 1}, Label: 7}
				if err := errors.Join(tg.Set(a), in.Set(a)); err != nil {
					t.Fatal(err)
				}
			}
			if r := in.Rewrite(bytes.Clone(tt.raw)); r != tt.want {
				t.Errorf("Inline: %v, want %v", r, tt.want)
			}
			if got := pass(t, tg, tt.raw); !bytes.Equal(got, tt.raw) {
				t.Errorf("the frame changed:\n%x\n%x", tt.raw, got)
			}
			compareCounters(t, tg, in)
		})
	}
}

// failer is what *testing.T, *testing.F and *rapid.T have in common.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func compareCounters(t *testing.T, tg *Tagger, in *labellertest.Inline) {
	t.Helper()
	want, err := in.Counters()
	if err != nil {
		t.Fatal(err)
	}
	got, err := tg.Counters()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("counters (-inline +kernel):\n%s", d)
	}
	ws, err := in.Unlabelled()
	if err != nil {
		t.Fatal(err)
	}
	gs, err := tg.Unlabelled()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(counts(ws), counts(gs)); d != "" {
		t.Errorf("unlabelled (-inline +kernel):\n%s", d)
	}
}

func counts(seen []labeller.Seen) map[string]labeller.Count {
	m := map[string]labeller.Count{}
	for _, s := range seen {
		m[s.QP.String()] = s.Count
	}
	return m
}
