package quenchsocket

import (
	"errors"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// send sends a quench's worth of bytes from a socket with options of its own.
func send(t *testing.T, to netip.Addr, first byte, prepare func(fd int) error, size int) {
	t.Helper()
	domain := unix.AF_INET6
	var dst unix.Sockaddr = &unix.SockaddrInet6{Port: frame.QuenchPort, Addr: to.As16()}
	if to.Is4() {
		domain, dst = unix.AF_INET, &unix.SockaddrInet4{Port: frame.QuenchPort, Addr: to.As4()}
	}
	fd, err := unix.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd) //nolint:errcheck // sent
	if prepare != nil {
		if err := prepare(fd); errors.Is(err, unix.EPERM) {
			t.Skipf("options take CAP_NET_RAW: %v", err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	b := make([]byte, size)
	b[0] = first
	if err := unix.Sendto(fd, b, 0, dst); err != nil {
		t.Fatal(err)
	}
}

// narrowLoopback moves the test to a network namespace whose loopback cuts packets into fragments.
func narrowLoopback(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // and it is never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("no network namespace: %v", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	for request, value := range map[uint]uint32{unix.SIOCSIFMTU: 1280, unix.SIOCSIFFLAGS: unix.IFF_UP} {
		lo, err := unix.NewIfreq("lo")
		if err != nil {
			t.Fatal(err)
		}
		if lo.SetUint32(value); request == unix.SIOCSIFFLAGS {
			lo.SetUint16(uint16(value))
		}
		if err := unix.IoctlIfreq(fd, request, lo); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForms: only whole datagrams without options or extension headers are taken, for switches recognise no others.
func TestForms(t *testing.T) {
	systemtest.Only(t) // some take root
	const plain, odd = 1, 2
	for name, tt := range map[string]struct {
		addr    string
		prepare func(fd int) error // makes the odd one
		size    int
	}{
		"IPv4 options": {"127.0.0.9", func(fd int) error {
			return unix.SetsockoptString(fd, unix.SOL_IP, unix.IP_OPTIONS, "\x94\x04\x00\x00") // router alert
		}, frame.QuenchSize},
		"IPv4 fragments": {"127.0.0.9", nil, 4000},
		"IPv6 hop-by-hop options": {"::1", func(fd int) error {
			return unix.SetsockoptString(fd, unix.SOL_IPV6, unix.IPV6_HOPOPTS, "\x00\x00\x05\x02\x00\x00\x01\x00")
		}, frame.QuenchSize},
		"IPv6 destination options": {"::1", func(fd int) error {
			return unix.SetsockoptString(fd, unix.SOL_IPV6, unix.IPV6_DSTOPTS, "\x00\x00\x01\x04\x00\x00\x00\x00")
		}, frame.QuenchSize},
		"IPv6 fragments": {"::1", nil, 4000},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.size > frame.QuenchSize {
				narrowLoopback(t)
			}
			addr := netip.MustParseAddr(tt.addr)
			s, err := Listen(addr)
			if err != nil {
				t.Skipf("no socket at %v: %v", addr, err)
			}
			defer s.Close() //nolint:errcheck // read
			if err := s.conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			send(t, addr, odd, tt.prepare, tt.size)
			send(t, addr, plain, nil, frame.QuenchSize) // comes behind it
			b := make([]byte, frame.QuenchSize+1)
			n, _, err := s.Read(b)
			if err != nil || n != frame.QuenchSize || b[0] != plain {
				t.Errorf("read %d bytes that begin with %d, %v; want the plain datagram alone", n, b[0], err)
			}
		})
	}
}
