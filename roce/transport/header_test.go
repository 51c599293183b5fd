package transport

import (
	"bytes"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"pgregory.net/rapid"
)

// Every packet an endpoint patches together is what rocev2 encodes from scratch,
// and gopacket finds its lengths and checksums right.
func TestHeaders(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		w := newWorld(t, 2, func(c *Config) { c.IPv6, c.FlowLabel, c.MTU = ipv6, ipv6, 1000 })
		opcodes := map[frame.Opcode]int{}
		lost := false
		w.fate = func(_ fabric.Time, hdr []byte, control bool) fate {
			f := fate{copies: []fabric.Time{0}, mark: opcodes[frame.WriteFirst] == 3}
			if !control && opcodes[frame.WriteMiddle] == 2 && !lost {
				lost = true
				return fate{}
			}
			return f
		}
		w.tap = func(_ fabric.Time, src int, hdr []byte, f Frame) {
			whole := make([]byte, f.Len+f.Tail)
			copy(whole, hdr)
			p, err := frame.Parse(whole)
			if err != nil {
				t.Fatal(err)
			}
			bth := p.BTH()
			opcodes[bth.Opcode()]++
			me, peer := w.hosts[src].me, w.hosts[1-src].me
			want := frame.Stack{
				DstMAC: w.f.MAC(w.f.ToROf(me)), SrcMAC: w.f.MAC(me),
				Src: w.f.HostAddr4(me), Dst: w.f.HostAddr4(peer),
				TTL: 64, SourcePort: 0xc003,
				BTH: frame.BTHFields{
					Opcode: bth.Opcode(), Migration: true, PKey: 0xffff, DestQP: bth.DestQP(), PSN: bth.PSN(),
					AckRequest: bth.AckRequest(), BECN: bth.BECN(),
				},
				PayloadLen: p.PayloadLen(),
			}
			if ipv6 {
				want.Src, want.Dst, want.FlowLabel = w.f.HostAddr6(me), w.f.HostAddr6(peer), 0xfc003
			}
			if f.Control {
				want.AETH = frame.AETHFields{Syndrome: p.AETH().Syndrome(), MSN: p.AETH().MSN()}
			} else {
				want.TrafficClass = 2
				if !bth.AckRequest() {
					t.Error("no ACK requested")
				}
			}
			if bth.Opcode().Starts() {
				want.RETH = frame.RETHFields{VirtualAddress: 0x1122334455667788, Length: p.RETH().Length()}
			}
			var b [MaxHeader]byte
			n, err := want.Encode(b[:])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(b[:n], hdr); diff != "" {
				t.Errorf("%v (-want +got):\n%s", bth.Opcode(), diff)
			}
			if want := want.FrameLen(); want != f.Len+f.Tail {
				t.Errorf("%v: %d bytes, want %d", bth.Opcode(), f.Len+f.Tail, want)
			}
			checkWithGopacket(t, whole)
		}
		for i, bytes := range []int64{1, 3002, 2000, 1000, 4001} {
			w.open(0, Message{QP: QP(i), ID: 0x1122334455667788, Dst: 1, Bytes: bytes, Label: 3})
			w.run(never)
			delete(w.hosts[1].delivered, 0x1122334455667788)
		}
		// 2 only; 3, 1 and 4 packets more; one lost and its followers again.
		for op, least := range map[frame.Opcode]int{
			frame.WriteOnly: 2, frame.WriteFirst: 3, frame.WriteMiddle: 5, frame.WriteLast: 3, frame.Acknowledge: 14,
		} {
			if opcodes[op] < least {
				t.Errorf("%d packets of %v, want at least %d", opcodes[op], op, least)
			}
		}
		if s := w.hosts[0].e.Stats(); s.Marked == 0 || s.NaksTaken != 1 {
			t.Errorf("%+v", s)
		}
	}
}

func checkWithGopacket(t *testing.T, frame []byte) {
	t.Helper()
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	if p.ErrorLayer() != nil {
		t.Fatal(p.ErrorLayer().Error())
	}
	ip, ok := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4)
	if !ok {
		return
	}
	sum := ip.Checksum
	buf := gopacket.NewSerializeBuffer()
	if err := ip.SerializeTo(buf, gopacket.SerializeOptions{ComputeChecksums: true}); err != nil {
		t.Fatal(err)
	}
	if ip.Checksum != sum {
		t.Errorf("IPv4 checksum is %04x, want %04x", sum, ip.Checksum)
	}
}

// Whatever comes in, nothing panics, and nothing is sent to nobody.
func FuzzReceive(f *testing.F) {
	w := newWorld(f, 2, nil)
	var packets [][]byte
	w.tap = func(_ fabric.Time, _ int, hdr []byte, _ Frame) { packets = append(packets, bytes.Clone(hdr)) }
	w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 30_000})
	w.run(never)
	for _, p := range packets {
		f.Add(p, 9004, false)
	}
	six := newWorld(f, 2, func(c *Config) { c.IPv6, c.FlowLabel = true, true })
	six.tap = func(_ fabric.Time, _ int, hdr []byte, fr Frame) { f.Add(bytes.Clone(hdr), fr.Tail, true) }
	six.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 30_000})
	six.run(never)
	f.Fuzz(func(t *testing.T, hdr []byte, tail int, ipv6 bool) {
		w := newWorld(t, 2, func(c *Config) { c.IPv6, c.FlowLabel = ipv6, ipv6 })
		w.open(0, Message{QP: 1, ID: 1, Dst: 1, Bytes: 30_000})
		w.open(1, Message{QP: 1, ID: 1, Dst: 0, Bytes: 30_000})
		for range 3 {
			for _, h := range w.hosts {
				h.e.Receive(w.now, hdr, tail)
			}
			w.step()
		}
		w.fate = func(fabric.Time, []byte, bool) fate { return fate{} }
		w.run(100 * fabric.Microsecond)
	})
}

func TestChecksum(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, b []byte, length int) {
		s := headerStack{udp: etherLen + ipv4Len}
		s.setLength(b, length, s.ipSum(b))
		// RFC 1071: the ones' complement sum over a right header is all ones.
		sum := 0
		for i := etherLen; i < etherLen+ipv4Len; i += 2 {
			sum += int(b[i])<<8 | int(b[i+1])
			if sum > 0xffff {
				sum -= 0xffff
			}
		}
		if sum != 0xffff {
			t.Fatalf("sum %#x of %x", sum, b)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), etherLen+ipv4Len+udpLen, etherLen+ipv4Len+udpLen).Draw(t, "packet")
		check(t, b, rapid.IntRange(0, 65000).Draw(t, "length"))
	})
	// Sums such as 0x1ffff carry when the carry is added.
	b := make([]byte, etherLen+ipv4Len+udpLen)
	b[etherLen], b[etherLen+1], b[etherLen+4], b[etherLen+5] = 0xff, 0xff, 0xff, 0
	for length := range 0x200 {
		check(t, b, length)
	}
}
