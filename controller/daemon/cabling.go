package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/controller/cabling"
	"github.com/ethereal-fabric/ethereal/controller/linkstate"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/lldp"
)

// cablingState is the state of a daemon's cabling checks.
type cablingState struct {
	checking sync.Mutex // held by the check in progress
	round    atomic.Pointer[cabling.Round]
}

func (c *cablingState) receive(id fabric.NodeID, in p4rt.PacketIn) {
	if r := c.round.Load(); r != nil {
		r.In(id, in)
	}
}

func newRound(f *fabric.Fabric, frame int) *cabling.Round {
	var token lldp.Token
	rand.Read(token[:]) //nolint:errcheck // never returns an error
	return cabling.NewRound(f, token, frame)
}

// ErrChecking is returned while another check of the cables is in progress.
var ErrChecking = errors.New("the cables are being checked already: ask again when that is done")

// Cabling compares the cables with the fabric file, by test frames of at least frame bytes over the daemon's sessions
// with the switches. It takes at most wait. Only a primary controller can check. While another check is in progress, it
// returns [ErrChecking].
func (d *Daemon) Cabling(ctx context.Context, wait time.Duration, frame int) (*cabling.Report, error) {
	if !d.cables.checking.TryLock() {
		return nil, ErrChecking
	}
	defer d.cables.checking.Unlock()
	s, err := d.Status(ctx)
	if err != nil {
		return nil, err
	}
	round := newRound(d.f, frame)
	d.cables.round.Store(round)
	defer d.cables.round.Store(nil)
	senders := map[fabric.NodeID]cabling.Sender{}
	for _, dev := range d.switches {
		senders[dev.id] = dev.session.Send
	}
	failed, err := round.Conduct(ctx, wait, senders)
	if err != nil {
		return nil, err
	}
	ev := round.Evidence()
	ev.Unasked, ev.Down = failed, map[cabling.Place]bool{}
	for _, l := range s.NotUp {
		id, err := d.f.LinkByName(l.Name)
		if err != nil {
			continue
		}
		ev.Down[cabling.PlaceOf(d.f.Link(id).A)] = l.DownA
		ev.Down[cabling.PlaceOf(d.f.Link(id).B)] = l.DownB
	}
	return cabling.Compare(d.f, ev, placeNames(d.f, d.cfg.Targets)), nil
}

// maxCablingWait is the largest wait that a caller may request.
const maxCablingWait = time.Minute

func (d *Daemon) serveCabling(w http.ResponseWriter, r *http.Request) {
	wait := defaultCablingWait
	if text := r.FormValue("wait"); text != "" {
		var err error
		if wait, err = time.ParseDuration(text); err != nil || wait <= 0 || wait > maxCablingWait {
			http.Error(w, fmt.Sprintf("wait: %q is not a time up to %v", text, maxCablingWait), http.StatusBadRequest)
			return
		}
	}
	frame := 0
	if text := r.FormValue("frame"); text != "" {
		var err error
		if frame, err = strconv.Atoi(text); err != nil || frame < 0 || frame > cabling.MaxFrame {
			http.Error(w, fmt.Sprintf("frame: %q is not a number of bytes up to %d", text, cabling.MaxFrame), http.StatusBadRequest)
			return
		}
	}
	report, err := d.Cabling(r.Context(), wait, frame)
	switch {
	case errors.Is(err, ErrChecking):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		writeJSON(w, report)
	}
}

// defaultCablingWait suffices for frames that are repeated every 250 ms on a busy switch.
const defaultCablingWait = 3 * time.Second

// CablingOptions are the options of [CheckCabling].
type CablingOptions struct {
	Wait time.Duration // longest wait for frames; 0: 3 s
	// Push installs the program on switches that run another, or none. Without it these switches are skipped.
	Push  bool
	Frame int // minimum length of a frame in bytes; see cabling.MaxFrame
}

