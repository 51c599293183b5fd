package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/internal/introspect"
	"github.com/ethereal-fabric/ethereal/p4switch/gnmi"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// DefaultRefresh is how often the state of all ports is sent to the program again.
const DefaultRefresh = time.Second

// Interface is one port of the switch.
type Interface struct {
	Number uint32 // in the P4 program
	Device string // the network interface
	Name   string // towards gNMI; empty: as Device
}

// Config sets up a [Sidecar]. Interfaces are required.
type Config struct {
	Interfaces []Interface
	// EventInterface is where port-event packets are sent, in the format of PortEvents. Empty: they are not.
	EventInterface string
	// PortEvents is required with EventInterface. Its Port, Register and Tables are not used: the interface leads to
	// the port, and a sidecar does not see the program.
	PortEvents *portstate.EventPackets
	// Refresh is how often the state of all ports is sent to the program again. 0:
	// DefaultRefresh.
	Refresh time.Duration
	Log     *slog.Logger // nil: silent
}

// Sidecar serves gNMI over the network interfaces of a switch.
type Sidecar struct {
	cfg    Config
	links  *port.Links
	poller *port.Poller
	events *port.Interface // nil: no port events
	base   time.Time
	start  int64 // base, in ns since the Unix epoch

	mu       sync.Mutex
	ports    *portstate.Ports
	gnmi     *gnmi.Core
	server   *gnmi.Server
	byDevice map[string]*iface
	byLower  map[int]*iface // by the index of what it is stacked on
	byNumber map[uint32]*iface
	order    []*iface
	lost     uint64 // of them, at the event interface
}

// iface is what is known of one interface.
type iface struct {
	Interface
	index int // 0: it is not there
	lower int // of the interface it is stacked on; 0: on none
	up    bool
	epoch uint32 // of its last change
}

// New opens netlink and the event interface. An interface that is missing is
// down until it appears.
func New(cfg Config) (s *Sidecar, err error) {
	switch {
	case len(cfg.Interfaces) == 0:
		return nil, errors.New("sidecar: no interfaces")
	case cfg.EventInterface != "" && cfg.PortEvents == nil:
		return nil, errors.New("sidecar: an event interface, but no format of port events")
	case cfg.Refresh < 0:
		return nil, fmt.Errorf("sidecar: refresh %v is negative", cfg.Refresh)
	}
	if cfg.Refresh == 0 {
		cfg.Refresh = DefaultRefresh
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s = &Sidecar{cfg: cfg, base: time.Now(), byDevice: map[string]*iface{}, byLower: map[int]*iface{}, byNumber: map[uint32]*iface{}}
	s.start = s.base.UnixNano()
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
			s = nil
		}
	}()
	if s.poller, err = port.NewPoller(); err != nil {
		return s, err
	}
	if s.links, err = port.OpenLinks(); err != nil {
		return s, err
	}
	if err = s.links.Attach(s.poller, 0); err != nil {
		return s, err
	}
	if err = s.addPorts(); err != nil {
		return s, err
	}
	if cfg.EventInterface != "" {
		// Nothing is received from it, so the ring is as small as can be.
		if s.events, err = port.OpenInterface(cfg.EventInterface, port.InterfaceOptions{MaxFrame: 64, Slots: 1}); err != nil {
			return s, err
		}
	}
	if s.gnmi, err = gnmi.New(gnmi.Config{Ports: s.ports, Now: s.unix}); err != nil {
		return s, err
	}
	s.server = gnmi.NewServer(&s.mu, s.gnmi)
	return s, nil
}

// firstEpoch is what epochs start from; see the package's documentation.
func firstEpoch(now time.Time) uint32 { return 1 + uint32(now.Unix()%50_000) }

