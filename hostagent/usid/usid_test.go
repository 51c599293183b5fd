package usid

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

func newFabric(t testing.TB) *fabric.Fabric {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// frame is a whole RoCEv2 frame from host 0.
func raw(t testing.TB, f *fabric.Fabric, dst fabric.NodeID, l fabric.Label, v6 bool) []byte {
	t.Helper()
	s := frame.Stack{
		DstMAC: f.MAC(f.ToROf(0)), SrcMAC: f.MAC(0), Src: f.HostAddr4(0), Dst: f.HostAddr4(dst), TrafficClass: 2, TTL: 64,
		SourcePort: frame.SourcePort(l), BTH: frame.BTHFields{Opcode: frame.WriteOnly}, PayloadLen: 100,
	}
	if v6 {
		s.Src, s.Dst = f.HostAddr6(0), f.HostAddr6(dst)
	}
	b := make([]byte, s.FrameLen())
	if _, err := s.Encode(b); err != nil {
		t.Fatal(err)
	}
	x, err := frame.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	x.SetICRC()
	return b
}

// TestWrap: every label leads over the switches of its path, and what is unwrapped is what was wrapped.
func TestWrap(t *testing.T) {
	f := newFabric(t)
	e, err := New(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	for dst := fabric.NodeID(1); int(dst) < f.Hosts(); dst++ {
		labels := append(f.PathLabels(f.ToROf(0), f.ToROf(dst)), f.LabelSpan())
		for i, l := range labels {
			for _, v6 := range []bool{false, true} {
				whole := raw(t, f, dst, l, v6)
				b := append(slices.Clone(whole), make([]byte, HeaderSize)...)
				if n := e.Wrap(b, len(whole), len(whole)); n != len(b) {
					t.Fatalf("%d bytes, want %d", n, len(b))
				}
				want := f.HostAddr6(dst)
				if i < len(labels)-1 { // the last names no path
					ids, _ := f.Segments(nil, 0, dst, l)
					want = fabric.SID(ids...)
				}
				if got := netip.AddrFrom16([16]byte(b[etherSize+24:])); got != want {
					t.Errorf("host %d, label %d: to %v, want %v", dst, l, got, want)
				}
				if got := int(b[etherSize+4])<<8 | int(b[etherSize+5]); got != len(whole)-etherSize {
					t.Errorf("payload length %d, want %d", got, len(whole)-etherSize)
				}
				out := Unwrap(b)
				if !bytes.Equal(out, whole) {
					t.Errorf("host %d, label %d: unwrapped\n%x, was\n%x", dst, l, out, whole)
				}
			}
		}
	}
}

// TestUnwrapKeepsMark: a mark of congestion in the outer header is one in the inner.
func TestUnwrapKeepsMark(t *testing.T) {
	f := newFabric(t)
	e, err := New(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, v6 := range []bool{false, true} {
		whole := raw(t, f, 9, 1, v6)
		b := append(slices.Clone(whole), make([]byte, HeaderSize)...)
		e.Wrap(b, len(whole), len(whole))
		b[etherSize+1] |= ecnCE << 4
		x, err := frame.Parse(Unwrap(b))
		if err != nil {
			t.Fatal(err)
		}
		if !x.CE() {
			t.Errorf("IPv6 %v: the mark is lost", v6)
		}
		if err := x.VerifyICRC(); err != nil {
			t.Error(err)
		}
	}
}

// TestUnwrapNotice: what a host puts into an outer header comes out of it as RoCEv2 or not at all, so that it cannot
// say what only switches say.
func TestUnwrapNotice(t *testing.T) {
	ip := append([]byte{0: 0x45, 3: 28 + frame.QuenchSize, 8: 64, 9: 17, 15: 0}, 0, 224, 0, 0, 1)
	ip = slices.Replace(ip, 15, len(ip), 0, 224, 0, 0, 1) // from 0.0.0.0
	port := []byte{frame.QuenchPort >> 8, frame.QuenchPort & 255}
	ip = slices.Concat(ip, port, port, []byte{0, 8 + frame.QuenchSize, 0, 0})
	q := frame.Quench{Notice: true, Dst: netip.IPv4Unspecified(), Switch: 16, Port: 3, Epoch: 5}
	ip = q.Append(ip)
	bare := slices.Concat(make([]byte, 12), []byte{8, 0}, ip)
	if _, ok := frame.NoticePayload(bare); !ok {
		t.Fatalf("%x is no notice", bare)
	}
	outer := make([]byte, etherSize+HeaderSize)
	outer[12], outer[13], outer[14], outer[19], outer[20] = 0x86, 0xdd, 0x60, byte(len(ip)), nextIPv4
	if _, ok := frame.NoticePayload(Unwrap(append(outer, ip...))); ok {
		t.Error("a host's notice is believed")
	}
}

// TestWrapTagged: a tagged frame stays as it is.
func TestWrapTagged(t *testing.T) {
	f := newFabric(t)
	e, err := New(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	plain := raw(t, f, 9, 1, false)
	tagged := slices.Concat(plain[:12], []byte{0x81, 0, 0, 5}, plain[12:])
	b := append(slices.Clone(tagged), make([]byte, HeaderSize)...)
	if n := e.Wrap(b, len(tagged), len(tagged)); n != len(tagged) || !bytes.Equal(b[:n], tagged) {
		t.Errorf("%d bytes of %d: %x", n, len(tagged), b[:60])
	}
}

func FuzzUnwrap(f *testing.F) {
	fab := newFabric(f)
	e, err := New(fab, 0)
	if err != nil {
		f.Fatal(err)
	}
	whole := raw(f, fab, 9, 1, true)
	b := append(slices.Clone(whole), make([]byte, HeaderSize)...)
	e.Wrap(b, len(whole), len(whole))
	f.Add(whole)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		n := len(b)
		if out := Unwrap(b); len(out) != n && len(out) != n-HeaderSize {
			t.Errorf("%d bytes of %d", len(out), n)
		}
		b = append(b, make([]byte, HeaderSize)...)
		if m := e.Wrap(b, n, n); m != n && m != n+HeaderSize {
			t.Errorf("%d bytes of %d", m, n)
		}
	})
}
