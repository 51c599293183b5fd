package accept

import (
	"net"

	"golang.org/x/sys/unix"
)

// PeerOf asks the kernel which process opened a UNIX socket.
func PeerOf(conn net.Conn) (u Peer) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return u
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return u
	}
	//nolint:errcheck // then it is not known
	raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			u = Peer{cred.Uid, cred.Pid, true}
		}
	})
	return u
}
