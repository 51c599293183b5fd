//go:build linux

package tagger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller/labellertest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// TestEveryLength sends datagrams with payloads of every length to 9,000 bytes
// over a veth pair, in one piece and in several, and compares what arrives with
// the ICRC and checksum made anew and with Inline.
func TestEveryLength(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 97
	}
	for _, hook := range []Hook{TCX, Clsact} {
		t.Run(hook.String(), func(t *testing.T) {
			w := newWire(t)
			tg := w.attach(Config{Hook: hook})
			defer tg.Close()
			if tg.Hook() != hook {
				t.Errorf("attached to %v", tg.Hook())
			}
			in := labellertest.NewInline(labeller.SourcePort, 0)
			rng := rand.New(rand.NewPCG(5, 6))
			n := 0
			for _, dst := range []netip.Addr{addr4, addr6} {
				a := labeller.Assignment{QP: labeller.QP{Dst: dst, Num: 77}, Label: 0x1337}
				if err := errors.Join(tg.Set(a), in.Set(a)); err != nil {
					t.Fatal(err)
				}
				for payload := 0; payload <= 9000; payload += step {
					s := shape{dst: dst, qpn: 77, port: uint16(rng.Uint32()), payload: payload, opcode: frame.WriteMiddle,
						odd: payload&7 < 4, checksum: payload&1 == 0, tags: payload >> 3 % 3}
					b := s.bytes(t, rng)
					want := bytes.Clone(b)
					in.Rewrite(want)
					var v vnet
					if payload>>1&1 != payload>>6&1 {
						v.linear = 14 // of a page and more: the rest in pieces
					}
					w.put(b, v)
					got, _ := w.get()
					if s.tags > 0 { // the receiver's stack takes the outer tag out
						want = append(want[:12:12], want[16:]...)
					}
					if !bytes.Equal(got, want) {
						t.Fatalf("%+v:\nwant %x\ngot  %x", s, head(want), head(got))
					}
					f, err := frame.ParseTransport(got)
					if err != nil {
						t.Fatal(err)
					}
					if err := f.VerifyICRC(); err != nil {
						t.Fatalf("%+v: %v", s, err)
					}
					n++
				}
			}
			t.Logf("%d datagrams", n)
			compareLabels(t, tg, in)
		})
	}
}

// compareLabels compares only the labels' counters: the stack may have sent
// something of its own.
func compareLabels(t *testing.T, tg *Tagger, in *labellertest.Inline) {
	t.Helper()
	want, err := in.Counters()
	if err != nil {
		t.Fatal(err)
	}
	got, err := tg.Counters()
	if err != nil {
		t.Fatal(err)
	}
	for l, n := range want.Labels {
		if got.Labels[l] != n {
			t.Errorf("label %d: %+v, want %+v", l, got.Labels[l], n)
		}
	}
	if got.Reasons[labeller.Failed].Packets != 0 {
		t.Errorf("failed: %+v", got.Reasons[labeller.Failed])
	}
}

