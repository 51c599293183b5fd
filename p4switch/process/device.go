package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/internal/certs"
	"github.com/ethereal-fabric/ethereal/internal/introspect"
	"github.com/ethereal-fabric/ethereal/p4switch/gnmi"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/p4runtime"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// linksID is the poller's id of Config.Links; ports have their index.
const linksID = -1

// maxPending is the largest number of control packets that wait to be injected.
const maxPending = 4096

// maxRecirculated is the largest number of packets that wait for another pass, as in BMv2's input buffer.
const maxRecirculated = 1024

// Device is a P4 switch as a process: ports, data path, P4Runtime and gNMI.
type Device struct {
	cfg        Config
	log        *slog.Logger
	clockStart time.Time // when the data plane's clock was 0
	start      int64     // the same, in ns since the Unix epoch
	poller     *port.Poller

	// control guards the control side: the P4Runtime and gNMI services. It is taken before mu, and never by
	// forwarding.
	control    sync.Mutex
	core       *p4runtime.Core
	states     *portstate.Ports
	p4Server   *p4runtime.Server
	gnmiServer *gnmi.Server

	// mu guards the rest, which belongs to forwarding.
	mu            lock
	sw            *interp.Switch // in the data path; nil: none
	notifications pendingNotices

	datapath datapath

	ports    []*egress // by position
	byNumber []*egress // by number, for small numbers
	others   map[uint32]*egress
	byIndex  map[int]*egress
	ready    []*egress // Receive may have more
	staged   []*egress // with a batch to send

	blocked     int    // ports
	rounds      uint64 // of work
	lastWork    int64  // ns: when the data plane last became idle
	lastIngress uint64 // Stats.Ingress then

	pending  []injectedFrame // to be injected, oldest first
	injected int             // of them
	recirc   fifo
	spawned  int  // packets that one packet became in egress
	portless fifo // for ports without an interface
	batch    interp.Batch
	now      int64 // ns on the data plane's clock
	eventsOn bool  // the program wants port events
	linksDue bool  // Links have changes
	stats    Stats
}

// injectedFrame is a packet that the switch itself injects.
type injectedFrame struct {
	port uint32
	data []byte
}

// New returns a switch with open ports. After an error the ports, links and model stay the caller's.
func New(cfg Config) (*Device, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	d := &Device{cfg: cfg, log: cfg.Log, datapath: interpreterDatapath{}, others: map[uint32]*egress{}, byIndex: map[int]*egress{}}
	d.clockStart = time.Now()
	d.start = d.clockStart.UnixNano()
	d.notifications.ready = make(chan struct{}, 1)
	poller, err := port.NewPoller()
	if err != nil {
		return nil, err
	}
	d.poller = poller
	if err = d.addPorts(); err == nil {
		err = d.addServices()
	}
	if err != nil {
		if d.cfg.Model == nil { // which stays the caller's
			err = errors.Join(err, d.datapath.close())
		}
		return nil, errors.Join(err, poller.Close())
	}
	return d, nil
}

func (d *Device) addServices() (err error) {
	cfg := interp.Config{QueuesPerPort: d.cfg.Queues, DropPort: d.cfg.DropPort, MaxPasses: d.cfg.MaxPasses, MaxLoops: d.cfg.MaxLoops}
	if d.cfg.Trace != nil {
		cfg.Tracer = &interp.Tracer{Done: d.cfg.Trace}
	}
	if d.cfg.LogMessages {
		cfg.Log = func(r interp.LogRecord) { d.log.Info("program", "message", r.Text) }
	}
	d.core, err = p4runtime.New(p4runtime.Config{
		DeviceID: d.cfg.DeviceID, AllowDeviceZero: true, Ports: d.states, CPUPort: d.cfg.CPUPort,
		Budget: d.cfg.Budget, DataPath: &d.mu, Later: d.runLater,
		Now: d.unixNanoseconds, Epoch: d.start, Switch: cfg,
		OnSwitch: d.useSwitch, OnPacketOut: d.packetOut, PartialPacketOut: d.cfg.PartialPacketOut, Unrestricted: d.cfg.Unrestricted, OnPortEvent: d.onPortEvent,
		PortTables: d.cfg.portTables(), OnPortTables: d.repeatPortEvents,
	})
	if err != nil {
		return err
	}
	telemetry, err := gnmi.New(gnmi.Config{Ports: d.states, Now: d.unixNanoseconds, Budget: d.cfg.Budget})
	if err != nil {
		return err
	}
	d.p4Server, d.gnmiServer = p4runtime.NewServer(&d.control, d.core), gnmi.NewServer(&d.control, telemetry)
	return nil
}

// Run forwards packets and handles timers until ctx ends or the switch fails. It returns ctx's error or the
// failure. It may be called once.
func (d *Device) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.p4Server.Run(ctx) })
	g.Go(func() error { return d.gnmiServer.Run(ctx) })
	g.Go(func() error { return d.notifyLoop(ctx) })
	g.Go(func() error { return d.datapath.run(ctx) })
	g.Go(func() error {
		defer whenDone(ctx, d.poller.Wake)()
		return d.forward(ctx)
	})
	return g.Wait()
}

