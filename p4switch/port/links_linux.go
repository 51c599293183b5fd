package port

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Links reads and changes the state of the network interfaces of one network namespace: that of the thread that opened
// it. SetUp and Counters are safe for concurrent use; Read is not.
type Links struct {
	fd     int
	handle *netlink.Handle
	buf    []byte
}

// OpenLinks subscribes to changes of the interfaces' state.
func OpenLinks() (*Links, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("port: netlink: %w", err)
	}
	l := &Links{fd: -1, handle: h, buf: make([]byte, 64<<10)}
	l.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err == nil {
		err = unix.Bind(l.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: unix.RTMGRP_LINK})
	}
	if err != nil {
		l.Close() //nolint:errcheck // the first error is reported
		return nil, fmt.Errorf("port: netlink: %w", err)
	}
	return l, nil
}

// Attach makes the poller report changes, as an event In with this id.
func (l *Links) Attach(p *Poller, id int) error {
	_, err := p.watch(l.fd, id, unix.EPOLLIN|unix.EPOLLET, false, nil)
	return err
}

// List returns all interfaces.
func (l *Links) List() ([]Link, error) {
	links, err := l.handle.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("port: netlink: list interfaces: %w", err)
	}
	out := make([]Link, 0, len(links))
	for _, x := range links {
		a := x.Attrs()
		var mac [6]byte
		copy(mac[:], a.HardwareAddr)
		out = append(out, Link{
			MAC: mac, Hardware: a.ParentDev != "",
			Index: a.Index, Name: a.Name, MTU: a.MTU,
			Up: isUp(a.RawFlags), Enabled: a.RawFlags&unix.IFF_UP != 0,
			Lower: lowerInterface(x.Type(), a.ParentIndex, a.NetNsID < 0),
		})
		l.readSpeed(&out[len(out)-1])
	}
	return out, nil
}

// readSpeed reads the speed and autonegotiation of an interface from its driver. Virtual interfaces report a fixed
// speed, which is ignored.
func (l *Links) readSpeed(x *Link) {
	var settings [44]byte // struct ethtool_cmd
	binary.NativeEndian.PutUint32(settings[:], unix.ETHTOOL_GSET)
	request := struct {
		name [unix.IFNAMSIZ]byte
		data *[44]byte
		_    [16]byte // struct ifreq has a union of 24 bytes
	}{data: &settings}
	copy(request.name[:unix.IFNAMSIZ-1], x.Name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l.fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return // not all drivers know
	}
	mbps, autoneg := parseSettings(&settings)
	x.Autoneg = &autoneg
	if x.Hardware {
		x.Mbps = mbps
	}
}

// parseSettings reads struct ethtool_cmd: the speed, 0 if it is not known, and whether it is negotiated.
func parseSettings(b *[44]byte) (mbps uint32, autoneg bool) {
	mbps = uint32(binary.NativeEndian.Uint16(b[12:])) | uint32(binary.NativeEndian.Uint16(b[28:]))<<16
	if mbps == 1<<32-1 {
		mbps = 0
	}
	return mbps, b[18] == 1
}

// lowerInterface returns the interface below a macvlan. The peer of a veth has the same netlink attribute and is
// ignored, as is an interface of another namespace.
func lowerInterface(kind string, parent int, here bool) int {
	if kind != "macvlan" || !here {
		return 0
	}
	return parent
}

func isUp(flags uint32) bool {
	return flags&(unix.IFF_UP|unix.IFF_LOWER_UP) == unix.IFF_UP|unix.IFF_LOWER_UP
}

// Read calls f with each change since the last call. If the kernel lost changes, it calls f for all interfaces.
func (l *Links) Read(f func(Link)) error {
	for {
		n, _, err := unix.Recvfrom(l.fd, l.buf, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOBUFS):
			all, err := l.List()
			if err != nil {
				return err
			}
			for _, x := range all {
				f(x)
			}
			continue
		case err != nil:
			return fmt.Errorf("port: netlink: %w", err)
		}
		msgs, err := syscall.ParseNetlinkMessage(l.buf[:n])
		if err != nil {
			return fmt.Errorf("port: netlink: %w", err)
		}
		for i := range msgs {
			if x, ok := parseLink(&msgs[i]); ok {
				f(x)
			}
		}
	}
}

