package machines

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/fabric"
	placement "github.com/ethereal-fabric/ethereal/testbed/machines"
)

// A client that reaches a machine reaches the ports of its nodes, and shows a certificate only to the node itself. So
// a relay bounds what comes before that.
const (
	// relayedMost and relayedFrom are how many connections to a node are open at once, of all and of one address: one
	// address does not keep others away. A controller and a runner have two each, for P4Runtime and gNMI.
	relayedMost = 64
	relayedFrom = 32
	// firstBytes is how long a connection may take until it says something: in TLS the client speaks first.
	firstBytes = 10 * time.Second
)

// relay lets other machines reach the switches and agents here by TCP, and agents here the controller. What is said is
// sealed from end to end: a relay only passes it on.
func relay(ctx context.Context, g *errgroup.Group, place *placement.Placement, machine int, dir string,
	log *slog.Logger,
) error {
	for i := range place.Fabric.Nodes() {
		id := fabric.NodeID(i)
		if place.At[i] != machine {
			continue
		}
		lis, err := net.Listen("tcp", place.Reached(id))
		if err != nil {
			return fmt.Errorf("live: %s is to be reached at %s: %w", place.Fabric.Name(id), place.Reached(id), err)
		}
		socket := place.Fabric.Name(id) + ".sock"
		if place.IsHost(id) {
			socket = place.Fabric.Name(id) + ".admin.sock"
		}
		r := &relayed{name: place.Fabric.Name(id), to: dialer("unix", filepath.Join(dir, socket)), log: log}
		serveAll(ctx, g, lis, log, func(c net.Conn) { r.serve(ctx, c) })
	}
	lis, err := net.Listen("unix", filepath.Join(dir, "controller.sock"))
	if err != nil {
		return fmt.Errorf("live: %w", err)
	}
	to := dialer("tcp", place.Controller(placement.AgentsPort))
	serveAll(ctx, g, lis, log, func(c net.Conn) { passTo(ctx, c, nil, to) }) // from agents, in a folder of this program's
	return nil
}

// dial opens a connection to where a relay leads.
type dial func(ctx context.Context) (net.Conn, error)

func dialer(network, addr string) dial {
	return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, addr) }
}

// passTo passes on what is said on a connection, of which the first bytes have been read.
func passTo(ctx context.Context, c net.Conn, first []byte, to dial) {
	out, err := to(ctx)
	if err != nil {
		return // the caller sees the end, and calls again
	}
	defer out.Close() //nolint:errcheck // all is said
	if _, err := out.Write(first); err == nil {
		pass(c, out)
	}
}

// relayed are the connections from other machines to a node.
type relayed struct {
	name string
	to   dial
	log  *slog.Logger

	mu      sync.Mutex
	open    map[netip.Addr]int
	all     int
	refused time.Time // when that was last logged
}

// serve passes a connection on when something was said on it, if there are not too many.
func (r *relayed) serve(ctx context.Context, c net.Conn) {
	from := source(c)
	if !r.enter(from) {
		return
	}
	defer r.leave(from)
	first := make([]byte, 1<<10)
	if err := c.SetReadDeadline(time.Now().Add(firstBytes)); err != nil {
		return
	}
	n, err := c.Read(first)
	if err != nil || c.SetReadDeadline(time.Time{}) != nil {
		return
	}
	passTo(ctx, c, first[:n], r.to)
}

// source is the address of who is at the other end; of what has none, an address that is none.
func source(c net.Conn) netip.Addr {
	if tcp, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// enter reports whether there is room for one more.
func (r *relayed) enter(from netip.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all >= relayedMost || r.open[from] >= relayedFrom {
		if now := time.Now(); now.Sub(r.refused) >= time.Minute {
			r.refused = now
			r.log.Warn("connections are refused: too many are open", "node", r.name,
				"from", from, "of it", r.open[from], "of all", r.all)
		}
		return false
	}
	if r.open == nil {
		r.open = map[netip.Addr]int{}
	}
	r.open[from]++
	r.all++
	return true
}

func (r *relayed) leave(from netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	if r.open[from]--; r.open[from] == 0 {
		delete(r.open, from)
	}
}