// TestChecksumOffload sends datagrams whose UDP checksum the interface is to
// complete: it must still come out right.
func TestChecksumOffload(t *testing.T) {
	w := newWire(t)
	tg := w.attach(Config{})
	defer tg.Close()
	for _, dst := range []netip.Addr{addr4, addr6} {
		a := labeller.Assignment{QP: labeller.QP{Dst: dst, Num: 5}, Label: 0x0abc}
		if err := tg.Set(a); err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(7, 8))
		for payload := range 64 {
			s := shape{dst: dst, qpn: 5, port: 0xF00D, payload: payload, odd: true, checksum: true, opcode: frame.WriteMiddle}
			b := s.bytes(t, rng)
			ip, udp := 14, 34
			if dst.Is6() {
				udp = 54
			}
			// The field holds the pseudo header's sum: what is left of the
			// checksum when the covered bytes are taken away.
			pseudo := ^udpChecksum(b[ip:], append(bytes.Clone(b[udp:udp+4]), make([]byte, len(b)-udp-4)...))
			ports := binary.BigEndian.Uint16(b[udp:])
			pseudo = sub16(sub16(pseudo, ports), binary.BigEndian.Uint16(b[udp+2:]))
			binary.BigEndian.PutUint16(b[udp+6:], pseudo)
			w.put(b, vnet{partial: true, checksum: udp})
			got, partial := w.get()
			if !partial {
				t.Fatal("the checksum was completed on the way: the test tests nothing")
			}
			if f := binary.BigEndian.Uint16(got[udp+6:]); f != pseudo {
				t.Fatalf("payload %d: the field changed from %#04x to %#04x", payload, pseudo, f)
			}
			f, err := frame.ParseTransport(got)
			if err != nil {
				t.Fatal(err)
			}
			if f.SourcePort() != frame.SourcePort(a.Label) {
				t.Fatalf("port %#x", f.SourcePort())
			}
			if err := f.VerifyICRC(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// sub16 subtracts in ones' complement.
func sub16(a, b uint16) uint16 {
	s := uint32(a) + uint32(^b)
	return uint16(s&0xffff + s>>16)
}

// TestFlip changes a queue pair's label over and over while its packets pass.
// Every packet has a label that was set and a right ICRC; the packet after Set
// has the new one.
func TestFlip(t *testing.T) {
	w := newWire(t)
	tg := w.attach(Config{})
	defer tg.Close()
	rng := rand.New(rand.NewPCG(9, 10))
	q := labeller.QP{Dst: addr4, Num: 0xfffffe}
	b := shape{dst: addr4, qpn: q.Num, port: 0xC000, payload: 1024, opcode: frame.WriteMiddle}.bytes(t, rng)
	judge := func() fabric.Label {
		got, _ := w.get()
		f, err := frame.Parse(got)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.VerifyICRC(); err != nil {
			t.Fatal(err)
		}
		l, _ := frame.LabelOfSourcePort(f.SourcePort())
		return l
	}
	for i := range 500 {
		want := fabric.Label(rng.IntN(1 << 14))
		if err := tg.Set(labeller.Assignment{QP: q, Label: want}); err != nil {
			t.Fatal(err)
		}
		w.put(b, vnet{})
		if got := judge(); got != want {
			t.Fatalf("flip %d: label %d, want %d", i, got, want)
		}
	}
	// Now from another thread. Maps are not of a network namespace.
	var stop atomic.Bool
	var flips int
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			if err := tg.Set(labeller.Assignment{QP: q, Label: fabric.Label(flips & 1)}); err != nil {
				t.Error(err)
				return
			}
			flips++
		}
	})
	defer wg.Wait()
	defer stop.Store(true)
	n, saw := 5000, map[fabric.Label]int{}
	if testing.Short() {
		n = 500
	}
	// The last label of the first half is still in force until the first flip.
	for range n {
		w.put(b, vnet{})
		saw[judge()]++
	}
	stop.Store(true)
	wg.Wait()
	if len(saw) > 3 || saw[0]+saw[1] == 0 {
		t.Errorf("labels seen: %v", saw)
	}
	t.Logf("%d flips under %d packets: labels %v", flips, n, saw)
	w.put(b, vnet{}) // the last flip may have come behind the last packet
	judge()
	for i, want := range []int{0, 1} { // used by that; then not
		if idle, err := tg.Unused(); err != nil || len(idle) != want {
			t.Errorf("call %d of Unused: %v, %v", i, idle, err)
		}
	}
	if err := tg.Clear(q); err != nil {
		t.Fatal(err)
	}
	w.put(b, vnet{})
	if got, _ := w.get(); !bytes.Equal(got, b) {
		t.Error("labelled after Clear")
	}
	seen, err := tg.Unlabelled()
	if err != nil || len(seen) != 1 || seen[0].QP != q {
		t.Errorf("unlabelled: %v, %v", seen, err)
	}
}

// TestRestart closes a tagger that pins, and attaches again: the kernel goes on
// labelling in between, and the second process finds what the first one set.
func TestRestart(t *testing.T) {
	for _, hook := range []Hook{TCX, Clsact} {
		t.Run(hook.String(), func(t *testing.T) {
			w := newWire(t)
			c := Config{Hook: hook, PinDir: filepath.Join(w.mountBPF(), "ethereal")}
			q := labeller.QP{Dst: addr4, Num: 9}
			b := shape{dst: addr4, qpn: 9, port: 0xC000, payload: 100, opcode: frame.WriteMiddle}.bytes(t, rand.New(rand.NewPCG(1, 1)))
			sends := func(want uint16) {
				t.Helper()
				w.put(b, vnet{})
				got, _ := w.get()
				if f, err := frame.Parse(got); err != nil || f.SourcePort() != want {
					t.Fatalf("port %#x, %v, want %#x", f.SourcePort(), err, want)
				}
			}
			tg := w.attach(c)
			a := labeller.Assignment{QP: q, Label: 3}
			w.must(tg.Set(a))
			sends(0xC003)
			w.must(tg.Close())
			sends(0xC003)
			again := w.attach(c)
			as, err := again.Assignments()
			if err != nil || len(as) != 1 || as[0] != a {
				t.Fatalf("after the restart: %v, %v", as, err)
			}
			sends(0xC003)
			n, err := again.Counters()
			if err != nil || n.Labels[3].Packets != 3 {
				t.Errorf("counters %v, %v: want 3 packets", n.Labels, err)
			}
			w.must(again.Set(labeller.Assignment{QP: q, Label: 4}))
			sends(0xC004)
			w.must(again.Remove())
			sends(0xC000)
			if _, err := os.Stat(c.PinDir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the pin directory is still there: %v", err)
			}
			// Another size of map than the pinned one has.
			w.must(w.attach(c).Close())
			c.QPs, c.Interfaces = 10, []string{"left"}
			if _, err := Attach(c); !errors.Is(err, labeller.ErrInvalid) {
				t.Errorf("other maps pinned: %v", err)
			}
		})
	}
}

