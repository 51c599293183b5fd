package machines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/accept"
	"github.com/ethereal-fabric/ethereal/internal/printable"
	placement "github.com/ethereal-fabric/ethereal/testbed/machines"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// plan describes a machine's part of a fabric. Its certificates are only those of the nodes there.
type plan struct {
	Build     string            `json:"build"` // of the program, which must be the same everywhere
	Spec      fabric.Spec       `json:"spec"`
	Addresses []netip.Addr      `json:"addresses"`
	Machine   int               `json:"machine"`
	Payload   int               `json:"payload"`
	Datapath  string            `json:"datapath,omitempty"`
	VXLANPort int               `json:"vxlan_port"`
	Files     map[string][]byte `json:"files"` // ca.pem, NAME.pem, NAME.key
}

// maxPlan bounds a plan, in bytes.
const maxPlan = 64 << 20

// writePlan sends a machine its part: the number of bytes, a line end, and JSON.
func writePlan(w io.Writer, p *plan) error {
	text, err := json.Marshal(p)
	if err == nil {
		_, err = fmt.Fprintf(w, "%d\n%s", len(text), text)
	}
	return err
}

// readPlan reads what writePlan wrote, and nothing after it.
func readPlan(r io.Reader) ([]byte, *plan, error) {
	var digits []byte
	for b := []byte{0}; ; {
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, nil, fmt.Errorf("live: no plan on the standard input, which live up --on writes: %w", err)
		}
		if b[0] == '\n' {
			break
		}
		if digits = append(digits, b[0]); len(digits) > 9 {
			break
		}
	}
	size, err := strconv.ParseUint(string(digits), 10, 32)
	if err != nil || size > maxPlan {
		return nil, nil, fmt.Errorf("live: the plan begins with %q, not with its size; live up --on starts this, not people", digits)
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(size))) // as much memory as comes
	if err == nil && len(text) < int(size) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, nil, fmt.Errorf("live: the plan ends early: %w", err)
	}
	p := &plan{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, nil, fmt.Errorf("live: the plan is not understood: %w", err)
	}
	return text, p, nil
}

// place returns where the plan's fabric is.
func (p *plan) place() (*placement.Placement, error) {
	f, err := fabric.NewSinglePlane(p.Spec, "the live world")
	if err != nil {
		return nil, err
	}
	if p.Machine < 0 || p.Machine >= len(p.Addresses) {
		return nil, fmt.Errorf("live: the plan has %d machines and is for number %d", len(p.Addresses), p.Machine)
	}
	return placement.Place(f, p.Addresses)
}

// planFile is the plan in the folder of a part's namespaces.
const planFile = "plan.json"

