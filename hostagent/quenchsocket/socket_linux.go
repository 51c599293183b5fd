package quenchsocket

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// Socket receives the UDP datagrams of source quenches and notices at one address.
type Socket struct {
	conn *net.UDPConn
	oob  [64]byte
}

// Listen opens a socket at an address of this machine, or at [frame.NoticeAddr], which several agents of a machine can
// share. The error wraps the system call's.
func Listen(addr netip.Addr) (*Socket, error) {
	domain := unix.AF_INET
	if addr.Is6() {
		domain = unix.AF_INET6
	}
	fd, err := unix.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), addr.String())
	defer file.Close() //nolint:errcheck // the connection has a descriptor of its own
	if err := prepare(fd, addr); err != nil {
		return nil, err
	}
	conn, err := net.FilePacketConn(file)
	if err != nil {
		return nil, err
	}
	return &Socket{conn: conn.(*net.UDPConn)}, nil
}

// prepare binds a socket. It attaches the filter first, so that nothing is received without it.
func prepare(fd int, addr netip.Addr) error {
	if err := attach(fd); err != nil {
		return err
	}
	fragments, level := unix.IP_RECVFRAGSIZE, unix.SOL_IP
	if addr.Is6() {
		fragments, level = unix.IPV6_RECVFRAGSIZE, unix.SOL_IPV6
	}
	if err := unix.SetsockoptInt(fd, level, fragments, 1); err != nil {
		return fmt.Errorf("option for fragments: %w", err)
	}
	if addr.IsMulticast() {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return fmt.Errorf("SO_REUSEADDR: %w", err)
		}
	}
	var to unix.Sockaddr = &unix.SockaddrInet6{Port: frame.QuenchPort, Addr: addr.As16()}
	if addr.Is4() {
		to = &unix.SockaddrInet4{Port: frame.QuenchPort, Addr: addr.As4()}
	}
	if err := unix.Bind(fd, to); err != nil {
		return fmt.Errorf("bind %v: %w", addr, err)
	}
	return nil
}

// network is the offset at which the kernel's filters find the IP header of a datagram: SKF_NET_OFF of
// linux/filter.h.
const network = 1<<32 - 0x100000

// attach makes the kernel drop datagrams with IPv4 options or IPv6 extension headers.
func attach(fd int) error {
	code, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: network, Size: 1}, // version and length of the IP header
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0x45, SkipTrue: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xf0},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0x60, SkipTrue: 3},
		bpf.LoadAbsolute{Off: network + 6, Size: 1}, // IPv6: the next header
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_UDP, SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(code))
	for i, c := range code {
		filter[i] = unix.SockFilter{Code: c.Op, Jt: c.Jt, Jf: c.Jf, K: c.K}
	}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	if err != nil {
		return fmt.Errorf("SO_ATTACH_FILTER: %w", err)
	}
	return nil
}

// Read reads the next datagram that was not fragmented. With a buffer of [frame.QuenchSize] + 1 bytes, a longer
// datagram can be recognised.
func (s *Socket) Read(b []byte) (n int, from netip.AddrPort, err error) {
	for {
		n, oob, _, from, err := s.conn.ReadMsgUDPAddrPort(b, s.oob[:])
		if err != nil || oob == 0 { // the kernel adds ancillary data only to reassembled datagrams
			return n, from, err
		}
	}
}

// Close closes the socket; a Read in progress returns an error.
func (s *Socket) Close() error { return s.conn.Close() }