// CheckCabling compares the cables with the fabric, on switches without a controller. During the check it is
// primary, with the election id Config.Own; it writes no table.
func CheckCabling(ctx context.Context, cfg Config, o CablingOptions) (*cabling.Report, error) {
	cfg = cfg.withDefaults()
	if cfg.Own == 0 {
		cfg.Own = 1 // below every controller that has taken over from another
	}
	if o.Wait == 0 {
		o.Wait = defaultCablingWait
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	f := cfg.Core.Fabric
	c := &cablingCheck{cfg: cfg, opts: o, round: newRound(f, o.Frame), senders: map[fabric.NodeID]cabling.Sender{}}
	c.ev.Unasked, c.ev.Down = map[fabric.NodeID]error{}, map[cabling.Place]bool{}
	defer c.close()
	var g errgroup.Group
	g.SetLimit(maxSurveyed)
	for i := range f.Switches() {
		id := fabric.NodeID(f.Hosts() + i)
		g.Go(func() error {
			if err := c.open(ctx, id); err != nil {
				c.mu.Lock()
				c.ev.Unasked[id] = err
				c.mu.Unlock()
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	failed, err := c.round.Conduct(ctx, o.Wait, c.senders)
	if err != nil {
		return nil, err
	}
	maps.Copy(c.ev.Unasked, failed)
	evidence := c.round.Evidence()
	c.ev.Received, c.ev.Strangers = evidence.Received, evidence.Strangers
	return cabling.Compare(f, c.ev, placeNames(f, cfg.Targets)), nil
}

type cablingCheck struct {
	cfg   Config
	opts  CablingOptions
	round *cabling.Round

	mu      sync.Mutex
	conns   []*grpc.ClientConn
	packets []*p4rt.PacketStream
	senders map[fabric.NodeID]cabling.Sender
	ev      cabling.Evidence
}

func (c *cablingCheck) close() {
	for _, p := range c.packets {
		p.Close()
	}
	for _, conn := range c.conns {
		conn.Close() //nolint:errcheck // nothing is under way
	}
}

func (c *cablingCheck) dial(addr string) (*grpc.ClientConn, error) {
	conn, err := c.cfg.Dial(addr)
	if err != nil {
		return nil, fmt.Errorf("daemon: %s: %w", addr, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, conn)
	return conn, nil
}

// errOtherProgram is why a switch is skipped.
var errOtherProgram = errors.New("it does not run the program; start a controller, or have it pushed")

// open becomes primary at a switch, and requests its port states.
func (c *cablingCheck) open(ctx context.Context, id fabric.NodeID) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.SurveyTimeout)
	defer cancel()
	t := c.cfg.Targets[id]
	conn, err := c.dial(t.P4Runtime)
	if err != nil {
		return err
	}
	pipeline := c.cfg.pipeline(id)
	client := pipeline.Client(conn)
	runs, err := pipeline.Installed(ctx, client, t.DeviceID)
	if err != nil {
		return err
	}
	if !runs && !c.opts.Push {
		return errOtherProgram
	}
	w := p4rt.Writer{DeviceID: t.DeviceID, ElectionID: p4rt.ElectionID{Low: c.cfg.Own}.Proto()}
	p, err := p4rt.OpenPacketStream(ctx, client, pipeline.Schema(), w, func(in p4rt.PacketIn) { c.round.In(id, in) })
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.packets = append(c.packets, p)
	c.mu.Unlock()
	w.ElectionID = p.ElectionID().Proto()
	if !runs {
		if err := pipeline.Install(ctx, client, w); err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.senders[id] = p.Send
	c.mu.Unlock()
	return c.askPorts(ctx, id)
}

func (c *cablingCheck) askPorts(ctx context.Context, id fabric.NodeID) error {
	t := c.cfg.Targets[id]
	if t.GNMI == "" {
		return nil
	}
	conn, err := c.dial(t.GNMI)
	if err != nil {
		return err
	}
	states, err := linkstate.ReadPortStates(ctx, conn, linkstate.Subscription{Target: t.GNMITarget, Names: t.Ports})
	if err != nil {
		return nil // received frames count; port states only explain
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for p, up := range states {
		c.ev.Down[cabling.Place{Node: id, Port: p}] = !up
	}
	return nil
}

// placeNames formats places with the names on the switches' front panels.
func placeNames(f *fabric.Fabric, ts map[fabric.NodeID]Target) cabling.Names {
	plain := cabling.PlainNames(f)
	return func(p cabling.Place) string {
		var ports *targets.PortMap
		if t, ok := ts[p.Node]; ok {
			ports = t.Ports
		}
		if name := ports.Name(p.Port); ports.Len() > 0 && name != "" {
			return plain(p) + " (" + name + ")"
		}
		return plain(p)
	}
}
