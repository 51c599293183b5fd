package frame

import (
	"fmt"
	"net/netip"
	"testing"
)

func benchFrame(b *testing.B, payload int) (Stack, Frame) {
	s := Stack{
		Src: netip.MustParseAddr("10.0.0.2"), Dst: netip.MustParseAddr("10.0.1.2"), TTL: 64, SourcePort: 0xC001,
		BTH: BTHFields{Opcode: WriteMiddle, PKey: DefaultPKey, DestQP: 5, PSN: 6}, PayloadLen: payload,
	}
	return s, mustParse(b, build(b, &s, 11))
}

func BenchmarkICRC(b *testing.B) {
	for _, n := range []int{0, 1024, 9000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, f := benchFrame(b, n)
			b.SetBytes(int64(f.Len()))
			b.ReportAllocs()
			for b.Loop() {
				f.SetICRC()
			}
		})
	}
}

func BenchmarkSetSourcePort(b *testing.B) {
	for _, n := range []int{0, 1024, 9000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, f := benchFrame(b, n)
			b.ReportAllocs()
			var port uint16
			for b.Loop() {
				port++
				f.SetSourcePort(0xC000 | port)
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	s, _ := benchFrame(b, 9000)
	buf := make([]byte, MaxHeaders)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Encode(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	_, f := benchFrame(b, 9000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(f.b); err != nil {
			b.Fatal(err)
		}
	}
}
