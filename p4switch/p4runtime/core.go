package p4runtime

import (
	"fmt"
	"sync"
	"sync/atomic"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// apiVersion is the P4Runtime version that Capabilities reports.
const apiVersion = "1.5.0"

// Config sets up a [Core].
type Config struct {
	// DeviceID is the P4Runtime device id. The specification forbids 0; see
	// AllowDeviceZero.
	DeviceID uint64
	// AllowDeviceZero makes 0 a normal device id, as BMv2's scripts use it. Otherwise 0 means that the id is not
	// known yet, and controllers are refused with FAILED_PRECONDITION.
	AllowDeviceZero bool
	// Ports are the switch's ports. Nil: unknown, and watch ports are refused.
	Ports *portstate.Ports
	// CPUPort is the P4 port number of the controller. 0: packet I/O is off.
	CPUPort uint32
	// Now is the time in ns since the Unix epoch. Required.
	Now func() int64
	// Epoch is the value of Now when the data plane's clock (interp.Input.Now) was 0.
	Epoch int64
	// Switch configures the data-plane switches that pipeline pushes make. The core sets Digest.
	Switch interp.Config
	// Load compiles BMv2 JSON. Nil: program.Load. An owner of many switches with one program passes a function that
	// caches it.
	Load func(json []byte) (*program.Program, error)
	// Budget limits clients' requests and stored state.
	Budget rpc.Budget
	// DataPath is the lock that the data plane's owner holds while packets pass. The core takes it, within its own
	// lock, for a bounded time while it works on the switch in the data path. No hook is called under it. Nil: packets
	// and requests are processed one after the other.
	DataPath sync.Locker

	// Later has the given call of the core made once the core may be called, for messages that a packet causes
	// (digests): packets do not wait for the core's lock. It keeps the order of calls, and returns false if too many
	// wait. Nil: the data plane's owner holds the core's lock while packets pass.
	Later func(call func()) bool

	// OnSwitch is called with the new switch in the data path, inside the call that replaces it. Finish or free packets
	// of the old switch there.
	OnSwitch func(*interp.Switch)
	// OnPacketOut injects a controller's packet: data arrives at CPUPort.
	OnPacketOut func(data []byte)
	// PartialPacketOut accepts packets without some of the packet_out header's fields, which are then 0, as BMv2's
	// server does. Otherwise they are refused.
	PartialPacketOut bool
	// Unrestricted ignores the annotations @entry_restriction, @action_restriction and @refers_to of a P4Info, as
	// BMv2 does. Otherwise entries that violate them are refused.
	Unrestricted bool
	// OnPortEvent is called for every change of a port's oper status, after groups have stopped using the port, and for
	// every port after a new pipeline is in the data path. From it the data plane's owner makes packets that notify the
	// program.
	OnPortEvent func(number uint32, up bool)
	// PortTables names the tables that the program looks up for a port-event packet. When they change, the results
	// of earlier events are out of date: OnPortTables is called after the write, and the data plane's owner repeats
	// the events.
	PortTables   []string
	OnPortTables func()
}

// Stats counts packet-ins and digests, sent and lost.
type Stats struct {
	PacketIn           uint64 // sent to at least one controller
	PacketInNoPrimary  uint64 // lost: no controller is primary
	PacketInStreamFull uint64 // lost: the primary's stream was full
	PacketInShort      uint64 // lost: shorter than the packet_in header
	PacketOut          uint64
	DigestLost         uint64 // digest messages dropped: no primary, or its stream was full
	IdleNotification   uint64
}

// Core is the P4Runtime server of one switch without gRPC: arbitration, pipelines, entries. It has no goroutine, socket
// or clock, and is not safe for concurrent use; [Server] serialises calls.
type Core struct {
	cfg      Config
	budget   rpc.Budget
	plane    dataPathLock
	deviceID uint64
	roles    map[roleKey]*role
	roleList []*role // in order of appearance
	closings uint64  // of streams that were their role's last

	live        *pipeline // in the data path; nil: none yet
	saved       *pipeline // saved and not committed; nil: none
	stats       Stats
	digestsLost atomic.Uint64 // before they reached the core
	onDeadline  func()        // notifies the shell that NextDeadline has moved nearer

	scratch scratch
}

// New returns a core without a pipeline.
func New(cfg Config) (*Core, error) {
	if cfg.Now == nil {
		return nil, fmt.Errorf("switch: config: Now is required")
	}
	if cfg.Ports == nil {
		cfg.Ports = &portstate.Ports{}
	}
	c := &Core{cfg: cfg, budget: cfg.Budget.WithDefaults(), plane: dataPathLock{mu: cfg.DataPath}, deviceID: cfg.DeviceID, roles: map[roleKey]*role{}}
	c.cfg.Ports.Watch(c.portChanged)
	c.cfg.Ports.Watched = true
	return c, nil
}

// Switch returns the switch in the data path, or nil before the first pipeline.
func (c *Core) Switch() *interp.Switch {
	if c.live == nil {
		return nil
	}
	return c.live.sw
}

// OnDeadline makes the core call f whenever packets or writes may have moved NextDeadline nearer. f must not call
// back into the core.
func (c *Core) OnDeadline(f func()) { c.onDeadline = f }

func (c *Core) reportDeadline() {
	if c.onDeadline != nil {
		c.onDeadline()
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

// SetDeviceID changes the device id. While a controller is connected, a change is refused with FAILED_PRECONDITION.
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

// Capabilities answers the Capabilities RPC.
func (c *Core) Capabilities(req *p4.CapabilitiesRequest) (*p4.CapabilitiesResponse, error) {
	if id := req.GetDeviceId(); id != 0 {
		if err := c.checkDevice(id); err != nil {
			return nil, rpc.Status(err)
		}
	}
	return &p4.CapabilitiesResponse{P4RuntimeApiVersion: apiVersion}, nil
}

// activePipeline returns the pipeline to which reads and writes refer.
func (c *Core) activePipeline() *pipeline {
	if c.saved != nil {
		return c.saved
	}
	return c.live
}

// dataplaneNow returns the time on the data plane's clock, in ns.
func (c *Core) dataplaneNow() int64 { return c.cfg.Now() - c.cfg.Epoch }

// portChanged moves selectors and multicast groups off ports that went down and back onto ports that came up.
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

// dataPathLock is the data path's lock as requests use it. A packet waits for at most maxHold units of a request's
// work, unless the request must be atomic; a unit is about the cost of one cell of an array.
type dataPathLock struct {
	mu    sync.Locker // nil: packets and requests come one after the other
	units int         // units done since packets could last pass
	whole bool        // packets must not pass until unlock
}

// maxHold is the number of work units after which a request lets packets pass.
const maxHold = 256

// updateUnits is the cost of one update.
const updateUnits = 16

func (p *dataPathLock) lock() {
	if p.mu != nil {
		p.mu.Lock()
	}
	p.units = 0
}

func (p *dataPathLock) unlock() {
	p.whole = false
	if p.mu != nil {
		p.mu.Unlock()
	}
}

// workDone adds to the work done under the lock, and lets packets pass when the limit is reached.
func (p *dataPathLock) workDone(units int) {
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
