package device

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/accept"
	"github.com/ethereal-fabric/ethereal/internal/loglimit"
)

// Driver is the event loop that runs a NIC, in one goroutine. A soft.EventLoop is one.
type Driver interface {
	// Call calls f in the driver's goroutine and waits for it. The error is ctx's, or means that the driver has ended.
	Call(ctx context.Context, f func(now fabric.Time)) error
	// Watch wakes the driver whenever a descriptor becomes readable.
	Watch(fd int) error
	Unwatch(fd int)
}

// Serve serves programs until ctx ends. It closes the listener, and returns ctx's
// error or the listener's.
func (n *NIC) Serve(ctx context.Context, lis *net.UnixListener, d Driver) error {
	var end func()
	var failed error
	if err := d.Call(ctx, func(fabric.Time) { end, failed = n.accessInGoroutines() }); err != nil || failed != nil {
		return errors.Join(err, failed, lis.Close())
	}
	defer d.Call(context.WithoutCancel(ctx), func(fabric.Time) { end() }) //nolint:errcheck // else the process ends
	if err := d.Watch(n.accessed.wake); err != nil {
		return errors.Join(err, lis.Close())
	}
	defer d.Unwatch(n.accessed.wake)
	g, ctx := errgroup.WithContext(ctx)
	if n.cfg.Interface != "" {
		g.Go(func() error { return n.followPort(ctx, d) })
	}
	g.Go(func() error { return n.accept(ctx, lis, d) })
	return g.Wait()
}

// accept serves programs until ctx ends.
func (n *NIC) accept(ctx context.Context, lis *net.UnixListener, d Driver) error {
	cut := loglimit.New(n.cfg.Log, time.Second)
	return accept.Serve(ctx, lis, accept.Options{Most: maxClients, Log: n.cfg.Log}, func(ctx context.Context, conn net.Conn) {
		if err := n.serve(ctx, conn.(*net.UnixConn), d); err != nil && ctx.Err() == nil {
			cut.Warn("a program was cut off", "err", err)
		}
	})
}

// serve processes the calls of one program, over its connection to the device, until it disconnects.
func (n *NIC) serve(ctx context.Context, conn *net.UnixConn, d Driver) (err error) {
	var c *client
	defer func() {
		if c == nil {
			return
		}
		d.Unwatch(c.kick)
		// When the driver has ended the process does so, too.
		d.Call(context.WithoutCancel(ctx), func(now fabric.Time) { c.close(now) }) //nolint:errcheck // see above
	}()
	for {
		in, memory, err := receive(conn)
		if err != nil || in == nil {
			return err
		}
		if err := accept.ClearDeadline(conn); err != nil {
			return err
		}
		out, fds, once := programCall{}, []int(nil), -1 // once: a descriptor that is only the program's
		var failed error
		file := false
		switch {
		case c == nil && callOp(in.word) == opCM && in.arg[0] == ABI && memory < 0:
			if _, err = conn.Write(out.encode()); err != nil {
				return fmt.Errorf("nic: answer: %w", err)
			}
			return n.serveConnections(ctx, conn, d)
		case c == nil && callOp(in.word) == opHello && in.arg[0] == ABI && memory >= 0:
			pid := accept.PeerOf(conn).PID
			m := openMapped(pid)
			err = d.Call(ctx, func(fabric.Time) { c, fds, failed = n.open(memory, pid, m) })
			if err == nil && c != nil {
				memory = -1 // the client's
				err = d.Watch(c.kick)
				out.arg[0], out.arg[1], out.arg[2] = uint64(n.addr), uint64(n.cfg.Payload), n.guid()
				copy(out.arg[firstLimit:], deviceLimits[:])
				defer unix.Close(fds[2]) //nolint:errcheck // the program has it
			}
		case c == nil:
			failed = unix.EPROTO
		default:
			if o := callOp(in.word); o == opRegMR || o == opReregMR {
				if file, failed = c.memory.look(in, c.pid); failed != nil {
					break
				}
			}
			err = d.Call(ctx, func(now fabric.Time) {
				c.lendsFiles = c.lendsFiles || file
				if out, once, failed = c.runCall(now, in); once >= 0 {
					fds = []int{once}
				}
			})
		}
		if memory >= 0 {
			unix.Close(memory) //nolint:errcheck // nothing was written
		}
		if err != nil {
			return err
		}
		var errno unix.Errno
		if failed != nil && !errors.As(failed, &errno) {
			errno = unix.EIO
		}
		out.word = uint32(errno)
		_, _, err = conn.WriteMsgUnix(out.encode(), unix.UnixRights(fds...), nil)
		if once >= 0 {
			unix.Close(once) //nolint:errcheck // the program has it
		}
		if err != nil {
			return fmt.Errorf("nic: answer: %w", err)
		}
	}
}

// receive reads a call, and the descriptor that comes with it, -1 if none. It returns
// nil at the end.
func receive(conn *net.UnixConn) (*programCall, int, error) {
	var b [callSize + 1]byte
	oob := make([]byte, unix.CmsgSpace(4*4))
	n, m, flags, _, err := conn.ReadMsgUnix(b[:], oob)
	if n == 0 && m == 0 {
		return nil, -1, nil // it has ended, whether or not it said so
	}
	fd := -1
	if ms, bad := unix.ParseSocketControlMessage(oob[:m]); bad == nil {
		for i := range ms {
			fds, bad := unix.ParseUnixRights(&ms[i])
			for _, x := range fds {
				if bad == nil && fd < 0 {
					unix.CloseOnExec(x)
					fd = x
				} else {
					unix.Close(x) //nolint:errcheck // not asked for
				}
			}
		}
	}
	if err == nil && (n != callSize || flags&unix.MSG_TRUNC != 0) {
		err = fmt.Errorf("nic: a call of %d bytes; they have %d", n, callSize)
	}
	if err != nil {
		if fd >= 0 {
			unix.Close(fd) //nolint:errcheck // not used
		}
		return nil, -1, err
	}
	in := &programCall{}
	in.parse((*[callSize]byte)(b[:]))
	return in, fd, nil
}

// guid returns the device's GUID (EUI-64).
func (n *NIC) guid() uint64 { return interfaceID(n.cfg.Fabric, n.cfg.Host) }

// interfaceID is a host's MAC address as EUI-64 has it, with a constant in the middle.
func interfaceID(f *fabric.Fabric, host fabric.NodeID) uint64 {
	m := f.MAC(host)
	return uint64(m[0]^2)<<56 | uint64(m[1])<<48 | uint64(m[2])<<40 | 0xfffe<<24 | uint64(m[3])<<16 | uint64(m[4])<<8 | uint64(m[5])
}

// findHost returns the IPv4 address of the host with an interface identifier, ENOENT if there is none.
func (n *NIC) findHost(id uint64) (uint64, error) {
	f := n.cfg.Fabric
	host := fabric.NodeID(id>>40&0xff<<24 | id&0xffffff)
	if host < 0 || int(host) >= f.Hosts() || interfaceID(f, host) != id {
		return 0, unix.ENOENT
	}
	a := f.HostAddr4(host).As4()
	return uint64(binary.BigEndian.Uint32(a[:])), nil
}
