//go:build linux

// Package porttest is what tests of ports need: two ports in memory ([Pair]), and
// network namespaces with virtual links, so that no packet of a test meets the
// machine's network. Those need root; without it tests are skipped, with the reason.
package porttest

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// Namespace is a network namespace that lives as long as the test.
type Namespace struct {
	fd int
}

// Enter creates a network namespace and moves the calling goroutine, the test's, into it for good. Subtests enter it
// with Join.
func Enter(t testing.TB) *Namespace {
	t.Helper()
	systemtest.Only(t)
	if os.Geteuid() != 0 {
		t.Skip("network namespaces take root")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("no new network namespace: %v", err)
	}
	fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })              //nolint:errcheck // only read
	for _, name := range []string{"all", "default"} { // no packets of the kernel's own
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0o644); err != nil {
			t.Logf("IPv6 stays on: %v", err)
		}
	}
	n := &Namespace{fd: fd}
	n.Up(t, "lo", true)
	return n
}

// Join moves the calling goroutine into the namespace for good.
func (n *Namespace) Join(t testing.TB) {
	t.Helper()
	if err := n.join(); err != nil {
		t.Fatal(err)
	}
}

func (n *Namespace) join() error {
	runtime.LockOSThread()
	if err := unix.Setns(n.fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("porttest: join the namespace: %w", err)
	}
	return nil
}

// Veth creates a pair of linked virtual interfaces, both up. The calling goroutine must be in the namespace, here and
// below.
func (n *Namespace) Veth(t testing.TB, a, b string, mtu int) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = a, mtu
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: b}); err != nil {
		t.Fatalf("veth %s-%s: %v", a, b, err)
	}
	if l, err := netlink.LinkByName(b); err != nil {
		t.Fatal(err)
	} else if err := netlink.LinkSetMTU(l, mtu); err != nil {
		t.Fatal(err)
	}
	n.Up(t, a, true)
	n.Up(t, b, true)
	for _, name := range []string{a, b} {
		n.waitUp(t, name)
	}
}

// waitUp waits until the kernel has made an interface ready to send, which it
// does a moment after its carrier is there.
func (n *Namespace) waitUp(t testing.TB, name string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; runtime.Gosched() {
		l, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if l.Attrs().OperState == netlink.OperUp {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %v after five seconds", name, l.Attrs().OperState)
		}
	}
}

// Up sets an interface up or down.
func (n *Namespace) Up(t testing.TB, name string, up bool) {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	set := netlink.LinkSetUp
	if !up {
		set = netlink.LinkSetDown
	}
	if err := set(l); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// Tap creates a TAP interface that is up, and returns a non-blocking file descriptor of its far end, and its index. The
// test is skipped if the machine has no TAP interfaces.
func (n *Namespace) Tap(t testing.TB, name string) (fd, index int) {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no TAP interfaces: %v", err)
	}
	t.Cleanup(func() { unix.Close(fd) }) //nolint:errcheck // it is read no more
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		t.Fatal(err)
	}
	ifr.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
		t.Fatal(err)
	}
	n.Up(t, name, true)
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return fd, l.Attrs().Index
}

// IsUp reports whether an interface is administratively up.
func (n *Namespace) IsUp(t testing.TB, name string) bool {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return l.Attrs().Flags&net.FlagUp != 0
}

// Shape limits what leaves an interface to rate bytes per second, with a
// bucket of burst bytes and a queue of limit bytes behind it.
func (n *Namespace) Shape(t testing.TB, name string, rate uint64, burst, limit uint32) {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	// The kernel wants the bucket as the time, in its ticks, to fill it.
	buffer := uint32(float64(burst) / float64(rate) * 1e6 * netlink.TickInUsec())
	q := &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(1, 0)},
		Rate:       rate, Buffer: buffer, Limit: limit,
	}
	if err := netlink.QdiscAdd(q); err != nil {
		t.Skipf("no token bucket filter on %s: %v", name, err)
	}
}

// Dial connects to a TCP address in the namespace, from any goroutine.
func (n *Namespace) Dial(ctx context.Context, addr string) (net.Conn, error) {
	type result struct {
		c   net.Conn
		err error
	}
	out := make(chan result, 1)
	go func() { // its thread ends with it
		if err := n.join(); err != nil {
			out <- result{nil, err}
			return
		}
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		out <- result{c, err}
	}()
	r := <-out
	return r.c, r.err
}

// Macvlan creates an interface of that name on top of another, all of whose frames it receives, and sets it up.
func (n *Namespace) Macvlan(t testing.TB, on, name string) {
	t.Helper()
	l, err := netlink.LinkByName(on)
	if err != nil {
		t.Fatalf("%s: %v", on, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex = name, l.Attrs().Index
	if err := netlink.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_PASSTHRU}); err != nil {
		t.Skipf("no macvlan on %s: %v", on, err)
	}
	n.Up(t, name, true)
}

// Remove removes an interface; one of a [Namespace.Veth] together with its peer.
func (n *Namespace) Remove(t testing.TB, name string) {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkDel(l)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// Rename gives an interface another name.
func (n *Namespace) Rename(t testing.TB, from, to string) {
	t.Helper()
	l, err := netlink.LinkByName(from)
	if err != nil {
		t.Fatalf("%s: %v", from, err)
	}
	if err := netlink.LinkSetName(l, to); err != nil {
		t.Fatalf("%s: %v", from, err)
	}
}
