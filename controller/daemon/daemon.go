package daemon

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/damping"
	"github.com/ethereal-fabric/ethereal/controller/drains"
	"github.com/ethereal-fabric/ethereal/controller/linkstate"
	"github.com/ethereal-fabric/ethereal/controller/notify"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// Daemon is a controller at work; see the package comment.
type Daemon struct {
	cfg     Config
	f       *fabric.Fabric
	conns   map[string]*grpc.ClientConn
	service *notify.Service
	inbox   *inbox
	began   time.Time
	metrics *metrics
	cables  cables

	// What follows belongs to the goroutine of loop.
	core      *controller.Core
	damper    *damping.Damper
	suspicion *suspicion.Core
	drains    drains.Set
	early     map[damping.Port]time.Time // ports that are up before their switches have tables, and until when they wait
	peers     []*peer                    // their number does not change
	switches  []*device                  // by NodeID - Hosts
	conductor conductor
	stageDue  time.Time // of the present stage
	settled   bool
	trigger   time.Time // of the first event that is not written yet
	last      Convergence
	changes   uint64
	refusals  uint64
	repairs   uint64

	oddReports int       // that made no sense, since oddSaid
	oddSaid    time.Time // when the log said so
}

// device is what is known of one switch.
type device struct {
	id      fabric.NodeID
	name    string
	target  Target
	session *p4rt.Session
	ports   *linkstate.Session // nil: no gNMI

	phase    p4rt.Phase
	phaseErr string
	health   linkstate.Health
	healthEr string
	told     bool // its ports, once
	sampling bool
	tenure   uint64
	held     *p4rt.Held // read before the daemon settled
	synced   bool       // deltas may be written
	pending  int        // writes under way
	audit    time.Time  // when the tables are to be read back
	verdict  Verdict
	entries  int                    // read back last
	portsUp  map[fabric.PortNo]bool // as heard last, where the data plane is told
	retell   time.Time              // when it is told of all of them again
	unfit    string                 // why the program cannot hold the tables
}

// New returns a daemon, or what [Config.Validate] reports.
func New(cfg Config) (*Daemon, error) {
	if cfg.Core.Instance == "" {
		cfg.Core.Instance = newInstance()
	}
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	core, err := controller.New(cfg.Core)
	if err != nil {
		return nil, err
	}
	damper, err := damping.New(cfg.Damping)
	if err != nil {
		return nil, err
	}
	cfg.Suspicion.Fabric = cfg.Core.Fabric
	suspects, err := suspicion.New(cfg.Suspicion)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	d := &Daemon{
		cfg: cfg, f: cfg.Core.Fabric, core: core, damper: damper, suspicion: suspects, began: time.Now(), metrics: newMetrics(),
		conns: map[string]*grpc.ClientConn{}, inbox: newInbox(), early: map[damping.Port]time.Time{},
	}
	d.service = notify.NewService(notify.ServiceConfig{
		Hosts: d.f.Hosts(), Log: cfg.Log, Name: func(host uint32) string { return d.f.Name(fabric.NodeID(host)) },
		OnReport: func(host uint32, r *statepb.Report) { d.inbox.put(func() { d.reported(fabric.NodeID(host), r) }) },
	})
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
	if !slices.ContainsFunc(d.switches, func(dev *device) bool { return dev.ports != nil }) {
		d.cfg.Settle = 0 // nobody will tell of ports
	}
	return d, nil
}

// newInstance names a run so that no other has its name.
func newInstance() string {
	var b [8]byte
	rand.Read(b[:]) //nolint:errcheck // never returns an error
	return hex.EncodeToString(b[:])
}

// Service returns what agents watch, to be registered with a gRPC server.
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
		OnPhase:  func(p p4rt.Phase, err error) { d.inbox.put(func() { d.phaseChanged(dev, p, err) }) },
		OnTables: func(tenure uint64, h p4rt.Held) { d.inbox.put(func() { d.tablesRead(dev, tenure, h) }) },
		OnPacket: func(in p4rt.PacketIn) { d.cables.heard(id, in) },
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
			d.inbox.put(func() { d.healthChanged(dev, h, sampling, err) })
		},
		OnChanges: func(cs []linkstate.Change) { d.inbox.put(func() { d.portsChanged(dev, cs) }) },
	}, conn)
	return dev, err
}

// Run works until ctx ends, and returns ctx's error. A daemon runs once.
func (d *Daemon) Run(ctx context.Context) error {
	d.cfg.Events.add(Record{Time: time.Now(), Kind: "start", State: d.cfg.Core.Instance})
	for _, m := range d.drains.Marks() { // of the state file
		if up := false; m.Drained {
			d.cfg.Events.add(Record{Time: time.Now(), Kind: "drain", Link: d.f.LinkName(m.Link), Up: &up})
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.loop(ctx) })
	for _, dev := range d.switches {
		g.Go(func() error { return dev.session.Run(ctx) })
		if dev.ports != nil {
			g.Go(func() error { return dev.ports.Run(ctx) })
		}
	}
	for _, p := range d.peers {
		g.Go(func() error { return d.follow(ctx, p) })
	}
	err := g.Wait()
	d.inbox.close()
	d.cfg.Events.add(Record{Time: time.Now(), Kind: "end"})
	if cerr := d.closeConns(); cerr != nil {
		d.cfg.Log.Warn("closing connections", "err", cerr)
	}
	return err
}
