//go:build linux

package process_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/p4switch/ebpf"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
)

// Values of virtio_net_hdr, which precedes a frame of a packet socket with PACKET_VNET_HDR.
const (
	vnetNeedsChecksum = 1
	vnetTCPv4         = 1
	vnetUDP           = 3 // fragments
	vnetUDPL4         = 5 // datagrams
)

// gsoSocket opens an interface for frames that the kernel is to cut, of up to 64 KiB.
func gsoSocket(t *testing.T, name string) int {
	t.Helper()
	i, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.ETH_P_ALL<<8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: unix.ETH_P_ALL << 8, Ifindex: i.Index}))
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// vnet puts a virtio_net_hdr before a frame. size is that of its segments, 0: it is not to be cut.
func vnet(kind byte, size uint16, frame []byte) []byte {
	h := make([]byte, 10, 10+len(frame))
	if size > 0 {
		h[0], h[1] = vnetNeedsChecksum, kind
		binary.NativeEndian.PutUint16(h[2:], 42)
		binary.NativeEndian.PutUint16(h[4:], size)
		binary.NativeEndian.PutUint16(h[6:], 34) // of UDP or TCP
		offset := uint16(6)
		if kind == vnetTCPv4 {
			offset = 16
			binary.NativeEndian.PutUint16(h[2:], 54)
		}
		binary.NativeEndian.PutUint16(h[8:], offset)
	}
	return append(h, frame...)
}

// TestKernelDatapathGSO sends packets by valid routes that only a kernel of hosts makes, or a hostile host: of 64 KiB
// that are to be cut later, with sizes of segments that fit nothing, and jumbo frames to a port of a smaller MTU. The
// switch forwards them whole or drops them, is left as it was, and passes on what comes next.
func TestKernelDatapathGSO(t *testing.T) {
	systemtest.Only(t)
	ns := porttest.Enter(t)
	kernelOrSkip(t, "lo", ebpf.HookTCX)
	w := newWired(t, ns, "k", ebpf.HookTCX)
	for _, name := range []string{"kh1", "ks1"} { // the others stay at 2,000
		l, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetMTU(l, 9000)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	in, out := gsoSocket(t, "kh1"), gsoSocket(t, "kh2")
	segments := func(size, source int) []byte { // of 64 KiB at most, and of other UDP than RoCEv2
		f := rocePacket(size, uint16(source))
		copy(f[42:], bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size-42])
		f[42] = 0x0a
		return f
	}
	tcp := segments(30_000, 0xc001)
	tcp[23] = 6       // TCP
	tcp[25] += 17 - 6 // in the header's checksum; no carry here
	tcp[46] = 5 << 4  // its header's length
	bad := segments(20_000, 0xc001)
	bad[24] ^= 0xff // the IPv4 header's checksum
	quench := segments(20_000, 0xc001)
	binary.BigEndian.PutUint16(quench[36:], 47910)
	for _, x := range []struct {
		name  string
		frame []byte
		whole bool // it has to arrive
	}{
		{"UDP of 64,000 bytes in datagrams of 1,000, by a label", vnet(vnetUDPL4, 1000, segments(64_000, 0xc001)), true},
		{"the same without a label", vnet(vnetUDPL4, 1000, segments(64_000, 0xc000)), false},
		{"UDP in fragments", vnet(vnetUDP, 1480, segments(30_000, 0xc001)), false},
		{"datagrams of one byte", vnet(vnetUDPL4, 1, segments(100, 0xc001)), false},
		{"segments longer than any MTU", vnet(vnetUDPL4, 60_000, segments(64_000, 0xc001)), false},
		{"TCP", vnet(vnetTCPv4, 1400, tcp), false},
		{"a wrong checksum", vnet(vnetUDPL4, 1000, bad), false},
		{"quenches", vnet(vnetUDPL4, 1000, quench), false},
		{"a jumbo frame to a port of 2,000", vnet(0, 0, segments(8000, 0xc001)), false},
		{"a jumbo frame without a label", vnet(0, 0, segments(8000, 0xc000)), false},
	} {
		for n := range 50 {
			if _, err := unix.Write(in, x.frame); err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ENOBUFS) {
				if x.whole {
					t.Fatalf("%s: %v", x.name, err)
				}
				t.Logf("%s: the sender's own kernel refuses it: %v", x.name, err)
				break
			} else if n == 0 && x.whole {
				arrived := receiveGSO(t, out, len(x.frame))
				want := bytes.Clone(x.frame[10:])
				if arrived == nil || !bytes.Equal(arrived[42:], want[42:]) || arrived[22] != want[22]-1 {
					t.Errorf("%s: %d bytes of %d arrive, or other ones", x.name, len(arrived), len(want))
				}
			}
		}
		// The next packet passes, as ever, once there is room for it at the receiver.
		drain(t, out)
		if _, err := unix.Write(in, vnet(0, 0, segments(200, 0xc001))); err != nil {
			t.Fatal(err)
		}
		if receiveGSO(t, out, 10+200) == nil {
			t.Errorf("after %s an ordinary packet is lost", x.name)
		}
		s := w.d.Stats()
		t.Logf("%s: %d in, %d sent, dropped %v; %d forwarded in the kernel", x.name, s.Ingress, s.Sent, s.Drops(), s.Kernel.Forwarded)
	}
	if s := w.d.Stats(); s.Kernel.Err != "" || s.Kernel.Forwarded == 0 {
		t.Errorf("the kernel: %+v", s.Kernel)
	}
}

// drain reads what has arrived.
func drain(t *testing.T, fd int) {
	t.Helper()
	for b := make([]byte, 70_000); ; {
		if _, err := unix.Read(fd, b); errors.Is(err, unix.EAGAIN) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// receiveGSO waits for a frame of a length, with its virtio_net_hdr, and returns it without; nil: it does not come.
func receiveGSO(t *testing.T, fd, length int) []byte {
	t.Helper()
	b := make([]byte, 70_000)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		n, err := unix.Read(fd, b)
		switch {
		case errors.Is(err, unix.EAGAIN):
			unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100) //nolint:errcheck // the deadline ends it
		case err != nil:
			t.Fatal(err)
		case n == length:
			return b[10:n]
		}
	}
	return nil
}
