//go:build linux

package port_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
)

// link is a veth pair with a port on either end.
type link struct {
	a, b   *port.Interface
	poller *port.Poller // of b
	ns     *porttest.Namespace
}

func newLink(t testing.TB, mtu int, opt port.InterfaceOptions) *link {
	t.Helper()
	l := &link{ns: porttest.Enter(t)}
	l.ns.Veth(t, "a", "b", mtu)
	var err error
	if l.a, err = port.OpenInterface("a", opt); err != nil {
		t.Fatal(err)
	}
	if l.b, err = port.OpenInterface("b", opt); err != nil {
		t.Fatal(err)
	}
	if l.poller, err = port.NewPoller(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range []interface{ Close() error }{l.a, l.b, l.poller} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	if err := l.poller.Add(l.b, 7); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestOwner: an interface is opened once by each owner, until it is closed.
func TestOwner(t *testing.T) {
	ns := porttest.Enter(t)
	ns.Veth(t, "a", "b", 1500)
	open := func(name, owner string) (*port.Interface, error) {
		return port.OpenInterface(name, port.InterfaceOptions{Owner: owner})
	}
	first, err := open("a", "host h0")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err = open("a", "host h0"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d is host h0", os.Getpid())) {
			t.Fatalf("opened by the same owner again: %v; expected an error that names process %d", err, os.Getpid())
		}
	}
	for _, other := range []struct{ name, owner string }{{"a", "host h1"}, {"b", "host h0"}, {"a", ""}} {
		p, err := open(other.name, other.owner)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if first, err = open("a", "host h0"); err != nil {
		t.Fatalf("after the owner has closed it: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
}

// receive waits for n frames at b, at most two seconds.
func (l *link) receive(t testing.TB, n int) [][]byte {
	t.Helper()
	var got [][]byte
	for deadline := time.Now().Add(2 * time.Second); len(got) < n; {
		l.b.Receive(n-len(got), func(b []byte) { got = append(got, bytes.Clone(b)) })
		if len(got) == n {
			break
		}
		left := time.Until(deadline)
		if left <= 0 {
			t.Fatalf("%d of %d frames after two seconds; counters %+v", len(got), n, l.b.Counters())
		}
		if _, err := l.poller.Wait(left, nil); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

func testFrame(n int, fill byte) []byte {
	f := bytes.Repeat([]byte{fill}, n)
	copy(f, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5})
	return f
}

func TestInterfaceSizes(t *testing.T) {
	l := newLink(t, 9216, port.InterfaceOptions{})
	var want [][]byte
	for i, n := range []int{14, 60, 61, 1514, 4200, 9014, 9216 + 14} {
		want = append(want, testFrame(n, byte(i)))
	}
	if n := l.a.Send(want); n != len(want) {
		t.Fatalf("%d of %d frames taken", n, len(want))
	}
	if diff := cmp.Diff(want, l.receive(t, len(want))); diff != "" {
		t.Error(diff)
	}
	out, in := l.a.Counters(), l.b.Counters()
	if out.OutPkts != 7 || in.InPkts != 7 || out.OutOctets != in.InOctets || out.InPkts != 0 || in.OutPkts != 0 {
		t.Errorf("sender %+v\nreceiver %+v", out, in)
	}
}

func TestInterfaceTags(t *testing.T) {
	l := newLink(t, 1500, port.InterfaceOptions{})
	tagged := testFrame(100, 3)
	copy(tagged[12:], []byte{0x81, 0x00, 0xe1, 0x23, 0x08, 0x00})
	outer := testFrame(100, 4)
	copy(outer[12:], []byte{0x88, 0xa8, 0x00, 0x07, 0x81, 0x00, 0x00, 0x2a, 0x08, 0x00})
	want := [][]byte{tagged, outer}
	l.a.Send(want)
	if diff := cmp.Diff(want, l.receive(t, 2)); diff != "" {
		t.Error(diff)
	}
}

// What is longer than the interface can take, on either side, is counted.
func TestInterfaceTooLong(t *testing.T) {
	l := newLink(t, 9000, port.InterfaceOptions{MaxFrame: 1600})
	l.a.Send([][]byte{testFrame(5000, 1), testFrame(9100, 2), testFrame(1000, 3)})
	got := l.receive(t, 1)
	if diff := cmp.Diff([][]byte{testFrame(1000, 3)}, got); diff != "" {
		t.Error(diff)
	}
	if c := l.b.Counters(); c.InTooLong != 1 || c.InPkts != 1 {
		t.Errorf("receiver %+v", c)
	}
	if c := l.a.Counters(); c.OutTooLong != 1 || c.OutPkts != 2 {
		t.Errorf("sender %+v", c)
	}
}

// The ring wraps, and what it cannot hold is counted as lost.
func TestInterfaceRing(t *testing.T) {
	l := newLink(t, 1500, port.InterfaceOptions{Slots: 64})
	for round := range 5 {
		var want [][]byte
		for i := range 50 {
			want = append(want, testFrame(64, byte(round*50+i)))
		}
		l.a.Send(want)
		if diff := cmp.Diff(want, l.receive(t, 50)); diff != "" {
			t.Fatalf("round %d: %s", round, diff)
		}
	}
	flood := make([][]byte, 500)
	for i := range flood {
		flood[i] = testFrame(64, 9)
	}
	l.a.Send(flood)
	n := l.b.Receive(1000, func([]byte) {})
	c := l.b.Counters()
	if c.InLost == 0 || uint64(n)+c.InLost != 500 || l.b.Counters().InLost != c.InLost {
		t.Errorf("%d received, counters %+v", n, c)
	}
}

// Checksums that a stack leaves to its NIC are made.
func TestInterfaceChecksum(t *testing.T) {
	l := newLink(t, 1500, port.InterfaceOptions{})
	datagram := udpFrame([]byte("payload!!"))
	// A raw socket with a vnet header stands for a stack that offloads.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing is pending
	const packetVnetHdr = 15
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, packetVnetHdr, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: l.a.Index()}); err != nil {
		t.Fatal(err)
	}
	vnet := make([]byte, 10)
	vnet[0] = 1 // VIRTIO_NET_HDR_F_NEEDS_CSUM
	binary.NativeEndian.PutUint16(vnet[6:], 34)
	binary.NativeEndian.PutUint16(vnet[8:], 6)
	if _, err := unix.Write(fd, append(vnet, datagram...)); err != nil {
		t.Fatal(err)
	}
	got := l.receive(t, 1)[0]
	if sum := onesSum(got[26:34]) + 17 + uint32(len(got)-34) + onesSum(got[34:]); sum%0xffff != 0 || bytes.Equal(got[40:42], []byte{0, 0}) {
		t.Errorf("checksum %x does not verify", got[40:42])
	}
	if c := l.b.Counters(); c.InChecksums != 1 {
		t.Errorf("counters %+v", c)
	}
}

// udpFrame is a UDP datagram in IPv4 without its checksum.
func udpFrame(payload []byte) []byte {
	f := make([]byte, 42, 42+len(payload))
	copy(f, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45})
	binary.BigEndian.PutUint16(f[16:], uint16(28+len(payload)))
	f[22], f[23] = 64, 17
	copy(f[26:], []byte{10, 0, 0, 1, 10, 0, 0, 2, 0x12, 0x34, 0x56, 0x78})
	binary.BigEndian.PutUint16(f[38:], uint16(8+len(payload)))
	return append(f, payload...)
}

func onesSum(b []byte) (sum uint32) {
	if len(b)%2 != 0 {
		b = append(bytes.Clone(b), 0)
	}
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	return sum
}

// A slow interface refuses frames, and the poller says when it takes more.
func TestInterfaceBlocks(t *testing.T) {
	ns := porttest.Enter(t)
	ns.Veth(t, "a", "b", 1500)
	ns.Shape(t, "a", 1_000_000, 3000, 1<<20)
	a, err := port.OpenInterface("a", port.InterfaceOptions{SendBuffer: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close() //nolint:errcheck // a test of sending
	poller, err := port.NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer poller.Close() //nolint:errcheck // a test of sending
	if err := poller.Add(a, 3); err != nil {
		t.Fatal(err)
	}
	frames := make([][]byte, 40)
	for i := range frames {
		frames[i] = testFrame(1500, byte(i))
	}
	blocks := 0
	for start := time.Now(); len(frames) > 0; {
		n := a.Send(frames)
		if frames = frames[n:]; len(frames) == 0 {
			break
		}
		if n > 0 {
			blocks++
		}
		if time.Since(start) > 5*time.Second {
			t.Fatalf("%d frames left after five seconds", len(frames))
		}
		ev, err := poller.Wait(time.Second, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(ev) == 0 {
			continue // without cause; Send says the same again
		}
		if !ev[0].Out || ev[0].ID != 3 {
			t.Fatalf("events %+v", ev)
		}
	}
	if c := a.Counters(); blocks < 5 || c.OutPkts != 40 || c.OutLost != 0 {
		t.Errorf("blocked %d times; counters %+v", blocks, c)
	}
}

func TestInterfaceDown(t *testing.T) {
	l := newLink(t, 1500, port.InterfaceOptions{})
	links, err := port.OpenLinks()
	if err != nil {
		t.Fatal(err)
	}
	defer links.Close() //nolint:errcheck // only read
	if err := links.Attach(l.poller, -1); err != nil {
		t.Fatal(err)
	}
	list, err := links.List()
	if err != nil {
		t.Fatal(err)
	}
	up := map[string]bool{}
	for _, x := range list {
		up[x.Name] = x.Up
	}
	if !up["a"] || !up["b"] {
		t.Errorf("at the start: %v", up)
	}
	wait := func(want bool) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Second); ; {
			done := false
			if err := links.Read(func(x port.Link) { done = done || x.Index == l.b.Index() && x.Up == want }); err != nil {
				t.Fatal(err)
			}
			if done {
				return
			}
			if _, err := l.poller.Wait(time.Until(deadline), nil); err != nil {
				t.Fatal(err)
			}
			if time.Now().After(deadline) {
				t.Fatalf("no news that the link is up: %v", want)
			}
		}
	}
	if err := links.SetUp(l.a.Index(), false); err != nil {
		t.Fatal(err)
	}
	wait(false) // the peer of what went down
	if n := l.a.Send([][]byte{testFrame(64, 1)}); n != 1 || l.a.Counters().OutDown != 1 {
		t.Errorf("taken %d, counters %+v", n, l.a.Counters())
	}
	if err := links.SetUp(l.a.Index(), true); err != nil {
		t.Fatal(err)
	}
	wait(true)
	l.a.Send([][]byte{testFrame(64, 2)})
	l.receive(t, 1)
}

func TestOpenInterfaceUnknown(t *testing.T) {
	if _, err := port.OpenInterface("none-such", port.InterfaceOptions{}); err == nil {
		t.Error("opened")
	}
}

// The kernel does not answer packets of a held UDP port, of which nobody but the port's owner receives; it does answer
// others.
func TestInterfaceHoldsUDP(t *testing.T) {
	const held, free = 4791, 4792
	ns := porttest.Enter(t)
	ns.Veth(t, "a", "b", 1500)
	b, err := netlink.LinkByName("b")
	if err != nil {
		t.Fatal(err)
	}
	here := &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 0, 0, 2), Mask: net.CIDRMask(24, 32)}}
	there := &netlink.Neigh{
		LinkIndex: b.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.IPv4(10, 0, 0, 1), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1},
	}
	if err := errors.Join(netlink.AddrAdd(b, here), netlink.NeighSet(there)); err != nil {
		t.Fatal(err)
	}
	open := func(name string, opt port.InterfaceOptions) *port.Interface {
		p, err := port.OpenInterface(name, opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		return p
	}
	l := &link{a: open("b", port.InterfaceOptions{HoldUDP: []uint16{held}}), b: open("a", port.InterfaceOptions{}), ns: ns}
	if l.poller, err = port.NewPoller(); err != nil {
		t.Fatal(err)
	}
	defer l.poller.Close() //nolint:errcheck // nothing is pending
	if err := l.poller.Add(l.b, 7); err != nil {
		t.Fatal(err)
	}
	open("b", port.InterfaceOptions{HoldUDP: []uint16{held}}) // another one of the same is no error

	datagram := func(to uint16) []byte {
		f := udpFrame([]byte("x"))
		copy(f, b.Attrs().HardwareAddr)
		binary.BigEndian.PutUint16(f[36:], to)
		binary.BigEndian.PutUint16(f[24:], 0)
		sum := onesSum(f[14:34])
		binary.BigEndian.PutUint16(f[24:], ^uint16(sum+sum>>16))
		return f
	}
	if n := l.b.Send([][]byte{datagram(held), datagram(free)}); n != 2 {
		t.Fatalf("%d of 2 frames taken", n)
	}
	// ICMP quotes the IP and UDP headers of what it refuses.
	for {
		f := l.receive(t, 1)[0]
		if len(f) < 66 || f[23] != 1 || f[34] != 3 {
			continue // another word of the kernel's
		}
		if to := binary.BigEndian.Uint16(f[64:]); to != free {
			t.Errorf("port %d is refused", to)
			continue
		}
		break
	}
	n := 0
	l.a.Receive(8, func([]byte) { n++ })
	if n != 2 {
		t.Errorf("the port's owner hears %d of 2 packets", n)
	}
}