// ServePart is a machine's part of a fabric on several, until the connection to its starter ends: the plan, and
// then orders, come by the standard input, answers go by the standard output. It starts this program again, with args, in
// namespaces of its own, where [Part] carries the plan out. Tunnels to other machines and what these reach by TCP begin in
// this process's network namespace, the machine's, and go with the process.
func ServePart(ctx context.Context, build string, args []string, log *slog.Logger) (code int, err error) {
	text, p, err := readPlan(os.Stdin)
	if err != nil {
		return 0, err
	}
	if p.Build != build {
		return 0, fmt.Errorf("live: this program is build %s, that of the first machine %s; copy that one here", build, p.Build)
	}
	place, err := p.place()
	if err != nil {
		return 0, err
	}
	cmd, dir, done, err := live.Prepare(args)
	if err != nil {
		return 0, err
	}
	defer done() //nolint:errcheck // the next one will try again
	if err := os.WriteFile(filepath.Join(dir, planFile), text, 0o600); err != nil {
		return 0, fmt.Errorf("live: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	if err := relay(ctx, g, place, p.Machine, dir, log); err != nil {
		return 0, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	code, err = live.EnterBy(ctx, cmd, func(pid int) error {
		for _, id := range placement.Crossing(place.Fabric, place.At) {
			if err := tunnel(place, p, id, pid); err != nil {
				return err
			}
		}
		return nil
	})
	cancel()
	return code, errors.Join(err, g.Wait())
}

// tunnel makes a link's end here, if it has one, in the network namespace of a process. Its packets leave by this one.
func tunnel(place *placement.Placement, p *plan, id fabric.LinkID, pid int) error {
	l := place.Fabric.Link(id)
	own, other := l.A, l.B
	if place.At[own.Node] != p.Machine {
		own, other = other, own
	}
	if place.At[own.Node] != p.Machine {
		return nil
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.TxQLen = live.InterfaceName(place.Fabric, own), live.MTU(p.Payload), 1000
	mac := place.Fabric.MAC(own.Node)
	attrs.HardwareAddr, attrs.Namespace = net.HardwareAddr(mac[:]), netlink.NsPid(pid)
	here, there := p.Addresses[p.Machine], p.Addresses[place.At[other.Node]]
	err := netlink.LinkAdd(&netlink.Vxlan{
		LinkAttrs: attrs, VxlanId: place.VNI(id), SrcAddr: here.AsSlice(), Group: there.AsSlice(), Port: p.VXLANPort,
	})
	if err != nil {
		return fmt.Errorf("live: link %s: tunnel %d from %v to %v: %w; it takes root, the kernel's vxlan, and a --vxlan-port that nobody "+
			"else has tunnels of these numbers at", place.Fabric.LinkName(id), place.VNI(id), here, there, err)
	}
	return nil
}

// partQueue is what a port's queue holds, in packets: an even share of 16 MiB of a switch with eight ports and packets of
// 8 KiB. Experiments come later, with their own buffers, which switches do not learn.
const partQueue = 256

// Part carries a plan out in namespaces that [ServePart] made, and serves orders on the standard input and output.
func Part(ctx context.Context, dir string, log *slog.Logger) error {
	text, err := os.ReadFile(filepath.Join(dir, planFile))
	if err != nil {
		return fmt.Errorf("live: %w", err)
	}
	p := &plan{}
	if err := json.Unmarshal(text, p); err != nil {
		return fmt.Errorf("live: %w", err)
	}
	place, err := p.place()
	if err != nil {
		return err
	}
	mine := &live.Part{Here: func(id fabric.NodeID) bool { return place.At[id] == p.Machine }, Certs: filepath.Join(dir, "certs")}
	if err := os.Mkdir(mine.Certs, 0o700); err != nil {
		return fmt.Errorf("live: %w", err)
	}
	for name, text := range p.Files {
		if name != filepath.Base(name) {
			return fmt.Errorf("live: the plan has a file %q", name)
		}
		if err := os.WriteFile(mine.File(name), text, 0o600); err != nil {
			return fmt.Errorf("live: %w", err)
		}
	}
	x, err := live.New(ctx, live.Config{
		Base: live.Base{Dir: dir, Switches: live.Switches{Datapath: p.Datapath}, Log: log, Lost: sayLost}, Fabric: place.Fabric, Payload: p.Payload, QueueDepth: partQueue,
		Addresses: true, Part: mine,
	})
	if err != nil {
		return err
	}
	defer x.Close()
	if err := x.StartHosts(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return serveOrders(ctx, x, place, log, os.Stdin, os.Stdout) })
	g.Go(func() error {
		if err := x.Keep(ctx); err != nil {
			return err
		}
		return errDown
	})
	if err := g.Wait(); !errors.Is(err, errDown) {
		return err
	}
	return nil
}

// sayLost says in the part's log that a process has ended; live status says it, too.
func sayLost(err error) { fmt.Fprintln(os.Stderr, printable.Text(err.Error())) } //nolint:errcheck // it is for people

// errDown says that somebody asked for the end.
var errDown = errors.New("live: taken down")

// serveAll serves a listener's connections until ctx ends, at which all are closed. How many there may be is for serve to
// say.
func serveAll(ctx context.Context, g *errgroup.Group, lis net.Listener, log *slog.Logger, serve func(net.Conn)) {
	o := accept.Options{Most: -1, PerUser: -1, PerPID: -1, Silence: -1, Log: log}
	g.Go(func() error {
		if err := accept.Serve(ctx, lis, o, func(_ context.Context, c net.Conn) { serve(c) }); ctx.Err() == nil {
			return err
		}
		return nil
	})
}

// pass passes on what both ends say, until one ends: half a connection is no use to gRPC, whose other end would wait for
// an agent that is gone.
func pass(a, b io.ReadWriteCloser) {
	done := make(chan struct{}, 2)
	one := func(to io.WriteCloser, from io.Reader) {
		io.Copy(to, from) //nolint:errcheck // either end may end it
		done <- struct{}{}
	}
	go one(a, b)
	go one(b, a)
	<-done
	a.Close() //nolint:errcheck // as above
	b.Close() //nolint:errcheck // as above
	<-done
}