func (s *Sidecar) addPorts() error {
	now, err := s.links.List() // after Attach, so that no change is missed
	if err != nil {
		return err
	}
	var configs []portstate.Config
	for _, i := range s.cfg.Interfaces {
		if i.Name == "" {
			i.Name = i.Device
		}
		x, enabled, mtu := &iface{Interface: i, epoch: firstEpoch(s.base)}, true, 0
		if _, dup := s.byDevice[i.Device]; dup {
			return fmt.Errorf("sidecar: interface %s is given twice", i.Device)
		}
		if s.cfg.EventInterface != "" && i.Number >= s.cfg.PortEvents.Ports {
			return fmt.Errorf("sidecar: port %d of %s: port events know ports below %d", i.Number, i.Device, s.cfg.PortEvents.Ports)
		}
		for _, l := range now {
			if l.Name == i.Device {
				x.index, x.lower, x.up, enabled, mtu = l.Index, l.Lower, l.Up, l.Enabled, l.MTU
			}
		}
		if x.lower != 0 {
			s.byLower[x.lower] = x
			enabled = isEnabled(now, x.lower)
		}
		if x.index == 0 {
			s.cfg.Log.Warn("there is no such interface yet", "interface", i.Device, "port", i.Number)
		}
		s.byDevice[i.Device], s.byNumber[i.Number] = x, x
		s.order = append(s.order, x)
		configs = append(configs, portstate.Config{Name: i.Name, Number: i.Number, IfIndex: uint32(x.index), Down: !x.up, Disable: !enabled, MTU: uint16(mtu)})
	}
	if s.ports, err = portstate.New(configs); err != nil {
		return err
	}
	s.ports.Counters = s.counters
	s.ports.OnAdmin = s.setAdmin
	s.ports.Watch(s.portChanged)
	return nil
}

// isEnabled reports whether the interface with an index is administratively up.
func isEnabled(links []port.Link, index int) bool {
	return slices.ContainsFunc(links, func(l port.Link) bool { return l.Index == index && l.Enabled })
}

// unix is the time in ns since the Unix epoch. It does not jump.
func (s *Sidecar) unix() int64 { return s.start + int64(time.Since(s.base)) }

// Run follows the interfaces and does what time brings until ctx ends or
// netlink fails. It returns ctx's error or what failed. It may be called once.
func (s *Sidecar) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.server.Run(ctx) })
	g.Go(func() error {
		stop := context.AfterFunc(ctx, s.poller.Wake)
		defer stop()
		return s.follow(ctx)
	})
	return g.Wait()
}

