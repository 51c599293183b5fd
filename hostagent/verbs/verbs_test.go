package verbs_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/verbs"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// fake is a device that follows the verbs' state machine and keeps the calls.
type fake struct {
	calls []string
	state map[verbs.Handle]string
	port  map[verbs.Handle]uint16
	fail  error // of the next call
	old   bool  // cannot change the source port
}

func newFake() *fake {
	return &fake{state: map[verbs.Handle]string{}, port: map[verbs.Handle]uint16{}}
}

func (f *fake) call(format string, args ...any) error {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	err := f.fail
	f.fail = nil
	return err
}

// portOf is ibv_flow_label_to_udp_sport.
func portOf(fl uint32) uint16 {
	return uint16(fl&0x3fff ^ fl&0xfc000>>14 | 0xc000)
}

func (f *fake) ReadyToReceive(h verbs.Handle, destQP, flowLabel uint32, r verbs.Receive) error {
	if err := f.call("RTR qp=%#x flow=%#x mtu=%d psn=%d", destQP, flowLabel, r.MTU, r.PSN); err != nil {
		return err
	}
	if f.state[h] != "" {
		return syscall.EINVAL
	}
	f.state[h] = "RTR"
	f.port[h] = portOf(flowLabel)
	return nil
}

func (f *fake) ReadyToSend(h verbs.Handle, s verbs.Send) error {
	if err := f.call("RTS psn=%d timeout=%d", s.PSN, s.Timeout); err != nil {
		return err
	}
	if f.state[h] != "RTR" {
		return syscall.EINVAL
	}
	f.state[h] = "RTS"
	return nil
}

func (f *fake) SetSourcePort(h verbs.Handle, port uint16) error {
	if err := f.call("sport %#x", port); err != nil {
		return err
	}
	if f.old || f.state[h] != "RTS" {
		return syscall.EOPNOTSUPP // what libmlx5 says outside RTS, too
	}
	f.port[h] = port
	return nil
}

var (
	qp4 = labeller.QP{Dst: netip.MustParseAddr("10.0.1.2"), Num: 0x12b}
	qp6 = labeller.QP{Dst: netip.MustParseAddr("fd00::1:2"), Num: 0x12c}
)

func handle() verbs.Handle { return verbs.Handle(unsafe.Pointer(new(int64))) }

func receive(q labeller.QP) verbs.Receive {
	return verbs.Receive{Path: verbs.Path{GID: q.Dst.As16(), Port: 1, HopLimit: 64}, MTU: 4096, PSN: 7, MaxDestReads: 1, MinRNRTimer: 12}
}

