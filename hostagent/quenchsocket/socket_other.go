//go:build !linux

package quenchsocket

import (
	"errors"
	"net"
	"net/netip"
)

// Socket receives quenches at one address.
type Socket struct{}

// Listen returns an error: the sockets' filter needs Linux.
func Listen(netip.Addr) (*Socket, error) {
	return nil, errors.New("source quenches are taken on Linux alone")
}

// Read reads nothing.
func (s *Socket) Read([]byte) (int, netip.AddrPort, error) { return 0, netip.AddrPort{}, net.ErrClosed }

// Close does nothing.
func (s *Socket) Close() error { return nil }
