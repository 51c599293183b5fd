package tagger

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// wire is a veth pair in a network namespace of the test's own: what is sent
// into "left" comes out of "right".
type wire struct {
	t           testing.TB
	send, recv  int // packet sockets, with virtio headers
	left, right netlink.Link
	buf         []byte
}

// vnetSize is the virtio header that these packet sockets put before a frame.
const vnetSize = 10

// newWire moves the test's thread into a fresh network namespace. The thread
// is not used again, so all of the test must run on the test's goroutine.
func newWire(t testing.TB) *wire {
	t.Helper()
	systemtest.Only(t)
	if os.Geteuid() != 0 {
		t.Skip("makes a network namespace and loads eBPF: needs root")
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		t.Skipf("needs a network and a mount namespace: %v", err)
	}
	w := &wire{t: t, buf: make([]byte, 1<<17)}
	w.must(unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
	la := netlink.NewLinkAttrs()
	la.Name, la.MTU = "left", 9600
	w.must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: la, PeerName: "right", PeerMTU: 9600}))
	for _, name := range []string{"left", "right"} {
		// Else the stack would send of its own.
		_ = os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", name, "disable_ipv6"), []byte("1"), 0)
	}
	var err error
	w.left, err = netlink.LinkByName("left")
	w.must(err)
	w.right, err = netlink.LinkByName("right")
	w.must(err)
	w.must(netlink.LinkSetUp(w.left))
	w.must(netlink.LinkSetUp(w.right))
	w.send, w.recv = w.socket(w.left), w.socket(w.right)
	w.must(unix.SetsockoptTimeval(w.recv, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}))
	w.must(unix.SetsockoptInt(w.recv, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20))
	return w
}

func (w *wire) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *wire) socket(l netlink.Link) int {
	w.t.Helper()
	all := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all))
	w.must(err)
	w.t.Cleanup(func() { unix.Close(fd) })
	w.must(unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1))
	w.must(unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: l.Attrs().Index}))
	return fd
}

// mountBPF mounts a bpf file system that only this test sees.
func (w *wire) mountBPF() string {
	w.t.Helper()
	dir := w.t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		w.t.Skipf("mount a bpf file system: %v", err)
	}
	w.t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// vnet is the virtio header's fields that matter here.
type vnet struct {
	linear   int // bytes of the frame in the buffer's first piece; 0 = all
	partial  bool
	checksum int // offset in the frame of what an incomplete checksum covers
}

// put sends a frame into the left end.
func (w *wire) put(frame []byte, v vnet) {
	w.t.Helper()
	h := make([]byte, vnetSize, vnetSize+len(frame))
	if v.linear == 0 {
		v.linear = len(frame) // else the kernel would take the least it can
	}
	binary.NativeEndian.PutUint16(h[2:], uint16(v.linear))
	if v.partial {
		h[0] = 1 // VIRTIO_NET_HDR_F_NEEDS_CSUM
		binary.NativeEndian.PutUint16(h[6:], uint16(v.checksum))
		binary.NativeEndian.PutUint16(h[8:], 6)
	}
	_, err := unix.Write(w.send, append(h, frame...))
	w.must(err)
}

// get receives the next frame that carries the tests' MAC addresses, at the
// right end. It is valid until the next call. partial says that the UDP
// checksum is still to be completed.
func (w *wire) get() (frame []byte, partial bool) {
	w.t.Helper()
	for {
		n, err := unix.Read(w.recv, w.buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		w.must(err)
		frame = w.buf[vnetSize:n]
		if [12]byte(frame) == [12]byte{} {
			return frame, w.buf[0]&1 != 0
		}
	}
}

// attach attaches to the left end, or skips with the reason.
func (w *wire) attach(c Config) *Tagger {
	w.t.Helper()
	c.Interfaces = []string{"left"}
	tg, err := Attach(c)
	if errors.Is(err, labeller.ErrNotPermitted) || errors.Is(err, labeller.ErrUnsupported) {
		w.t.Skip(err)
	}
	w.must(err)
	return tg
}
