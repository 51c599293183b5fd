// Package accept has the accept loop of all servers with the project's own protocols; gRPC and HTTP servers have
// their own loops.
//
// It bounds the number of open connections, in all, per user of the machine and per process, and the time for which
// a new one may be silent. It survives a lack of file descriptors: open connections continue, and new ones are
// accepted when some have ended.
package accept

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/loglimit"
)

// Options limits a server's connections. A zero field means its default, a negative one no limit.
type Options struct {
	Most    int           // connections open at once; default 1024
	PerUser int           // per user, over UNIX sockets; default half of Most
	PerPID  int           // per process, over UNIX sockets; default a quarter of Most
	Silence time.Duration // how long a new connection may send nothing; default 10 s. [ClearDeadline] ends that limit.
	Log     *slog.Logger  // warns of refused connections, once a second; nil: none
}

// Defaults of [Options].
const (
	DefaultMost    = 1024
	DefaultSilence = 10 * time.Second
)

// retryInterval is the pause after a failed Accept, such as without free descriptors.
const retryInterval = 100 * time.Millisecond

func (o Options) withDefaults() Options {
	if o.Most == 0 {
		o.Most = DefaultMost
	}
	if o.PerUser == 0 && o.Most > 0 {
		o.PerUser = max(1, o.Most/2)
	}
	if o.PerPID == 0 && o.Most > 0 {
		o.PerPID = max(1, o.Most/4)
	}
	if o.Silence == 0 {
		o.Silence = DefaultSilence
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Serve calls serve for each connection, in a new goroutine, until ctx ends. Then it closes the listener and all
// connections, waits for serve and returns ctx's error. A connection is closed when serve returns. If another
// goroutine closed the listener, Serve returns the listener's error.
func Serve(ctx context.Context, lis net.Listener, o Options, serve func(context.Context, net.Conn)) error {
	o = o.withDefaults()
	warn := loglimit.New(o.Log, time.Second)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { lis.Close() }) //nolint:errcheck // Accept returns for it
	defer stop()
	open := connections{byUser: map[uint32]int{}, byPID: map[int32]int{}}
	for {
		conn, err := lis.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close() //nolint:errcheck // nobody serves it
			}
			return ctx.Err()
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept: %w", err)
		case err != nil: // the listener works: some connections will end
			warn.Warn("cannot accept a connection; trying again", "addr", lis.Addr().String(), "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(retryInterval):
			}
			continue
		}
		u := PeerOf(conn)
		why := refuseStranger(lis, u)
		if why == "" {
			why = open.add(u, o)
		}
		if why != "" {
			warn.Warn("connection refused", "addr", lis.Addr().String(), "why", why)
			conn.Close() //nolint:errcheck // nothing was said
			continue
		}
		wg.Go(func() {
			defer open.remove(u)
			defer conn.Close()                                      //nolint:errcheck // all is said
			defer context.AfterFunc(ctx, func() { conn.Close() })() //nolint:errcheck // its reader sees it
			if o.Silence > 0 && conn.SetReadDeadline(time.Now().Add(o.Silence)) != nil {
				return
			}
			serve(ctx, conn)
		})
	}
}

// refuseStranger says why a peer may not connect to an abstract socket, which has no permissions: it is of another
// user.
func refuseStranger(lis net.Listener, u Peer) string {
	a, ok := lis.Addr().(*net.UnixAddr)
	if !ok || !strings.HasPrefix(a.Name, "@") || u.Known && (u.UID == 0 || int(u.UID) == os.Geteuid()) {
		return ""
	}
	return fmt.Sprintf("user %d is not this process's user, %d", u.UID, os.Geteuid())
}

// ClearDeadline removes the deadline for a client's first message. Call it after that message: from then on the client
// may be silent.
func ClearDeadline(conn net.Conn) error { return conn.SetReadDeadline(time.Time{}) }

// connections counts open connections.
type connections struct {
	mu     sync.Mutex
	all    int
	byUser map[uint32]int
	byPID  map[int32]int
}

// add counts a connection, or returns why it must be refused.
func (c *connections) add(u Peer, o Options) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case o.Most > 0 && c.all >= o.Most:
		return fmt.Sprintf("%d connections are open, the most that is allowed", c.all)
	case u.Known && o.PerUser > 0 && c.byUser[u.UID] >= o.PerUser:
		return fmt.Sprintf("user %d has %d connections open, the most that one user may have", u.UID, c.byUser[u.UID])
	case u.PID != 0 && o.PerPID > 0 && c.byPID[u.PID] >= o.PerPID:
		return fmt.Sprintf("process %d has %d connections open, the most that one process may have", u.PID, c.byPID[u.PID])
	}
	c.all++
	if u.Known {
		c.byUser[u.UID]++
		c.byPID[u.PID]++
	}
	return ""
}

func (c *connections) remove(u Peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if !u.Known {
		return
	}
	if c.byUser[u.UID]--; c.byUser[u.UID] == 0 {
		delete(c.byUser, u.UID)
	}
	if c.byPID[u.PID]--; c.byPID[u.PID] == 0 {
		delete(c.byPID, u.PID)
	}
}

// Peer is the process at the other end of a connection, if the kernel reports it: over a UNIX socket, on Linux.
type Peer struct {
	UID   uint32
	PID   int32 // 0: in another PID namespace
	Known bool
}