// parseLink reads RTM_NEWLINK and RTM_DELLINK.
func parseLink(m *syscall.NetlinkMessage) (Link, bool) {
	typ := m.Header.Type
	if typ != unix.RTM_NEWLINK && typ != unix.RTM_DELLINK || len(m.Data) < unix.SizeofIfInfomsg {
		return Link{}, false
	}
	if m.Data[0] != unix.AF_UNSPEC { // a bridge's word on its ports is not the link's
		return Link{}, false
	}
	flags := binary.NativeEndian.Uint32(m.Data[8:])
	l := Link{
		Index: int(int32(binary.NativeEndian.Uint32(m.Data[4:]))),
		Up:    isUp(flags), Enabled: flags&unix.IFF_UP != 0,
	}
	if typ == unix.RTM_DELLINK {
		l.Up, l.Enabled, l.Gone = false, false, true
	}
	attrs, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return Link{}, false
	}
	kind, parent, here := "", 0, true
	for _, a := range attrs {
		switch a.Attr.Type {
		case unix.IFLA_LINK:
			if len(a.Value) >= 4 {
				parent = int(int32(binary.NativeEndian.Uint32(a.Value)))
			}
		case unix.IFLA_LINK_NETNSID:
			here = false
		case unix.IFLA_LINKINFO:
			kind = parseKind(a.Value)
		case unix.IFLA_IFNAME:
			l.Name = unix.ByteSliceToString(a.Value)
		case unix.IFLA_ADDRESS:
			copy(l.MAC[:], a.Value)
		case unix.IFLA_MTU:
			if len(a.Value) >= 4 {
				l.MTU = int(binary.NativeEndian.Uint32(a.Value))
			}
		}
	}
	if !l.Gone {
		l.Lower = lowerInterface(kind, parent, here)
	}
	return l, true
}

// parseKind reads the kind of an interface from the attributes nested in
// IFLA_LINKINFO.
func parseKind(b []byte) string {
	for len(b) >= unix.SizeofRtAttr {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofRtAttr || n > len(b) {
			return ""
		}
		if binary.NativeEndian.Uint16(b[2:]) == unix.IFLA_INFO_KIND {
			return unix.ByteSliceToString(b[unix.SizeofRtAttr:n])
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	return ""
}

// SetUp takes an interface up or down.
func (l *Links) SetUp(index int, up bool) error {
	link := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: index}}
	set, verb := l.handle.LinkSetUp, "up"
	if !up {
		set, verb = l.handle.LinkSetDown, "down"
	}
	if err := set(link); err != nil {
		return fmt.Errorf("port: take interface %d %s: %w", index, verb, err)
	}
	return nil
}

// Counters returns the kernel's counters of an interface. It is safe for concurrent use.
func (l *Links) Counters(index int) (Counters, error) {
	link, err := l.handle.LinkByIndex(index)
	if err != nil {
		return Counters{}, fmt.Errorf("port: counters of interface %d: %w", index, err)
	}
	s := link.Attrs().Statistics
	if s == nil {
		return Counters{}, fmt.Errorf("port: interface %d has no counters", index)
	}
	return Counters{
		InPkts: s.RxPackets, InOctets: s.RxBytes, OutPkts: s.TxPackets, OutOctets: s.TxBytes,
		InLost: s.RxDropped, InTooLong: s.RxErrors, OutLost: s.TxDropped, OutDown: s.TxErrors,
		InFCS: s.RxCrcErrors,
	}, nil
}

// Close frees the sockets.
func (l *Links) Close() error {
	l.handle.Close()
	if l.fd < 0 {
		return nil
	}
	fd := l.fd
	l.fd = -1
	return unix.Close(fd)
}