// TestCalls checks the calls and their order.
func TestCalls(t *testing.T) {
	send := verbs.Send{Timeout: 8, RetryCount: 7, RNRRetry: 7, PSN: 9, MaxReads: 1}
	set := func(q labeller.QP, l fabric.Label) labeller.Assignment { return labeller.Assignment{QP: q, Label: l} }
	for _, tt := range []struct {
		name   string
		config verbs.Config
		old    bool
		run    func(*verbs.Labeller, verbs.Handle) error
		calls  []string
		port   uint16
		err    error
		set    []labeller.Assignment
	}{
		{
			name: "labelled from the start",
			run: func(l *verbs.Labeller, h verbs.Handle) error {
				return errors.Join(l.Connect(h, qp4, 5, receive(qp4)), l.Start(h, send))
			},
			calls: []string{"RTR qp=0x12b flow=0xfc03a mtu=4096 psn=7", "RTS psn=9 timeout=8"},
			port:  0xC005, set: []labeller.Assignment{set(qp4, 5)},
		},
		{
			name: "flipped in RTS",
			run: func(l *verbs.Labeller, h verbs.Handle) error {
				return errors.Join(l.Connect(h, qp4, 5, receive(qp4)), l.Start(h, send), l.Set(set(qp4, 6)), l.Set(set(qp4, 6)), l.Set(set(qp4, 0)))
			},
			calls: []string{"RTR qp=0x12b flow=0xfc03a mtu=4096 psn=7", "RTS psn=9 timeout=8", "sport 0xc006", "sport 0xc000"},
			port:  0xC000, set: []labeller.Assignment{set(qp4, 0)},
		},
		{
			name: "flipped between RTR and RTS",
			run: func(l *verbs.Labeller, h verbs.Handle) error {
				return errors.Join(l.Connect(h, qp4, 5, receive(qp4)), l.Set(set(qp4, 6)), l.Set(set(qp4, 8)), l.Start(h, send))
			},
			calls: []string{"RTR qp=0x12b flow=0xfc03a mtu=4096 psn=7", "RTS psn=9 timeout=8", "sport 0xc008"},
			port:  0xC008, set: []labeller.Assignment{set(qp4, 8)},
		},
		{
			name: "a device that cannot flip", old: true,
			run: func(l *verbs.Labeller, h verbs.Handle) error {
				return errors.Join(l.Connect(h, qp4, 5, receive(qp4)), l.Start(h, send), l.Set(set(qp4, 6)))
			},
			calls: []string{"RTR qp=0x12b flow=0xfc03a mtu=4096 psn=7", "RTS psn=9 timeout=8", "sport 0xc006"},
			port:  0xC005, err: labeller.ErrUnsupported, set: []labeller.Assignment{set(qp4, 5)},
		},
		{
			name: "such a device, between RTR and RTS", old: true,
			run: func(l *verbs.Labeller, h verbs.Handle) error {
				return errors.Join(l.Connect(h, qp4, 5, receive(qp4)), l.Set(set(qp4, 6)), l.Start(h, send))
			},
			calls: []string{"RTR qp=0x12b flow=0xfc03a mtu=4096 psn=7", "RTS psn=9 timeout=8", "sport 0xc006"},
			port:  0xC005, err: labeller.ErrUnsupported, set: []labeller.Assignment{set(qp4, 5)},
		},
		{
			name: "IPv6, source port",
			run: func(l *verbs.Labeller, h verbs.Handle) error {
				return errors.Join(l.Connect(h, qp6, 0, receive(qp6)), l.Start(h, send))
			},
			calls: []string{"RTR qp=0x12c flow=0xfc03f mtu=4096 psn=7", "RTS psn=9 timeout=8"},
			port:  0xC000, set: []labeller.Assignment{set(qp6, 0)},
		},
		{
			name: "IPv6, flow label", config: verbs.Config{IPv6: labeller.FlowLabel},
			run: func(l *verbs.Labeller, h verbs.Handle) error {
				return errors.Join(l.Connect(h, qp6, 5, receive(qp6)), l.Start(h, send), l.Set(set(qp6, 5)), l.Set(set(qp6, 6)))
			},
			calls: []string{"RTR qp=0x12c flow=0xfc005 mtu=4096 psn=7", "RTS psn=9 timeout=8"},
			port:  0xC03A, err: labeller.ErrUnsupported, set: []labeller.Assignment{set(qp6, 5)},
		},
		{
			name: "IPv4 beside IPv6 flow labels", config: verbs.Config{IPv6: labeller.FlowLabel},
			run: func(l *verbs.Labeller, h verbs.Handle) error {
				return errors.Join(l.Connect(h, qp4, 5, receive(qp4)), l.Start(h, send), l.Set(set(qp4, 6)))
			},
			calls: []string{"RTR qp=0x12b flow=0xfc03a mtu=4096 psn=7", "RTS psn=9 timeout=8", "sport 0xc006"},
			port:  0xC006, set: []labeller.Assignment{set(qp4, 6)},
		},
		{
			name:  "unknown",
			run:   func(l *verbs.Labeller, _ verbs.Handle) error { return l.Set(set(qp4, 6)) },
			err:   labeller.ErrUnknownQP,
			calls: nil,
		},
		{
			name: "GID of another", err: labeller.ErrInvalid,
			run: func(l *verbs.Labeller, h verbs.Handle) error { return l.Connect(h, qp4, 1, receive(qp6)) },
		},
		{
			name: "twice", err: labeller.ErrInvalid,
			run: func(l *verbs.Labeller, h verbs.Handle) error {
				return errors.Join(l.Connect(h, qp4, 5, receive(qp4)), l.Connect(h, qp6, 5, receive(qp6)))
			},
			calls: []string{"RTR qp=0x12b flow=0xfc03a mtu=4096 psn=7"},
			port:  0xC005, set: []labeller.Assignment{set(qp4, 5)},
		},
		{
			name: "started before it is connected", err: labeller.ErrUnknownQP,
			run: func(l *verbs.Labeller, h verbs.Handle) error { return l.Start(h, send) },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake()
			f.old = tt.old
			l, h := verbs.New(f, tt.config), handle()
			if err := tt.run(l, h); !errors.Is(err, tt.err) || tt.err == nil && err != nil {
				t.Errorf("%v, want %v", err, tt.err)
			}
			if d := cmp.Diff(tt.calls, f.calls); d != "" {
				t.Errorf("calls (-want +got):\n%s", d)
			}
			if f.port[h] != tt.port {
				t.Errorf("port %#x, want %#x", f.port[h], tt.port)
			}
			as, err := l.Assignments()
			if err != nil || !slices.Equal(as, tt.set) {
				t.Errorf("assignments %v, %v, want %v", as, err, tt.set)
			}
		})
	}
}