// follow reads the news of interfaces and refreshes the program's state.
func (s *Sidecar) follow(ctx context.Context) error {
	var events []port.Event
	next := time.Now() // the first refresh
	for ctx.Err() == nil {
		timeout := time.Duration(-1)
		if s.events != nil {
			if timeout = time.Until(next); timeout <= 0 {
				s.refresh()
				next = time.Now().Add(s.cfg.Refresh)
				timeout = s.cfg.Refresh
			}
		}
		var err error
		if events, err = s.poller.Wait(timeout, events[:0]); err != nil {
			return err
		}
		if len(events) == 0 {
			continue
		}
		s.mu.Lock()
		err = s.links.Read(s.linkChanged)
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// linkChanged takes the news of an interface; it is called under the lock.
func (s *Sidecar) linkChanged(l port.Link) {
	if x := s.byLower[l.Index]; x != nil && !l.Gone {
		s.note(x, l.Enabled)
	}
	x := s.byDevice[l.Name]
	if x == nil || l.Gone && l.Index != x.index {
		return
	}
	if x.index = l.Index; l.Gone {
		x.index = 0
	}
	s.stack(x, l.Lower)
	if err := s.ports.SetOper(x.Number, l.Up, s.unix()); err != nil {
		s.cfg.Log.Error("link state", "err", err)
	}
	if l.MTU != 0 {
		s.ports.SetMTU(x.Number, uint16(l.MTU), s.unix()) //nolint:errcheck // the port is there
	}
	// What is not there nobody has disabled: it was closed to be removed.
	if x.lower == 0 {
		s.note(x, l.Enabled || l.Gone)
	}
}

// note takes it as the port's configuration what somebody, perhaps we, did to the
// interface: the kernel's word outlives this process, and ours does not.
func (s *Sidecar) note(x *iface, enabled bool) {
	if err := s.ports.NoteAdmin(x.Number, enabled, s.unix()); err != nil {
		s.cfg.Log.Error("admin state", "err", err)
	}
}

// stack notes what an interface is stacked on, which is another when both were
// made again.
func (s *Sidecar) stack(x *iface, lower int) {
	if lower == x.lower {
		return
	}
	delete(s.byLower, x.lower)
	if x.lower = lower; lower == 0 {
		return
	}
	s.byLower[lower] = x
	now, err := s.links.List()
	if err != nil {
		s.cfg.Log.Error("list interfaces", "err", err)
		return
	}
	s.note(x, isEnabled(now, lower))
}

// portChanged notifies the program of a port.
func (s *Sidecar) portChanged(ev portstate.Event) {
	x := s.byNumber[ev.State.Number]
	if x == nil || !ev.OperChanged {
		return
	}
	x.up = ev.State.Oper
	if x.epoch++; x.epoch == 0 {
		x.epoch = 1
	}
	s.send(x)
	s.cfg.Log.Info("port", "number", x.Number, "interface", x.Device, "up", x.up, "epoch", x.epoch)
}

// refresh notifies the program of every port.
func (s *Sidecar) refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.order {
		s.send(x)
	}
}

// send notifies the program of a port; it is called under the lock.
func (s *Sidecar) send(x *iface) {
	if s.events == nil {
		return
	}
	s.events.Send([][]byte{s.cfg.PortEvents.Append(nil, uint16(x.Number), x.up, x.epoch)})
	c := s.events.Counters()
	if lost := c.OutDown + c.OutLost; lost != s.lost {
		if s.lost == 0 {
			s.cfg.Log.Warn("port events do not leave; set the event interface up", "interface", s.cfg.EventInterface)
		}
		s.lost = lost
	}
}

// setAdmin takes an interface up or down, or what it is stacked on: the interface
// itself then only loses its carrier. It is called under the lock.
func (s *Sidecar) setAdmin(number uint32, enabled bool) error {
	x := s.byNumber[number]
	if x.index == 0 {
		return fmt.Errorf("sidecar: there is no interface %s now", x.Device)
	}
	index := x.index
	if x.lower != 0 {
		index = x.lower
	}
	if err := s.links.SetUp(index, enabled); err != nil {
		return err
	}
	// The kernel's news of it are there already. Read now, they are not taken for
	// somebody else's doing after the next Set.
	return s.links.Read(s.linkChanged)
}

func (s *Sidecar) counters(number uint32) portstate.Counters {
	x := s.byNumber[number]
	if x.index == 0 {
		return portstate.Counters{}
	}
	c, err := s.links.Counters(x.index)
	if err != nil {
		s.cfg.Log.Warn("counters", "err", err)
		return portstate.Counters{}
	}
	return portstate.Counters{
		InOctets: c.InOctets, OutOctets: c.OutOctets, InPkts: c.InPkts, OutPkts: c.OutPkts,
		InDiscards: c.InLost, OutDiscards: c.OutLost, InErrors: c.InTooLong, OutErrors: c.OutDown, InFCSErrors: c.InFCS,
	}
}

// Serve answers gNMI requests that reach the listener, which it closes, until
// ctx ends.
func (s *Sidecar) Serve(ctx context.Context, l net.Listener, opts ...grpc.ServerOption) error {
	srv := grpc.NewServer(append(append(rpc.Options(rpc.Budget{Message: 1 << 20}, nil), grpc.WaitForHandlers(true)), opts...)...)
	s.server.Register(srv)
	stopping := introspect.Register(srv)
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(done)
		stopping()
		srv.Stop()
	})
	err := srv.Serve(rpc.Limit(l, rpc.Budget{}))
	if cancel() {
		srv.Stop() // waits for the handlers
	} else {
		<-done
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("sidecar: serve: %w", err)
	}
	return ctx.Err()
}

// Close frees what New opened. Run and Serve must have returned.
func (s *Sidecar) Close() error {
	var errs []error
	if s.events != nil {
		errs = append(errs, s.events.Close())
	}
	if s.links != nil {
		errs = append(errs, s.links.Close())
	}
	if s.poller != nil {
		errs = append(errs, s.poller.Close())
	}
	return errors.Join(errs...)
}
