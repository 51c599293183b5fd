package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"syscall"

	"github.com/ethereal-fabric/ethereal/hostagent/adopt"
	"github.com/ethereal-fabric/ethereal/hostagent/quenchsocket"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// openSockets opens the sockets for source quenches. It skips an address that is not local, unless the address was
// configured.
func (l *Labelling) openSockets() (conns []*quenchsocket.Socket, err error) {
	addrs := []netip.Addr{l.Fabric.HostAddr4(l.Host), l.Fabric.HostAddr6(l.Host)}
	if len(l.QuenchAddresses) > 0 {
		addrs = l.QuenchAddresses
	}
	for _, addr := range slices.Concat(addrs, []netip.Addr{frame.NoticeAddr}) {
		if addr == frame.NoticeAddr && len(conns) == 0 {
			break // switches use an address of another machine
		}
		conn, err := quenchsocket.Listen(addr)
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
		l.Log.Warn("source quenches are not received: this machine has none of the host's addresses; see --quench-address", "addresses", addrs)
	}
	return conns, nil
}

// receiveQuenches receives source quenches until the socket is closed. The agent judges their content.
func receiveQuenches(ctx context.Context, conn *quenchsocket.Socket, a *adopt.Agent, log *slog.Logger) error {
	b := make([]byte, frame.QuenchSize+1)
	for {
		n, from, err := conn.Read(b)
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
