package daemon

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/controller/linkstate"
	"github.com/ethereal-fabric/ethereal/controller/notify"
	"github.com/ethereal-fabric/ethereal/controller/observe"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/controller/rollout"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/internal/loglimit"
)

// Daemon is a running controller; see the package comment.
type Daemon struct {
	cfg     Config
	f       *fabric.Fabric
	conns   map[string]*grpc.ClientConn
	service *notify.Service
	inbox   *inbox
	began   time.Time
	metrics *metrics
	cables  cablingState
	loads   *observe.Loads // nil: counters are not read
	paths   observe.Paths
	largest observe.Largest
	drops   observe.Drops
	viewer  *viewer // nil: no page

	// The following fields belong to the goroutine of loop.
	core     *rollout.Core
	zero     time.Time // of the core's clock
	peers    []*peer   // their number does not change
	switches []*device // by NodeID - Hosts
	last     Convergence
	changes  uint64
	refusals uint64
	flips    uint64 // reported by agents

	badReports, wrongTokens *loglimit.Limiter
}

// device is the state of one switch.
type device struct {
	id      fabric.NodeID
	name    string
	target  Target
	session *p4rt.Session
	ports   *linkstate.Session // nil: no gNMI

	phase       p4rt.Phase
	phaseErr    string
	health      linkstate.Health
	healthErr   string
	sampling    bool
	tenure      uint64
	stray       []*p4.Entity // found when last read back; the next repair deletes them
	verdict     Verdict
	entries     int    // when last read back
	repairs     uint64 // updates that repaired read-back tables
	unfitReason string // why the program cannot hold the tables
}

func (d *Daemon) device(id fabric.NodeID) *device { return d.switches[int(id)-d.f.Hosts()] }

// New returns a daemon, or the error of [Config.Validate].
func New(cfg Config) (*Daemon, error) {
	if cfg.Core.Instance == "" {
		cfg.Core.Instance = newInstance()
	}
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if missing := cfg.Unchecked(); len(missing) > 0 {
		return nil, fmt.Errorf("%w: %s; compile it, and name the files", ErrConfig, missing[0])
	}
	core, err := rollout.New(0, cfg.rollout())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	now := time.Now()
	d := &Daemon{
		cfg: cfg, f: cfg.Core.Fabric, core: core, began: now, zero: now, metrics: newMetrics(),
		conns: map[string]*grpc.ClientConn{}, inbox: newInbox(),
		badReports: loglimit.New(cfg.Log, time.Second), wrongTokens: loglimit.New(cfg.Log, time.Second),
	}
	d.service = notify.NewService(notify.ServiceConfig{
		Hosts: d.f.Hosts(), Log: cfg.Log, Name: func(host uint32) string { return d.f.Name(fabric.NodeID(host)) },
		OnReport: func(host uint32, r *statepb.Report) { d.inbox.post(func() { d.agentReported(fabric.NodeID(host), r) }) },
	})
	if cfg.Loads > 0 {
		d.loads = observe.NewLoads(d.f, d.cfg.Loads)
	}
	if cfg.View {
		d.viewer = newViewer()
		cfg.Events.Watch(func(r eventlog.Record) { d.viewer.addEvent(d.f, d.began, r) })
	}
	if err := d.readDrained(); err != nil {
		return nil, err
	}
	for i := range d.f.Switches() {
		dev, err := d.newDevice(fabric.NodeID(d.f.Hosts() + i))
		if err != nil {
			return nil, errors.Join(err, d.closeConns())
		}
		d.switches = append(d.switches, dev)
	}
	if err := d.newPeers(); err != nil {
		return nil, errors.Join(err, d.closeConns())
	}
	return d, nil
}

// newInstance returns a unique name of a run.
func newInstance() string {
	var b [8]byte
	rand.Read(b[:]) //nolint:errcheck // never returns an error
	return hex.EncodeToString(b[:])
}

