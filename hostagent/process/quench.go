package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/adopt"
)

// hear opens the sockets for source quenches. What is nobody's address here is
// left out, unless it was asked for.
func (l *Labelling) hear() (conns []*net.UDPConn, err error) {
	addrs := []netip.Addr{l.Fabric.HostAddr4(l.Host), l.Fabric.HostAddr6(l.Host)}
	if len(l.QuenchAddresses) > 0 {
		addrs = l.QuenchAddresses
	}
	for _, addr := range slices.Concat(addrs, []netip.Addr{hostagent.NoticeAddr}) {
		if addr == hostagent.NoticeAddr && len(conns) == 0 {
			break // it is not this machine that the switches speak to
		}
		conn, err := listenQuenches(addr)
		if errors.Is(err, syscall.EADDRNOTAVAIL) && len(l.QuenchAddresses) == 0 || errors.Is(err, syscall.EAFNOSUPPORT) {
			continue
		}
		if err != nil {
			for _, c := range conns {
				err = errors.Join(err, c.Close())
			}
			return nil, fmt.Errorf("source quenches: %w", err)
		}
		conns = append(conns, conn)
	}
	if len(conns) == 0 {
		l.Log.Warn("source quenches are not heard: this machine has none of the host's addresses; see --quench-address", "addresses", addrs)
	}
	return conns, nil
}

// listenQuenches opens a socket at an address, a multicast one too: package net would bind that to all addresses, where it is in the
// way of the others. All agents of a machine may hear the same notices.
func listenQuenches(addr netip.Addr) (*net.UDPConn, error) {
	if !addr.IsMulticast() {
		return net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, hostagent.QuenchPort)))
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	unix.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), addr.String())
	defer file.Close() //nolint:errcheck // the connection has a descriptor of its own
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return nil, fmt.Errorf("SO_REUSEADDR: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: hostagent.QuenchPort, Addr: addr.As4()}); err != nil {
		return nil, fmt.Errorf("bind %v: %w", addr, err)
	}
	conn, err := net.FilePacketConn(file)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}

// hearQuenches takes source quenches until the socket is closed. What they
// contain is the agent's to judge.
func hearQuenches(ctx context.Context, conn *net.UDPConn, a *adopt.Agent, log *slog.Logger) error {
	b := make([]byte, hostagent.QuenchSize+1)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(b)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("source quenches: %w", err)
		}
		verdict, err := a.Quench(b[:n], from.Addr())
		log.Debug("source quench", "from", from, "verdict", verdict, "err", err)
	}
}
