package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/deployment/gray"
)

// Config sets up a [Fabric].
type Config struct {
	Base
	Fabric *fabric.Fabric
	// Payload is the largest payload of a packet, in bytes, from which the links' MTU is computed.
	Payload int
	// QueueDepth is the length of the switches' queues, in packets; 0: 64.
	QueueDepth int
	// Addresses gives the hosts' interfaces their IP addresses, so that programs
	// can use them.
	Addresses bool
}

// Fabric is a running fabric of processes on this machine. See the package comment. It is safe for concurrent use.
type Fabric struct {
	cfg    Config
	f      *fabric.Fabric
	dir    string
	mtu    int
	log    *slog.Logger
	thread *thread
	handle *netlink.Handle // of the fabric's namespace
	wires  [][2]*wire      // by link: A's end and B's
	gray   gray.Losses
	hosts  []*hostNode
	// addresses gives hosts their addresses again; nil without addresses.
	addresses *linkFollower

	mu         sync.Mutex
	switches   []*Process // by NodeID - Hosts; nil: killed
	closing    bool       // everything is coming down
	lost       []error    // processes that ended though they were not to
	controller *Process
	notifiers  Notifiers // of the latest controller
}

// space is a network namespace that a node's interfaces are in.
type space struct {
	ns     namespace
	handle *netlink.Handle
}

func (s space) close() {
	if s.handle != nil {
		s.handle.Close()
	}
	s.ns.close()
}

// hostNode is a host's namespace and process.
type hostNode struct {
	space
	id   fabric.NodeID
	proc *Process
}

// New creates the links and starts the switches. The calling process must be in namespaces that [Enter] made.
func New(ctx context.Context, cfg Config) (x *Fabric, err error) {
	if _, ok := Inside(); !ok {
		return nil, errors.New("live: this process is not in its own namespaces; see Enter")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	x = &Fabric{
		cfg: cfg, f: cfg.Fabric, dir: cfg.Dir, mtu: MTU(cfg.Payload), log: cfg.Log,
		wires: make([][2]*wire, cfg.Fabric.Links()), switches: make([]*Process, cfg.Fabric.Switches()),
	}
	if x.thread, err = newThread(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			x.Close()
			x = nil // closed, and not to be closed again
		}
	}()
	if x.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return x, fmt.Errorf("live: netlink: %w", err)
	}
	if err := x.thread.do(setUpNamespace); err != nil {
		return x, err
	}
	text, err := yaml.Marshal(x.f.Spec())
	if err != nil {
		return x, fmt.Errorf("live: %w", err)
	}
	if err := os.WriteFile(x.path("fabric.yaml"), text, 0o600); err != nil {
		return x, fmt.Errorf("live: %w", err)
	}
	for h := range x.f.Hosts() {
		n := &hostNode{id: fabric.NodeID(h)}
		x.hosts = append(x.hosts, n)
		if n.space, err = x.newSpace(n.id); err != nil {
			return x, err
		}
	}
	for id := range x.f.Links() {
		if err := x.connect(x.f.Link(fabric.LinkID(id))); err != nil {
			return x, err
		}
	}
	if cfg.Addresses {
		if err := errors.Join(x.addressHosts(), x.nameHosts()); err != nil {
			return x, err
		}
	}
	return x, x.startSwitches(ctx)
}

func (x *Fabric) path(name string) string { return filepath.Join(x.dir, name) }

// In calls f in a thread that is in the network namespace of a node.
func (x *Fabric) In(node fabric.NodeID, f func() error) error {
	return x.thread.in(x.space(node).ns, f)
}

