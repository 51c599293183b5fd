//go:build verbs && cgo && linux

package verbs

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/verbs/internal/fakeibv"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// TestStructures looks at the C structures that libibverbs is handed. The types,
// constants and sizes are those of its headers; the functions are fakes.
func TestStructures(t *testing.T) {
	l := New(systemWith(fakeibv.Table()), Config{})
	h := Handle(fakeibv.Handle())
	q := labeller.QP{Dst: netip.MustParseAddr("10.0.1.2"), Num: 0xabcdef}
	fakeibv.Fail(0)
	err := l.Connect(h, q, 0x1234, Receive{
		Path: Path{GID: q.Dst.As16(), SourceGID: 3, HopLimit: 64, TrafficClass: 0x6a, ServiceLevel: 4, Port: 2},
		MTU:  1024, PSN: 0xfedcba, MaxDestReads: 16, MinRNRTimer: 12,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := fakeibv.Attributes{
		Calls: 1, Mask: fakeibv.MaskRTR, State: fakeibv.RTR, MTU: fakeibv.MTU1024, DestQP: 0xabcdef,
		FlowLabel: Config{}.FlowLabel(q, 0x1234), ReceivePSN: 0xfedcba, GID: q.Dst.As16(), Global: 1, SourceGID: 3,
		HopLimit: 64, TrafficClass: 0x6a, ServiceLevel: 4, Port: 2, MaxDestReads: 16, MinRNRTimer: 12,
	}
	if d := cmp.Diff(want, fakeibv.Last()); d != "" {
		t.Errorf("RTR (-want +got):\n%s", d)
	}
	if err := l.Start(h, Send{Timeout: 8, RetryCount: 7, RNRRetry: 6, PSN: 0x123456, MaxReads: 5}); err != nil {
		t.Fatal(err)
	}
	want = fakeibv.Attributes{
		Calls: 2, Mask: fakeibv.MaskRTS, State: fakeibv.RTS, SendPSN: 0x123456, Timeout: 8, RetryCount: 7, RNRRetry: 6, MaxReads: 5,
	}
	if d := cmp.Diff(want, fakeibv.Last()); d != "" {
		t.Errorf("RTS (-want +got):\n%s", d)
	}
	if err := l.Set(labeller.Assignment{QP: q, Label: 0x2abc}); err != nil {
		t.Fatal(err)
	}
	if p := fakeibv.SourcePort(); p != 0xEABC {
		t.Errorf("source port %#x", p)
	}
	fakeibv.Fail(int(syscall.EOPNOTSUPP))
	defer fakeibv.Fail(0)
	if err := l.Set(labeller.Assignment{QP: q, Label: 1}); !errors.Is(err, labeller.ErrUnsupported) {
		t.Errorf("a device that cannot: %v", err)
	}
	fakeibv.Fail(-1)
	if err := New(systemWith(fakeibv.Table()), Config{}).Connect(h, q, 1, Receive{Path: Path{GID: q.Dst.As16()}, MTU: 256}); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("an error in errno: %v", err)
	}
}

// TestHeaderAgrees asks libibverbs's own header what port a driver makes of our
// flow labels.
func TestHeaderAgrees(t *testing.T) {
	q := labeller.QP{Dst: netip.MustParseAddr("10.0.1.2")}
	for l := range fabric.Label(1 << fabric.LabelBits) {
		if p := portOf(Config{}.FlowLabel(q, l)); p != frame.SourcePort(l) {
			t.Fatalf("label %#x: port %#x", l, p)
		}
	}
}

// TestLinked checks that the real libraries are there.
func TestLinked(t *testing.T) {
	if _, err := System(); err != nil {
		t.Error(err)
	}
}
