//go:build !linux

package quenchsocket

import (
	"errors"
	"net"
	"net/netip"
)

// Socket is open at one address.
type Socket struct{}

// Listen refuses: the filter of these sockets takes Linux.
func Listen(netip.Addr) (*Socket, error) {
	return nil, errors.New("source quenches are taken on Linux alone")
}

// Read reads nothing.
func (s *Socket) Read([]byte) (int, netip.AddrPort, error) { return 0, netip.AddrPort{}, net.ErrClosed }

// Close does nothing.
func (s *Socket) Close() error { return nil }
