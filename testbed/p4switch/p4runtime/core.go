package p4runtime

import (
	"fmt"
	"sync"
	"sync/atomic"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/testbed/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/portstate"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/program"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/rpc"
)

// apiVersion is the P4Runtime version that Capabilities reports.
const apiVersion = "1.5.0"

// Config sets up a [Core].
type Config struct {
	// DeviceID is the P4Runtime device id. The specification forbids 0; see
	// AllowDeviceZero.
	DeviceID uint64
	// AllowDeviceZero makes 0 a device id like any other, as BMv2's scripts
	// use it. Otherwise 0 means that the id is not known yet, and
	// controllers are refused with FAILED_PRECONDITION.
	AllowDeviceZero bool
	// Ports are the switch's ports. Nil: none are known, and watch ports
	// are refused.
	Ports *portstate.Ports
	// CPUPort is the P4 port number of the controller. 0: packet I/O is off.
	CPUPort uint32
	// Now is the time in ns since the Unix epoch. Required.
	Now func() int64
	// Epoch is what Now would have returned when the data plane's clock
	// (interp.Input.Now) was 0.
	Epoch int64
	// Switch sets up every data-plane switch that a pipeline push makes. Its
	// Digest is the core's.
	Switch interp.Config
	// Load compiles BMv2 JSON. Nil: program.Load. An owner of many switches
	// with one program passes a function that remembers it.
	Load func(json []byte) (*program.Program, error)
	// Budget bounds what clients may ask for and leave here.
	Budget rpc.Budget
	// DataPath is the lock that the owner of the data plane holds while packets
	// pass. The core takes it, inside its own lock, while it works on the switch
	// in the data path, for a bounded time: see plane. No hook is called under
	// it. Nil: packets and requests come one after the other.
	DataPath sync.Locker

	// Later runs a call into the core once the core may be called: a packet that
	// makes a digest does not wait for that. It keeps the order of the calls, and
	// false says that too many wait. Nil: the owner of the data plane holds the
	// core's lock while packets pass.
	Later func(call func()) bool

	// OnSwitch receives the switch that is in the data path from now on,
	// with the hooks' caller still inside the core. Packets of the old
	// switch must be finished or freed there.
	OnSwitch func(*interp.Switch)
	// OnPacketOut injects a controller's packet: data arrives at CPUPort.
	OnPacketOut func(data []byte)
	// PartialPacketOut accepts packets without some of the packet_out header's fields, which are then 0, as BMv2's server
	// does. Otherwise they are refused.
	PartialPacketOut bool
	// Unrestricted has the annotations @entry_restriction, @action_restriction and @refers_to of a P4Info mean nothing, as
	// with BMv2. Otherwise what they forbid is refused.
	Unrestricted bool
	// OnPortEvent is notified of every change of a port's oper status, after
	// watch ports have failed over, and of every port's status after a
	// pipeline came into the data path: the owner of the data plane makes
	// port-event packets of it.
	OnPortEvent func(number uint32, up bool)
	// PortTables names the tables that the program consults when a
	// port-event packet comes. What it made of the events so far is out of
	// date when they change: OnPortTables is notified of it, after the write, and
	// the owner of the data plane repeats the events.
	PortTables   []string
	OnPortTables func()
}

// Stats counts what did not reach a controller.
type Stats struct {
	PacketIn         uint64 // sent to at least one controller
	PacketInNobody   uint64 // no primary to send to
	PacketInStalled  uint64 // the primary's stream was full
	PacketInShort    uint64 // shorter than the packet_in header
	PacketOut        uint64
	DigestLost       uint64 // digest messages dropped: no primary, or its stream was full
	IdleNotification uint64
}

// Core is the P4Runtime side of one switch: arbitration, pipelines, entries.
// It has no goroutine, socket or clock, and is not safe for concurrent use;
// [Server] is a shell that serialises calls.
type Core struct {
	cfg      Config
	budget   rpc.Budget
	plane    plane
	deviceID uint64
	roles    map[roleKey]*role
	roleList []*role // in order of appearance
	closings uint64  // of streams that were the last of their role

	live        *pipeline // in the data path; nil: none yet
	saved       *pipeline // saved and not committed; nil: none
	stats       Stats
	digestsLost atomic.Uint64 // before they came here
	earlier     func()        // notifies the shell that NextDeadline came nearer

	scratch scratch
}

