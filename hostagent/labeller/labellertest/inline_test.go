package labellertest_test

import (
	"bytes"
	"errors"
	"net/netip"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller/labellertest"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// frame returns a whole RDMA WRITE with a right ICRC.
func raw(t testing.TB, q labeller.QP, payload int, port uint16) []byte {
	t.Helper()
	src := netip.MustParseAddr("10.9.9.9")
	if q.Dst.Is6() {
		src = netip.MustParseAddr("fd00::9")
	}
	s := frame.Stack{
		Src: src, Dst: q.Dst, TTL: 64, SourcePort: port, PayloadLen: payload,
		BTH:  frame.BTHFields{Opcode: frame.WriteOnly, PKey: 0xffff, DestQP: q.Num, PSN: 7},
		RETH: frame.RETHFields{Length: uint32(payload)},
	}
	b := make([]byte, s.FrameLen())
	n, err := s.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range payload {
		b[n+i] = byte(i * 7)
	}
	f, err := frame.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	f.SetICRC()
	return b
}

func TestInline(t *testing.T) {
	v4 := labeller.QP{Dst: netip.MustParseAddr("10.0.1.2"), Num: 0x12b}
	v6 := labeller.QP{Dst: netip.MustParseAddr("fd00::102"), Num: 0x12b}
	other := labeller.QP{Dst: v4.Dst, Num: 0x12c}
	for _, tt := range []struct {
		name      string
		carrier   labeller.Carrier
		qp        labeller.QP
		want      labeller.Reason
		port      uint16
		flowLabel uint32
	}{
		{"IPv4", labeller.FlowLabel, v4, labeller.Labelled, 0xC005, 0},
		{"IPv6, source port", labeller.SourcePort, v6, labeller.Labelled, 0xC005, 0},
		{"IPv6, flow label", labeller.FlowLabel, v6, labeller.Labelled, 0xF123, 0xFC005},
		{"another queue pair", labeller.SourcePort, other, labeller.NoLabel, 0xF123, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := labellertest.NewInline(tt.carrier, 0)
			if err := l.Set(labeller.Assignment{QP: v4, Label: 5}, labeller.Assignment{QP: v6, Label: 5}); err != nil {
				t.Fatal(err)
			}
			b := raw(t, tt.qp, 100, 0xF123)
			if got := l.Rewrite(b); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
			f, err := frame.Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.VerifyICRC(); err != nil {
				t.Error(err)
			}
			if f.SourcePort() != tt.port || f.FlowLabel() != tt.flowLabel {
				t.Errorf("port %#x, flow label %#x, want %#x, %#x", f.SourcePort(), f.FlowLabel(), tt.port, tt.flowLabel)
			}
			one := labeller.Count{Packets: 1, Bytes: uint64(len(b))}
			want := labeller.Counters{Labels: map[fabric.Label]labeller.Count{}}
			want.Reasons[tt.want] = one
			var seen []labeller.Seen
			if tt.want == labeller.Labelled {
				want.Labels[5] = one
			} else {
				seen = []labeller.Seen{{QP: tt.qp, Count: one}}
			}
			got, err := l.Counters()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("counters (-want +got):\n%s", d)
			}
			gotSeen, err := l.Unlabelled()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(seen, gotSeen, cmpopts.IgnoreFields(labeller.Seen{}, "Ago"),
				cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
				t.Errorf("unlabelled (-want +got):\n%s", d)
			}
		})
	}
}

// TestInlineRoundTrip checks that labelling back restores every byte.
func TestInlineRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := labeller.QP{Dst: netip.MustParseAddr("10.0.0.1"), Num: rapid.Uint32Range(0, 1<<24-1).Draw(rt, "qp")}
		a, b := fabric.Label(rapid.IntRange(0, 1<<14-1).Draw(rt, "a")), fabric.Label(rapid.IntRange(0, 1<<14-1).Draw(rt, "b"))
		p := raw(t, q, rapid.IntRange(0, 9000).Draw(rt, "payload"), frame.SourcePort(a))
		before := bytes.Clone(p)
		l := labellertest.NewInline(labeller.SourcePort, 0)
		for _, label := range []fabric.Label{b, a} {
			if err := l.Set(labeller.Assignment{QP: q, Label: label}); err != nil {
				rt.Fatal(err)
			}
			if got := l.Rewrite(p); got != labeller.Labelled {
				rt.Fatal(got)
			}
		}
		if !bytes.Equal(p, before) {
			rt.Fatal("the frame is not what it was")
		}
	})
}

