package port

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// holdUDP has the kernel take what arrives on an interface for UDP ports, of IPv4 and IPv6, for somebody's, and drop
// it: without a socket it answers each packet that another reads from the wire with ICMP's port unreachable. A port
// that has a socket already is left as it is. It returns the descriptors.
func holdUDP(name string, ports []uint16) (fds []int, err error) {
	for _, no := range ports {
		fd, err := dropSocket(name, no)
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		if err != nil {
			return fds, fmt.Errorf("UDP port %d: %w", no, err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// dropSocket opens a socket whose filter takes nothing.
func dropSocket(name string, no uint16) (_ int, err error) {
	at := unix.Sockaddr(&unix.SockaddrInet6{Port: int(no)})
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	} else { // a kernel without IPv6
		at = &unix.SockaddrInet4{Port: int(no)}
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	}
	if fd < 0 {
		return -1, err
	}
	if err == nil { // before the socket has an address, so that nothing ever waits in it
		nothing := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
		err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing[0]})
	}
	if err == nil {
		err = unix.BindToDevice(fd, name)
	}
	if err == nil {
		err = unix.Bind(fd, at)
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}