// New makes a core without a pipeline.
func New(cfg Config) (*Core, error) {
	if cfg.Now == nil {
		return nil, fmt.Errorf("switch: config: Now is required")
	}
	if cfg.Ports == nil {
		cfg.Ports = &portstate.Ports{}
	}
	c := &Core{cfg: cfg, budget: cfg.Budget.WithDefaults(), plane: plane{mu: cfg.DataPath}, deviceID: cfg.DeviceID, roles: map[roleKey]*role{}}
	c.cfg.Ports.Watch(c.portChanged)
	c.cfg.Ports.Watched = true
	return c, nil
}

// Switch returns the switch in the data path, or nil before the first
// pipeline.
func (c *Core) Switch() *interp.Switch {
	if c.live == nil {
		return nil
	}
	return c.live.sw
}

// OnDeadline calls f whenever NextDeadline may have come nearer, which packets
// and writes do. f must not call back into the core.
func (c *Core) OnDeadline(f func()) { c.earlier = f }

func (c *Core) deadline() {
	if c.earlier != nil {
		c.earlier()
	}
}

// Ports returns the switch's ports.
func (c *Core) Ports() *portstate.Ports { return c.cfg.Ports }

// Stats returns the counts so far.
func (c *Core) Stats() Stats {
	s := c.stats
	s.DigestLost += c.digestsLost.Load()
	return s
}

// DeviceID returns the device id.
func (c *Core) DeviceID() uint64 { return c.deviceID }

// SetDeviceID changes the device id. It is refused with FAILED_PRECONDITION
// while a controller is connected, unless nothing changes.
func (c *Core) SetDeviceID(id uint64) error {
	if id == c.deviceID {
		return nil
	}
	for _, r := range c.roleList {
		if len(r.streams) > 0 {
			return rpc.Status(rpc.Errorf(codes.FailedPrecondition, "device id is %d and a controller is connected; close its stream first", c.deviceID))
		}
	}
	c.deviceID = id
	return nil
}

func (c *Core) checkDevice(id uint64) error {
	if id != c.deviceID {
		return rpc.NotFoundf("no device %d; this switch is device %d", id, c.deviceID)
	}
	return nil
}

// Capabilities answers the RPC of that name.
func (c *Core) Capabilities(req *p4.CapabilitiesRequest) (*p4.CapabilitiesResponse, error) {
	if id := req.GetDeviceId(); id != 0 {
		if err := c.checkDevice(id); err != nil {
			return nil, rpc.Status(err)
		}
	}
	return &p4.CapabilitiesResponse{P4RuntimeApiVersion: apiVersion}, nil
}

// current is the pipeline that reads and writes refer to.
func (c *Core) current() *pipeline {
	if c.saved != nil {
		return c.saved
	}
	return c.live
}

// dataplaneNow is the time on the data plane's clock, in ns.
func (c *Core) dataplaneNow() int64 { return c.cfg.Now() - c.cfg.Epoch }

// portChanged moves selectors and multicast groups off ports that went down
// and back onto ports that came up.
func (c *Core) portChanged(ev portstate.Event) {
	if !ev.OperChanged && !ev.ConfigChanged {
		return
	}
	for _, p := range []*pipeline{c.live, c.saved} {
		if p != nil {
			p.portChanged(ev.State.Number, ev.State.Usable())
		}
	}
	if c.cfg.OnPortEvent != nil && ev.OperChanged {
		c.cfg.OnPortEvent(ev.State.Number, ev.State.Oper)
	}
}

// plane is the data path's lock as requests take it. A packet waits for at most
// maxHold units of a request's work, but where the request must not be seen half
// done; a unit is about what one cell of an array costs.
type plane struct {
	mu    sync.Locker // nil: packets and requests come one after the other
	units int         // done since packets could last pass
	whole bool        // packets must not pass until unlock
}

// maxHold is in units.
const maxHold = 256

// updateUnits is what one update counts for.
const updateUnits = 16

func (p *plane) lock() {
	if p.mu != nil {
		p.mu.Lock()
	}
	p.units = 0
}

func (p *plane) unlock() {
	p.whole = false
	if p.mu != nil {
		p.mu.Unlock()
	}
}

// did counts work under the lock and lets packets pass when it was enough.
func (p *plane) did(units int) {
	if p.units += units; p.units < maxHold || p.whole {
		return
	}
	p.units = 0
	switch mu := p.mu.(type) {
	case nil:
	case interface{ Yield() }:
		mu.Yield()
	default:
		mu.Unlock()
		mu.Lock()
	}
}