// TestKilled leaves a classifier behind, as a killed process does: the next
// Attach must replace it, not join it.
func TestKilled(t *testing.T) {
	w := newWire(t)
	first := w.attach(Config{Hook: Clsact})
	q := labeller.QP{Dst: addr4, Num: 9}
	w.must(first.Set(labeller.Assignment{QP: q, Label: 3}))
	second := w.attach(Config{Hook: Clsact})
	w.must(second.Set(labeller.Assignment{QP: q, Label: 4}))
	filters, err := netlink.FilterList(w.left, netlink.HANDLE_MIN_EGRESS)
	w.must(err)
	if len(filters) != 1 {
		t.Errorf("%d classifiers: %v", len(filters), filters)
	}
	b := shape{dst: addr4, qpn: 9, port: 0xC000, payload: 100, opcode: frame.WriteMiddle}.bytes(t, rand.New(rand.NewPCG(1, 1)))
	w.put(b, vnet{})
	got, _ := w.get()
	if f, err := frame.Parse(got); err != nil || f.SourcePort() != 0xC004 {
		t.Errorf("port %#x, %v", f.SourcePort(), err)
	}
	w.must(second.Close())
	filters, err = netlink.FilterList(w.left, netlink.HANDLE_MIN_EGRESS)
	w.must(err)
	if len(filters) != 0 {
		t.Errorf("classifiers after Close: %v", filters)
	}
	w.must(first.Close())
}

// TestFull fills the map.
func TestFull(t *testing.T) {
	w := newWire(t)
	tg := w.attach(Config{QPs: 4})
	defer tg.Close()
	for i := range uint32(4) {
		w.must(tg.Set(labeller.Assignment{QP: labeller.QP{Dst: addr6, Num: i}, Label: 1}))
	}
	if err := tg.Set(labeller.Assignment{QP: labeller.QP{Dst: addr6, Num: 4}}); !errors.Is(err, labeller.ErrFull) {
		t.Errorf("fifth queue pair: %v", err)
	}
	w.must(tg.Set(labeller.Assignment{QP: labeller.QP{Dst: addr6, Num: 3}, Label: 2}))
}

func TestRefused(t *testing.T) {
	w := newWire(t)
	w.attach(Config{}).Close() // or skip
	for _, tt := range []struct {
		name string
		c    Config
		want error
	}{
		{"no interface", Config{}, labeller.ErrInvalid},
		{"unknown interface", Config{Interfaces: []string{"left", "nowhere"}}, labeller.ErrInvalid},
		{"twice", Config{Interfaces: []string{"left", "left"}}, labeller.ErrInvalid},
		{"relative pin directory", Config{Interfaces: []string{"left"}, PinDir: "x"}, labeller.ErrInvalid},
		{"hook", Config{Interfaces: []string{"left"}, Hook: 9}, labeller.ErrInvalid},
		{"two interfaces", Config{Interfaces: []string{"left", "right"}}, nil},
	} {
		tg, err := Attach(tt.c)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if err == nil {
			w.must(tg.Close())
		}
	}
}

// notPermitted is set in the process that TestNotPermitted starts.
const notPermitted = "ETHEREAL_TEST_NOT_PERMITTED"

// TestNotPermitted attaches in a user namespace, where bpf() is refused: the
// error must say so.
func TestNotPermitted(t *testing.T) {
	systemtest.Only(t)
	if os.Getenv(notPermitted) != "" {
		_, err := Attach(Config{Interfaces: []string{"lo"}})
		if !errors.Is(err, labeller.ErrNotPermitted) && !errors.Is(err, labeller.ErrUnsupported) {
			t.Fatalf("Attach in a user namespace: %v", err)
		}
		t.Log(err)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestNotPermitted$", "-test.v")
	cmd.Env = append(os.Environ(), notPermitted+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("needs a user namespace: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
