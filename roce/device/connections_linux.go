package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/accept"
	"github.com/ethereal-fabric/ethereal/roce/device/cm"
)

// messageLifetime is how long a message about a connection is retransmitted.
const messageLifetime = 10 * fabric.Second

// sendMessage is [cm.Config.Send].
func (n *NIC) sendMessage(now fabric.Time, dst fabric.NodeID, b []byte, done func(fabric.Time, bool)) {
	if len(n.sending) >= maxAllSending {
		done(now, false)
		return
	}
	n.sendGram(now, nil, streamKey(kindCM, 0), dst, b, &datagramMessage{until: now + messageLifetime, over: done})
}

// mtu returns enum ibv_mtu's of a payload.
func mtu(payload int) uint32 {
	m := uint32(1)
	for m < 5 && 128<<(m+1) <= payload {
		m++
	}
	return m
}

// serveConnections serves a program's librdmacm.
func (n *NIC) serveConnections(ctx context.Context, conn *net.UnixConn, d Driver) (err error) {
	s := &connServices{n: n, d: d, open: map[uint32]*os.File{}}
	if err := d.Call(ctx, func(fabric.Time) { s.p, s.share = n.manager.Open(), n.shareOf(accept.PeerOf(conn).PID) }); err != nil {
		return err
	}
	defer func() {
		// When the driver has ended the process does so, too.
		d.Call(context.WithoutCancel(ctx), func(now fabric.Time) { //nolint:errcheck // see above
			s.p.Close(now)
			for number := range s.open {
				s.close(number)
			}
		})
		s.readers.Wait()
	}()
	b := make([]byte, cmCallHead+cmMaxLength+1)
	for {
		k, err := conn.Read(b)
		switch {
		case errors.Is(err, io.EOF) || k == 0:
			return nil
		case err != nil:
			return fmt.Errorf("nic: %w", err)
		case k < cmCallHead || k > cmCallHead+cmMaxLength:
			return fmt.Errorf("nic: a command of %d bytes; they have %d to %d", k, cmCallHead, cmCallHead+cmMaxLength)
		}
		channel, command := native.Uint32(b), b[cmCallHead:k]
		answer := make([]byte, cmCallHead, cmCallHead+cmMaxLength)
		var file *os.File
		var failed error
		err = d.Call(ctx, func(now fabric.Time) {
			var out []byte
			var dropped uint32
			if channel == 0 {
				out, file, failed = s.channel(ctx)
			} else {
				out, dropped, failed = s.p.Do(now, channel, command)
			}
			native.PutUint32(answer[4:], dropped)
			answer = append(answer, out...)
		})
		if err != nil {
			return err
		}
		var errno unix.Errno
		if failed != nil && !errors.As(failed, &errno) {
			errno = unix.EIO
		}
		native.PutUint32(answer, uint32(errno))
		var rights []byte
		if file != nil {
			rights = unix.UnixRights(int(file.Fd()))
		}
		_, _, err = conn.WriteMsgUnix(answer, rights, nil)
		if file != nil {
			file.Close() //nolint:errcheck // the program has it
		}
		if err != nil {
			return fmt.Errorf("nic: answer: %w", err)
		}
	}
}

// connServices is the connection state of one program's librdmacm. The driver's goroutine owns it.
type connServices struct {
	n     *NIC
	d     Driver
	p     *cm.Program
	share uint16 // of descriptors
	open  map[uint32]*os.File

	readers sync.WaitGroup // one for each file
}

// channel makes a channel: a pair of sockets, over which the program gets a byte for each event. Its closing ends the
// channel.
func (s *connServices) channel(ctx context.Context) ([]byte, *os.File, error) {
	if !s.n.pools.descriptors.take(s.share) {
		return nil, nil, unix.EMFILE
	}
	failed := func(err error) ([]byte, *os.File, error) {
		s.n.pools.descriptors.giveBack(s.share)
		return nil, nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return failed(unix.EMFILE)
	}
	if err := unix.SetNonblock(pair[0], true); err != nil {
		unix.Close(pair[0]) //nolint:errcheck // nothing was written
		unix.Close(pair[1]) //nolint:errcheck // nothing was written
		return failed(unix.EMFILE)
	}
	here, there := os.NewFile(uintptr(pair[0]), "channel"), os.NewFile(uintptr(pair[1]), "channel")
	number, err := s.p.OpenChannel(func(k int) {
		unix.Write(pair[0], make([]byte, k)) //nolint:errcheck // there is room, and a program that has ended needs none
	})
	if err != nil {
		here.Close()  //nolint:errcheck // nothing was written
		there.Close() //nolint:errcheck // nothing was written
		return failed(err)
	}
	s.open[number] = here
	s.readers.Go(func() {
		io.Copy(io.Discard, here)                                    //nolint:errcheck // the end is all that matters
		s.d.Call(context.WithoutCancel(ctx), func(now fabric.Time) { //nolint:errcheck // as in serveConnections
			if s.open[number] == here {
				s.p.CloseChannel(now, number)
				s.close(number)
			}
		})
	})
	return native.AppendUint32(nil, number), there, nil
}

// close closes a channel's socket.
func (s *connServices) close(number uint32) {
	s.open[number].Close() //nolint:errcheck // the program has closed it, or its reader ends
	delete(s.open, number)
	s.n.pools.descriptors.giveBack(s.share)
}
