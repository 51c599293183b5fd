package neighbour

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/lldp"
)

// Socket receives and sends the LLDP frames of one network interface.
type Socket struct {
	file *os.File
	name string
}

// Open opens a socket for an interface's LLDP frames. It requires CAP_NET_RAW.
func Open(name string) (_ *Socket, err error) {
	fail := func(err error) (*Socket, error) { return nil, fmt.Errorf("neighbour: %s: %w", name, err) }
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return fail(err)
	}
	proto := uint16(lldp.EtherType>>8 | lldp.EtherType&0xff<<8) // network byte order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(proto))
	if err != nil {
		return fail(err)
	}
	mreq := unix.PacketMreq{Ifindex: int32(ifi.Index), Type: unix.PACKET_MR_MULTICAST, Alen: 6}
	copy(mreq.Address[:], lldp.Multicast[:])
	if err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: proto, Ifindex: ifi.Index}); err == nil {
		err = unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &mreq)
	}
	if err != nil {
		return fail(errors.Join(err, unix.Close(fd)))
	}
	return &Socket{file: os.NewFile(uintptr(fd), "lldp "+name), name: name}, nil
}

// Run answers cabling checks until ctx ends, closes the socket, and returns ctx's error. While the interface is down,
// it waits.
func (s *Socket) Run(ctx context.Context, f *fabric.Fabric, host fabric.NodeID, log *slog.Logger) error {
	stop := context.AfterFunc(ctx, func() { s.file.Close() }) //nolint:errcheck // Read sees it
	defer stop()
	a := New(f, host)
	buf := make([]byte, 2048)
	last := fabric.End{}
	for {
		n, err := s.file.Read(buf)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, unix.ENETDOWN):
			time.Sleep(100 * time.Millisecond) // the error is reported once per change; this avoids a busy loop
			continue
		case err != nil:
			return fmt.Errorf("neighbour: %s: %w", s.name, err)
		}
		reply, from, ok := a.Answer(time.Now(), buf[:n])
		if !ok {
			continue
		}
		if from != last {
			last = from
			if !a.Planned(from) {
				log.Warn("cabled to another port than planned", "switch", f.Name(from.Node), "port", from.Port)
			}
		}
		if _, err := s.file.Write(reply); err != nil && ctx.Err() == nil {
			log.Warn("answering a cabling check", "err", err)
		}
	}
}