// Service returns the service that agents watch, to be registered with a gRPC server.
func (d *Daemon) Service() *notify.Service { return d.service }

func (d *Daemon) conn(addr string) (*grpc.ClientConn, error) {
	if c, ok := d.conns[addr]; ok {
		return c, nil
	}
	c, err := d.cfg.Dial(addr)
	if err != nil {
		return nil, fmt.Errorf("daemon: %s: %w", addr, err)
	}
	d.conns[addr] = c
	return c, nil
}

func (d *Daemon) closeConns() error {
	var errs []error
	for _, c := range d.conns {
		errs = append(errs, c.Close())
	}
	for _, p := range d.peers {
		errs = append(errs, p.conn.Close())
	}
	return errors.Join(errs...)
}

func (d *Daemon) newDevice(id fabric.NodeID) (*device, error) {
	t := d.cfg.Targets[id]
	dev := &device{id: id, name: d.f.Name(id), target: t}
	conn, err := d.conn(t.P4Runtime)
	if err != nil {
		return nil, err
	}
	log := d.cfg.Log.With("switch", dev.name)
	dev.session, err = p4rt.NewSession(p4rt.SessionConfig{
		DeviceID: t.DeviceID, Own: d.cfg.Own, Pipeline: d.cfg.pipeline(id), BatchSize: d.cfg.batchSize(id),
		KeepAlive: d.cfg.KeepAlive, Backoff: d.cfg.Backoff, Log: log,
		OnPhase:  func(p p4rt.Phase, err error) { d.inbox.post(func() { d.phaseChanged(dev, p, err) }) },
		OnTables: func(tenure uint64, t p4rt.Tables) { d.inbox.post(func() { d.tablesRead(dev, tenure, t) }) },
		OnPacket: func(in p4rt.PacketIn) { d.cables.receive(id, in) },
	}, conn)
	if err != nil || t.GNMI == "" {
		return dev, err
	}
	if conn, err = d.conn(t.GNMI); err != nil {
		return nil, err
	}
	dev.ports, err = linkstate.NewSession(linkstate.SessionConfig{
		Target: t.GNMITarget, Names: t.Ports, Ports: d.f.Node(id).Ports(), Heartbeat: d.cfg.Heartbeat, Backoff: d.cfg.Backoff, Log: log,
		OnHealth: func(h linkstate.Health, err error) {
			sampling := dev.ports.Sampling()
			d.inbox.post(func() { d.healthChanged(dev, h, sampling, err) })
		},
		OnChanges: func(cs []linkstate.Change) { d.inbox.post(func() { d.portsChanged(dev, cs) }) },
	}, conn)
	return dev, err
}

// Run runs the daemon until ctx ends, and returns ctx's error. A daemon runs once.
func (d *Daemon) Run(ctx context.Context) error {
	spec := d.f.Spec()
	d.cfg.Events.Add(eventlog.Record{Time: time.Now(), Kind: "start", State: d.cfg.Core.Instance, Fabric: &spec})
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.loop(ctx) })
	for _, dev := range d.switches {
		g.Go(func() error { return dev.session.Run(ctx) })
		if dev.ports != nil {
			g.Go(func() error { return dev.ports.Run(ctx) })
		}
	}
	for _, p := range d.peers {
		g.Go(func() error { return d.followPeer(ctx, p) })
	}
	if d.loads != nil {
		g.Go(func() error { return d.watchLoads(ctx) })
	}
	if slices.ContainsFunc(d.switches, func(dev *device) bool { return dev.target.Admin != "" }) {
		g.Go(func() error { return d.watchDrops(ctx) })
	}
	if d.viewer != nil {
		g.Go(func() error { return d.publishTicks(ctx) })
	}
	err := g.Wait()
	d.inbox.close()
	d.cfg.Events.Add(eventlog.Record{Time: time.Now(), Kind: "end"})
	if cerr := d.closeConns(); cerr != nil {
		d.cfg.Log.Warn("closing connections", "err", cerr)
	}
	return err
}