// TestBind labels a queue pair that a library connected itself.
func TestBind(t *testing.T) {
	f := newFake()
	l, h := verbs.New(f, verbs.Config{}), handle()
	f.state[h], f.port[h] = "RTS", 0xD123
	a := labeller.Assignment{QP: qp4, Label: 3}
	if err := errors.Join(l.Bind(h, qp4), l.Set(a)); err != nil {
		t.Fatal(err)
	}
	if f.port[h] != 0xC003 {
		t.Errorf("port %#x", f.port[h])
	}
	l.Unbind(h)
	if err := l.Set(a); !errors.Is(err, labeller.ErrUnknownQP) {
		t.Errorf("after Unbind: %v", err)
	}
	if err := l.Bind(h, qp6); err != nil {
		t.Errorf("the handle, used again: %v", err)
	}
	if _, err := l.Counters(); !errors.Is(err, labeller.ErrUnsupported) {
		t.Errorf("counters: %v", err)
	}
}

// TestFailures has each call fail: the labeller must not believe that it did
// what it did not, and trying again must work.
func TestFailures(t *testing.T) {
	f := newFake()
	l, h := verbs.New(f, verbs.Config{}), handle()
	a := labeller.Assignment{QP: qp4, Label: 9}
	for _, step := range []func() error{
		func() error { return l.Connect(h, qp4, 5, receive(qp4)) },
		func() error { return l.Start(h, verbs.Send{}) },
		func() error { return l.Set(a) },
	} {
		f.fail = syscall.ENOMEM
		if err := step(); !errors.Is(err, syscall.ENOMEM) || errors.Is(err, labeller.ErrUnsupported) {
			t.Fatal(err)
		}
		if err := step(); err != nil {
			t.Fatalf("again: %v", err)
		}
	}
	if f.port[h] != 0xC009 {
		t.Errorf("port %#x", f.port[h])
	}
}

// TestFlowLabel checks that the device makes of every label's flow label the
// source port that switches expect.
func TestFlowLabel(t *testing.T) {
	for l := range fabric.Label(1 << fabric.LabelBits) {
		fl := verbs.Config{}.FlowLabel(qp4, l)
		if fl == 0 || fl >= 1<<20 || portOf(fl) != frame.SourcePort(l) {
			t.Fatalf("label %#x: flow label %#x, port %#x", l, fl, portOf(fl))
		}
		fl = verbs.Config{IPv6: labeller.FlowLabel}.FlowLabel(qp6, l)
		if got, ok := frame.LabelOfFlowLabel(fl); !ok || got != l {
			t.Fatalf("label %#x: IPv6 flow label %#x", l, fl)
		}
	}
}

// TestAnySequence makes random calls: what the labeller says is set is what the
// device sends.
func TestAnySequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFake()
		l := verbs.New(f, verbs.Config{})
		hs := []verbs.Handle{handle(), handle(), handle()}
		qs := []labeller.QP{qp4, qp6, {Dst: qp4.Dst, Num: 1}}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			i := rapid.IntRange(0, 2).Draw(t, "qp")
			label := fabric.Label(rapid.IntRange(0, 1<<14-1).Draw(t, "label"))
			if rapid.IntRange(0, 9).Draw(t, "fail") == 0 {
				f.fail = syscall.ENOMEM
			}
			switch rapid.IntRange(0, 2).Draw(t, "call") {
			case 0:
				l.Connect(hs[i], qs[i], label, receive(qs[i]))
			case 1:
				l.Start(hs[i], verbs.Send{})
			case 2:
				l.Set(labeller.Assignment{QP: qs[i], Label: label})
			}
			f.fail = nil
		}
		as, err := l.Assignments()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range as {
			h := hs[slices.Index(qs, a.QP)]
			if f.state[h] == "RTS" && f.port[h] != frame.SourcePort(a.Label) {
				t.Fatalf("%v: set to %d, the device sends port %#x", a.QP, a.Label, f.port[h])
			}
		}
	})
}

func TestSystemWithoutTag(t *testing.T) {
	if _, err := verbs.System(); err != nil && !errors.Is(err, labeller.ErrUnsupported) {
		t.Error(err)
	}
}