func TestInvalid(t *testing.T) {
	l := labellertest.NewInline(labeller.SourcePort, 1)
	ok := labeller.QP{Dst: netip.MustParseAddr("10.0.0.1"), Num: 1}
	for _, tt := range []struct {
		name string
		a    labeller.Assignment
		want error
	}{
		{"no address", labeller.Assignment{}, labeller.ErrInvalid},
		{"a zone", labeller.Assignment{QP: labeller.QP{Dst: netip.MustParseAddr("fe80::1%eth0")}}, labeller.ErrInvalid},
		{"25-bit number", labeller.Assignment{QP: labeller.QP{Dst: ok.Dst, Num: 1 << 24}}, labeller.ErrInvalid},
		{"15-bit label", labeller.Assignment{QP: ok, Label: 1 << 14}, labeller.ErrInvalid},
		{"fits", labeller.Assignment{QP: ok, Label: 1<<14 - 1}, nil},
		{"again", labeller.Assignment{QP: ok, Label: 3}, nil},
		{"no room", labeller.Assignment{QP: labeller.QP{Dst: ok.Dst, Num: 2}}, labeller.ErrFull},
	} {
		if err := l.Set(tt.a); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	as, err := l.Assignments()
	if err != nil || len(as) != 1 || as[0] != (labeller.Assignment{QP: ok, Label: 3}) {
		t.Errorf("assignments %v, %v", as, err)
	}
}

// TestForgetsOldest floods a labeller with queue pairs nobody labels.
func TestForgetsOldest(t *testing.T) {
	l := labellertest.NewInline(labeller.SourcePort, 0)
	for i := range uint32(2000) {
		l.Rewrite(raw(t, labeller.QP{Dst: netip.MustParseAddr("10.0.0.1"), Num: i}, 0, 0xC000))
	}
	seen, err := l.Unlabelled()
	if err != nil || len(seen) != 1024 {
		t.Fatalf("%d, %v: want 1024", len(seen), err)
	}
}

// TestConcurrent has labels set and cleared while packets pass; every packet
// leaves with the old label or the new and a right ICRC.
func TestConcurrent(t *testing.T) {
	q := labeller.QP{Dst: netip.MustParseAddr("10.0.0.1"), Num: 1}
	l := labellertest.NewInline(labeller.SourcePort, 0)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 2000 {
			if err := l.Set(labeller.Assignment{QP: q, Label: fabric.Label(i % 4)}); err != nil {
				t.Error(err)
			}
			if i%16 == 0 {
				l.Clear(q)
				l.Counters()
				l.Unlabelled()
			}
		}
	})
	for range 2 {
		wg.Go(func() {
			p := raw(t, q, 64, frame.SourcePort(0))
			for range 2000 {
				l.Rewrite(p)
				f, err := frame.Parse(p)
				if err != nil {
					t.Error(err)
					return
				}
				if err := f.VerifyICRC(); err != nil || f.SourcePort() > frame.SourcePort(3) {
					t.Error(err, f.SourcePort())
					return
				}
			}
		})
	}
	wg.Wait()
}

// FuzzRewrite checks that no frame makes it panic, and that what is not
// labelled is not touched.
func FuzzRewrite(f *testing.F) {
	q := labeller.QP{Dst: netip.MustParseAddr("10.0.0.1"), Num: 1}
	f.Add(raw(f, q, 100, 0xC000))
	f.Add(raw(f, labeller.QP{Dst: netip.MustParseAddr("fd00::1"), Num: 1}, 0, 0xC000))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := labellertest.NewInline(labeller.SourcePort, 0)
		if fr, err := frame.ParseTransport(b); err == nil {
			fr.Payload()
			if err := l.Set(labeller.Assignment{QP: labeller.QP{Dst: fr.Destination(), Num: fr.BTH().DestQP()}, Label: 9}); err != nil {
				t.Fatal(err)
			}
		}
		before := bytes.Clone(b)
		if r := l.Rewrite(b); r != labeller.Labelled && !bytes.Equal(b, before) {
			t.Fatalf("%v, but the frame changed", r)
		}
	})
}
