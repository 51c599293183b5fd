package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/internal/accept"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
)

// Exec runs a command in the network namespace of a host of the running fabric, with this process's standard files and
// signals, and returns its exit code. If host names a switch, the command runs among the switches' interfaces.
func Exec(host string, command []string) (int, error) {
	dir, err := os.Getwd()
	if err != nil {
		return 0, fmt.Errorf("live: %w", err)
	}
	c, _, err := dial()
	if err != nil {
		return 0, err
	}
	defer c.Close() //nolint:errcheck // all is said
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	a, err := ask(c, order{Host: host, Exec: command, Env: os.Environ(), Dir: dir}, unix.UnixRights(0, 1, 2), func() {
		for s := range signals { // until the process ends
			c.Write([]byte{byte(s.(syscall.Signal))}) //nolint:errcheck // the answer has come
		}
	})
	return a.Code, err
}

// StatusOf returns the status of the running fabric.
func StatusOf(ctx context.Context) (Status, error) {
	c, _, err := dial()
	if err != nil {
		return Status{}, err
	}
	defer c.Close() //nolint:errcheck // all is said
	defer closeWhenDone(ctx, c)()
	a, err := ask(c, order{Status: true}, nil, nil)
	return a.Status, err
}

// downNotice is the time after which [Down] prints which processes it waits for.
const downNotice = 2 * time.Second

// Down stops the running fabric, and returns when it is gone or ctx ends. If that takes long, it writes to log what it
// waits for.
func Down(ctx context.Context, log io.Writer) error {
	c, socket, err := dial()
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // all is said
	defer closeWhenDone(ctx, c)()
	dir, owner := filepath.Dir(socket), accept.PeerOf(c).PID
	lock, err := os.OpenFile(filepath.Join(dir, folderLock), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("live: %w", err)
	}
	defer lock.Close() //nolint:errcheck // only locked
	notice := time.AfterFunc(downNotice, func() {
		fmt.Fprintf(log, "waiting for process %d, which keeps the fabric in %s\n", owner, dir) //nolint:errcheck // it is for people
	})
	defer notice.Stop()
	if _, err := ask(c, order{Down: true}, nil, nil); err != nil {
		return errors.Join(err, ctx.Err())
	}
	// Its owner has the lock until it has removed the folder.
	return WaitFor(ctx, StartLimit, fmt.Sprintf("process %d, which keeps the fabric in %s, has ended", owner, dir), func() (bool, error) {
		return tryLock(lock)
	})
}

// closeWhenDone ends a connection when ctx ends; stop undoes that.
func closeWhenDone(ctx context.Context, c net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() { c.Close() }) //nolint:errcheck // the reader sees it
}

// fabricsUp returns the sockets of this user's fabrics that are up, and the number of folders like theirs that are not
// this user's.
func fabricsUp() (up []string, others int) {
	folders, others := deployment.LiveFolders()
	for _, dir := range folders {
		if path := filepath.Join(dir, exploreSocket); isListening(path) {
			up = append(up, path)
		}
	}
	return up, others
}

// findRunning returns the socket of the one fabric that is up.
func findRunning() (string, error) {
	found, others := fabricsUp()
	switch {
	case len(found) == 0 && others > 0:
		return "", fmt.Errorf("live: no fabric of this user is up, and %d folders %s* in %s are other users': they are not believed; "+
			"ethereal live up makes a fabric, and says when it is up", others, deployment.LivePrefix, os.TempDir())
	case len(found) == 0:
		return "", errors.New("live: no fabric is up; ethereal live up makes one, and says when it is")
	case len(found) > 1:
		return "", fmt.Errorf("live: %d fabrics are up; there must be one (set TMPDIR to select it)", len(found))
	}
	return found[0], nil
}

// dial connects to the owner of the fabric that is up, which the kernel says is this user's process.
func dial() (*net.UnixConn, string, error) {
	socket, err := findRunning()
	if err != nil {
		return nil, "", err
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, "", fmt.Errorf("live: %w", err)
	}
	if err := checkSameUser(c); err != nil {
		return nil, "", errors.Join(err, c.Close())
	}
	return c, socket, nil
}

// ask sends an order to the process that owns the fabric, and waits for the answer. meanwhile, if not nil, runs during
// the wait.
func ask(c *net.UnixConn, o order, oob []byte, meanwhile func()) (a answer, err error) {
	text, err := json.Marshal(o)
	if err == nil {
		_, _, err = c.WriteMsgUnix(text, oob, nil)
	}
	if meanwhile != nil {
		go meanwhile()
	}
	if err == nil || errors.Is(err, unix.EPIPE) { // who refuses an order unread says why, and closes
		if unread := json.NewDecoder(c).Decode(&a); err == nil || unread == nil {
			err = unread
		}
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		return a, fmt.Errorf("live: %w", err)
	}
	return a, nil
}
