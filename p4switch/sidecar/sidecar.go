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

// DefaultRefresh is the interval at which the states of all ports are sent to the P4 program again.
const DefaultRefresh = time.Second

// Interface is one port of a switch whose data path is another program.
type Interface struct {
	Number uint32 // port number in the P4 program
	Device string // the network interface
	Name   string // in gNMI; empty: as Device
}

// Config sets up a [Sidecar]. Interfaces are required.
type Config struct {
	Interfaces []Interface
	// EventInterface is the network interface to which packets about port changes are sent, in the format of
	// PortEvents. Empty: none are sent.
	EventInterface string
	// PortEvents is required with EventInterface. Its Port, Register and Tables are not used, since the interface leads
	// to the right port, and a sidecar does not know the program.
	PortEvents *portstate.EventPackets
	// Refresh is the interval at which the states of all ports are sent to the P4 program again. 0: DefaultRefresh.
	Refresh time.Duration
	Log     *slog.Logger // nil: silent
}

// Sidecar serves gNMI for a switch whose data path is another program, such as BMv2, from the states of its network
// interfaces.
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
	byDevice map[string]*interfaceState
	byLower  map[int]*interfaceState // by the index of what it is stacked on
	byNumber map[uint32]*interfaceState
	order    []*interfaceState
	lost     uint64 // of them, at the event interface
}

// interfaceState is the known state of one interface.
type interfaceState struct {
	Interface
	index int // 0: it is not there
	lower int // of the interface it is stacked on; 0: on none
	up    bool
	epoch uint32 // of its last change
}

// New subscribes to the interfaces' states and opens the event interface. A missing interface counts as down until it
// appears.
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
	s = &Sidecar{cfg: cfg, base: time.Now(), byDevice: map[string]*interfaceState{}, byLower: map[int]*interfaceState{}, byNumber: map[uint32]*interfaceState{}}
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
	if s.gnmi, err = gnmi.New(gnmi.Config{Ports: s.ports, Now: s.unixNanoseconds}); err != nil {
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
		x, enabled, mtu := &interfaceState{Interface: i, epoch: firstEpoch(s.base)}, true, 0
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

// unixNanoseconds is the time in ns since the Unix epoch. It does not jump.
func (s *Sidecar) unixNanoseconds() int64 { return s.start + int64(time.Since(s.base)) }

// Run follows the interfaces' states and processes timers until ctx ends or netlink fails, and returns that error. It
// may be called once.
func (s *Sidecar) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.server.Run(ctx) })
	g.Go(func() error {
		stop := context.AfterFunc(ctx, s.poller.Wake)
		defer stop()
		return s.followInterfaces(ctx)
	})
	return g.Wait()
}

// followInterfaces reads changes of interfaces and updates the P4 program's port states.
func (s *Sidecar) followInterfaces(ctx context.Context) error {
	var events []port.Event
	next := time.Now() // the first refresh
	for ctx.Err() == nil {
		timeout := time.Duration(-1)
		if s.events != nil {
			if timeout = time.Until(next); timeout <= 0 {
				s.notifyAllPorts()
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

// linkChanged processes a change of an interface; the lock is held.
func (s *Sidecar) linkChanged(l port.Link) {
	if x := s.byLower[l.Index]; x != nil && !l.Gone {
		s.noteEnabled(x, l.Enabled)
	}
	x := s.byDevice[l.Name]
	if x == nil || l.Gone && l.Index != x.index {
		return
	}
	if x.index = l.Index; l.Gone {
		x.index = 0
	}
	s.noteLowerInterface(x, l.Lower)
	if err := s.ports.SetOper(x.Number, l.Up, s.unixNanoseconds()); err != nil {
		s.cfg.Log.Error("link state", "err", err)
	}
	if l.MTU != 0 {
		s.ports.SetMTU(x.Number, uint16(l.MTU), s.unixNanoseconds()) //nolint:errcheck // the port is there
	}
	// What is not there nobody has disabled: it was closed to be removed.
	if x.lower == 0 {
		s.noteEnabled(x, l.Enabled || l.Gone)
	}
}

// noteEnabled records an external change of the interface's admin state as the port's configuration, since the kernel's
// state outlives this process.
func (s *Sidecar) noteEnabled(x *interfaceState, enabled bool) {
	if err := s.ports.NoteAdmin(x.Number, enabled, s.unixNanoseconds()); err != nil {
		s.cfg.Log.Error("admin state", "err", err)
	}
}

// noteLowerInterface records the interface below a stacked interface, which changes if both are created again.
func (s *Sidecar) noteLowerInterface(x *interfaceState, lower int) {
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
	s.noteEnabled(x, isEnabled(now, lower))
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
	s.notifyPort(x)
	s.cfg.Log.Info("port", "number", x.Number, "interface", x.Device, "up", x.up, "epoch", x.epoch)
}

// notifyAllPorts notifies the program of every port.
func (s *Sidecar) notifyAllPorts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.order {
		s.notifyPort(x)
	}
}

// notifyPort notifies the program of a port; it is called under the lock.
func (s *Sidecar) notifyPort(x *interfaceState) {
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

// Serve answers gNMI requests on the listener, which it closes, until ctx ends.
func (s *Sidecar) Serve(ctx context.Context, l net.Listener, opts ...grpc.ServerOption) error {
	srv := grpc.NewServer(append(append(rpc.Options(rpc.Budget{MessageBytes: 1 << 20}, nil), grpc.WaitForHandlers(true)), opts...)...)
	s.server.Register(srv)
	stopping := introspect.Register(srv)
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(done)
		stopping()
		srv.Stop()
	})
	err := srv.Serve(rpc.LimitConnections(l, rpc.Budget{}))
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