// whenDone calls f when ctx ends. The function that it returns cancels that, or waits until f has returned.
func whenDone(ctx context.Context, f func()) (stop func()) {
	called := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(called)
		f()
	})
	return func() {
		if !cancel() {
			<-called
		}
	}
}

// Serve answers P4Runtime and gNMI requests on the listener, which it closes, until ctx ends.
func (d *Device) Serve(ctx context.Context, l net.Listener, opts ...grpc.ServerOption) error {
	s := grpc.NewServer(append(append(rpc.Options(d.cfg.Budget, certs.RoleOf), grpc.WaitForHandlers(true)), opts...)...)
	d.p4Server.Register(s)
	d.gnmiServer.Register(s)
	stopping := introspect.Register(s)
	defer whenDone(ctx, func() {
		stopping()
		s.Stop()
	})()
	if err := s.Serve(rpc.LimitConnections(l, d.cfg.Budget)); err != nil && ctx.Err() == nil {
		return fmt.Errorf("switch: serve: %w", err)
	}
	s.Stop() // waits for the handlers
	return ctx.Err()
}

// Do calls f with the switch's P4Runtime side, under the control side's lock: f must neither wait nor call the
// device, nor touch the switch in the data path.
func (d *Device) Do(f func(*p4runtime.Core)) {
	d.control.Lock()
	defer d.control.Unlock()
	f(d.core)
}

// Inspect calls f with the switch in the data path, or nil, while no packet is processed: f must neither wait nor call
// the device.
func (d *Device) Inspect(f func(*interp.Switch)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d.sw)
}

// Install puts a program into the data path without a controller. info may be nil: the program then runs with its
// constant entries and default actions until a controller pushes a pipeline.
func (d *Device) Install(json []byte, info *p4config.P4Info) error {
	if info == nil {
		info = &p4config.P4Info{}
	}
	d.control.Lock()
	defer d.control.Unlock()
	return d.core.Install(&p4.ForwardingPipelineConfig{P4DeviceConfig: json, P4Info: info})
}

// Stats returns the counts so far.
func (d *Device) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	for _, e := range d.ports {
		c := e.port.Counters()
		s.TooLong += c.InTooLong + c.OutTooLong
		s.Cut += c.InCut
	}
	s.LongestHold = d.mu.longest
	if d.sw != nil {
		for i, n := range d.sw.Drops() {
			s.PipelineDrops[i] += n
		}
	}
	d.datapath.counted(&s)
	return s
}

// Close frees the ports and everything else. Run and Serve must have returned.
func (d *Device) Close() error {
	errs := []error{d.datapath.close()}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.ports {
		errs = append(errs, e.port.Close())
	}
	if d.cfg.Links != nil {
		errs = append(errs, d.cfg.Links.Close())
	}
	return errors.Join(append(errs, d.poller.Close())...)
}

// useSwitch puts a new switch into the data path. Packets of the old one finish in the old one.
func (d *Device) useSwitch(sw *interp.Switch) {
	start := d.datapath.use(sw)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sw != nil { // its counts are kept
		for i, n := range d.sw.Drops() {
			d.stats.PipelineDrops[i] += n
		}
		for _, e := range d.ports {
			e.drops += d.sw.PortDrops(e.number)
		}
	}
	d.sw = sw
	start()
	d.eventsOn = d.cfg.wantsPortEvents(sw.Program())
	for _, e := range d.ports {
		e.notifiedUp = true // a new program assumes ports up
	}
	d.pending, d.injected = d.pending[:0], 0
}

// packetOut injects a controller's packet.
func (d *Device) packetOut(data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inject(injectedFrame{d.cfg.CPUPort, data})
}

func (d *Device) inject(f injectedFrame) {
	if len(d.pending) >= maxPending {
		d.stats.InjectDrops++
		return
	}
	d.pending = append(d.pending, f)
	d.poller.Wake()
}

// onPortEvent makes the packet that notifies the program of a port.
func (d *Device) onPortEvent(number uint32, up bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.egressOf(number); e != nil {
		d.portEvent(e, up)
	}
}

func (d *Device) portEvent(e *egress, up bool) {
	if !d.eventsOn || e.notifiedUp == up || e.number >= d.cfg.PortEvents.Ports {
		return
	}
	e.notifiedUp = up
	e.epoch++
	d.injectPortEvent(e)
}

// injectPortEvent notifies the program of a port's last event.
func (d *Device) injectPortEvent(e *egress) {
	events := d.cfg.PortEvents
	d.stats.PortEvents++
	d.inject(injectedFrame{events.Port, events.Append(nil, uint16(e.number), e.notifiedUp, e.epoch)})
}

// repeatPortEvents sends the program the last port events again, because it has only now learned which ports are
// uplinks. Ports that are up come first, since an uplink's index may have moved from a dead port to a live one.
func (d *Device) repeatPortEvents() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.eventsOn || !slices.ContainsFunc(d.ports, func(e *egress) bool { return e.epoch > 0 }) {
		return
	}
	for _, up := range []bool{true, false} {
		for _, e := range d.ports {
			if e.notifiedUp == up && e.number < d.cfg.PortEvents.Ports {
				d.injectPortEvent(e)
			}
		}
	}
}
