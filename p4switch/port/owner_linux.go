package port

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/internal/accept"
)

// killTimeout is how long a process that was killed may need to end.
const killTimeout = time.Second

// holdOwner makes this process the only one that opens an interface as owner, until the listener is closed. It is an
// abstract socket: that is of a network namespace, as the interface is, and ends with the process. The error names the
// process that is the owner already.
func holdOwner(ifname, owner string) (net.Listener, error) {
	at := &net.UnixAddr{Net: "unix", Name: "@ethereal/" + ifname + "/" + owner}
	lis, err := net.ListenUnix("unix", at)
	for until := time.Now().Add(killTimeout); errors.Is(err, unix.EADDRINUSE) && time.Now().Before(until); {
		time.Sleep(killTimeout / 100)
		lis, err = net.ListenUnix("unix", at)
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, ownedBy(at, owner)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", owner, err)
	}
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			conn.Close() //nolint:errcheck // its process has seen who this is
		}
	}()
	return lis, nil
}

// ownedBy is the error if another process is the owner; nil if that is of a user who must not keep this one out.
func ownedBy(at *net.UnixAddr, owner string) error {
	conn, err := net.DialUnix("unix", nil, at)
	if err != nil {
		return fmt.Errorf("%s: another process is that already", owner)
	}
	defer conn.Close() //nolint:errcheck // nothing was written
	p := accept.PeerOf(conn)
	if p.Known && p.UID != 0 && int(p.UID) != os.Geteuid() {
		return nil
	}
	if p.PID == 0 {
		return fmt.Errorf("a process of another PID namespace is %s on this interface already; end it first", owner)
	}
	return fmt.Errorf("process %d is %s on this interface already; end it first", p.PID, owner)
}