// newSpace makes a namespace for a node.
func (x *Fabric) newSpace(id fabric.NodeID) (s space, err error) {
	if s.ns, err = x.thread.newNamespace(x.f.Name(id)); err != nil {
		return s, err
	}
	err = x.thread.in(s.ns, func() (err error) {
		s.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return s, fmt.Errorf("live: netlink: %w", err)
	}
	return s, nil
}

// space returns where a node's interfaces are. Switches share the fabric's own.
func (x *Fabric) space(id fabric.NodeID) space {
	if n := x.host(id); n != nil {
		return n.space
	}
	return space{x.thread.home, x.handle}
}

// host returns a host; nil: the node is none.
func (x *Fabric) host(id fabric.NodeID) *hostNode {
	if int(id) >= len(x.hosts) {
		return nil
	}
	return x.hosts[id]
}

// Socket returns the UNIX socket of a node: a switch's P4Runtime, a host's control.
func (x *Fabric) Socket(id fabric.NodeID) string { return x.path(x.f.Name(id) + ".sock") }

// agentSocket returns the UNIX socket of a host's status.
func (x *Fabric) agentSocket(id fabric.NodeID) string { return x.path(x.f.Name(id) + ".admin.sock") }

// verbsSocket is the UNIX socket of each host's RDMA device: an abstract one, which each network namespace has for
// itself. All hosts have the same name, because launchers such as MPICH's mpiexec give all processes the environment of
// the first host.
const verbsSocket = "unix:@ethereal-verbs"

// startSwitches starts all switches and waits until they serve.
func (x *Fabric) startSwitches(ctx context.Context) error {
	var g errgroup.Group
	for i := range x.f.Switches() {
		id := fabric.NodeID(x.f.Hosts() + i)
		if err := x.startSwitch(id); err != nil {
			return errors.Join(err, g.Wait())
		}
		g.Go(func() error { return x.waitSwitch(ctx, id) })
	}
	return g.Wait()
}

func (x *Fabric) startSwitch(id fabric.NodeID) error {
	name, sock := x.f.Name(id), x.Socket(id)
	os.Remove(sock) //nolint:errcheck // of a process that was killed, if at all
	bench := x.launchParams(id)
	command := x.cfg.kind().Command(bench)
	if x.cfg.needs().Shadows {
		if err := x.shadow(id, bench, command.Beside); err != nil {
			return err
		}
	}
	exited := func(p *Process) { x.ended(p); x.switchEnded(id) }
	var p *Process
	var err error
	if bench.Binary == "" {
		p, err = x.thread.start(x.space(id).ns, name, x.dir, command.Args, exited)
	} else {
		p, err = x.thread.startProgram(x.space(id).ns, name, x.dir, append([]string{bench.Binary}, command.Args...), exited)
	}
	if err != nil {
		return err
	}
	x.mu.Lock()
	x.switches[int(id)-x.f.Hosts()] = p
	x.mu.Unlock()
	return nil
}

func deviceID(id fabric.NodeID) uint64 { return uint64(id) + 1 }

func (x *Fabric) waitSwitch(ctx context.Context, id fabric.NodeID) error {
	x.mu.Lock()
	p := x.switches[int(id)-x.f.Hosts()]
	x.mu.Unlock()
	if p == nil {
		return fmt.Errorf("live: %s has ended; see %s", x.f.Name(id), x.path(x.f.Name(id)+".log"))
	}
	return WaitFor(ctx, StartLimit, x.f.Name(id)+" serves", func() (bool, error) {
		if err := p.Ended(); err != nil {
			return true, err
		}
		return isListening(x.Socket(id)), nil
	})
}

// StartLimit is the longest time that a process may take to serve, or a controller to write all tables. It is long for
// busy machines, and longer than a flapping link is held down.
const StartLimit = 2 * time.Minute

// isListening reports whether somebody listens on a UNIX socket.
func isListening(path string) bool {
	c, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	c.Close() //nolint:errcheck // nothing was said
	return true
}

// ended records and reports a process that was not to end.
func (x *Fabric) ended(p *Process) {
	err := p.ending()
	x.mu.Lock()
	unasked := !p.endedByUs.Load() && !x.closing
	if unasked {
		x.lost = append(x.lost, err)
	}
	x.mu.Unlock()
	if unasked && x.cfg.Lost != nil {
		x.cfg.Lost(err)
	}
}

// switchEnded takes the links of a switch down whose process has ended: a dead box
// has no carrier.
func (x *Fabric) switchEnded(id fabric.NodeID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.switches[int(id)-x.f.Hosts()] = nil
	if x.closing {
		return
	}
	if err := x.takeLinksDown(id); err != nil {
		x.log.Error("links of a dead switch", "err", err)
	}
}

// end returns a node's end of a link.
func (x *Fabric) end(l fabric.LinkID, id fabric.NodeID) *wire {
	if x.f.Link(l).A.Node == id {
		return x.wires[l][0]
	}
	return x.wires[l][1]
}

// StartHosts starts the hosts' agents and waits until they accept requests.
func (x *Fabric) StartHosts(ctx context.Context) error {
	for _, n := range x.hosts {
		if err := x.startHost(n); err != nil {
			return err
		}
	}
	var g errgroup.Group
	for _, n := range x.hosts {
		g.Go(func() error {
			return WaitFor(ctx, StartLimit, x.f.Name(n.id)+" serves", func() (bool, error) {
				if err := n.proc.Ended(); err != nil {
					return true, err
				}
				return isListening(x.Socket(n.id)), nil
			})
		})
	}
	return g.Wait()
}

func (x *Fabric) startHost(n *hostNode) (err error) {
	args := []string{
		"host", "agent", "--fabric", x.path("fabric.yaml"), "--host", x.f.Name(n.id), "--interface", HostInterface,
		"--controller", "unix:" + x.ControllerSocket(), "--listen-socket", "unix:" + x.Socket(n.id), "--listen-admin", "unix:" + x.agentSocket(n.id), "--log-level", "warn",
	}
	if x.cfg.Addresses {
		args = append(args, "--listen-verbs", verbsSocket, "--payload", strconv.Itoa(x.cfg.Payload))
	}
	n.proc, err = x.thread.start(n.ns, x.f.Name(n.id), x.dir, args, x.ended)
	return err
}

// Check returns an error that names the processes that have ended unexpectedly, or nil.
func (x *Fabric) Check() error { return errors.Join(x.Lost()...) }

// Lost returns an error for each process that has ended unexpectedly.
func (x *Fabric) Lost() []error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.lost)
}

// Close ends all processes and removes the links.
func (x *Fabric) Close() {
	x.mu.Lock()
	x.closing = true
	var all []*Process
	for _, p := range append([]*Process{x.controller}, x.switches...) {
		if p != nil {
			all = append(all, p)
		}
	}
	for _, n := range x.hosts {
		if n.proc != nil {
			all = append(all, n.proc)
		}
	}
	x.mu.Unlock()
	for _, p := range all {
		p.sendKill()
	}
	for _, p := range all {
		<-p.done
	}
	if x.addresses != nil {
		x.addresses.close()
	}
	x.gray.Heal("") //nolint:errcheck // the namespace goes, too
	for _, w := range x.wires {
		for _, end := range w {
			if end != nil {
				end.ns.LinkDel(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: end.index}}) //nolint:errcheck // the namespace goes, too
				break
			}
		}
	}
	for _, n := range x.hosts {
		n.close()
	}
	if x.handle != nil {
		x.handle.Close()
	}
	x.thread.close()
}
