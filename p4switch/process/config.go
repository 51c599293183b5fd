package process

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/ethereal-fabric/ethereal/p4switch/ebpf"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// Defaults of Config.
const (
	DefaultQueueDepth = 64
	DefaultDropPort   = 511
	DefaultCoalesce   = 50 * time.Microsecond
	maxQueues         = 8 // v1model's priority has three bits
)

// PortConfig is one port of the switch.
type PortConfig struct {
	Number uint32    // port number in the P4 program
	Name   string    // the port's name in gNMI and in the log
	Port   port.Port // the port, which the device closes
	Index  int       // the interface's index in Config.Links; 0: no link state
}

// Links is the source of link states; [port.Links] is one.
type Links interface {
	Attach(p *port.Poller, id int) error
	List() ([]port.Link, error)
	Read(f func(port.Link)) error
	SetUp(index int, up bool) error
	Close() error
}

// Config sets up a [Device]. Only Ports is required.
type Config struct {
	Ports []PortConfig
	// Links follows and changes the ports' interfaces. The device closes it. Nil: links are up, and disabling a
	// port only stops its traffic.
	Links Links

	DeviceID uint64 // of P4Runtime; 0 is a normal id, as in BMv2
	CPUPort  uint32 // port of packet-in and packet-out; 0: none
	// PartialPacketOut is as in p4runtime.Config.
	PartialPacketOut bool
	// NumberAsIndex makes gNMI report a port's number as its ifindex, as BMv2 and Stratum do.
	NumberAsIndex bool
	// Unrestricted is as in p4runtime.Config.
	Unrestricted bool

	// Trace is called with the record of every packet, on the goroutine that forwards. It cannot be combined with
	// Kernel or Model. Nil: no records.
	Trace func(*interp.PacketTrace)

	DropPort uint32 // egress port that means drop; 0: DefaultDropPort
	Queues   int    // priorities per port, 1 to 8; 0: 1

	// MaxPasses is the largest number of resubmits and recirculations of a packet, MaxLoops that of backward jumps of
	// its actions in one pipeline; packets above are dropped. 0: no limit, as in BMv2, and [interp.DefaultMaxLoops].
	MaxPasses, MaxLoops int

	QueueDepth int // packets a queue holds; 0: DefaultQueueDepth
	QueueRate  int // packets per second from a queue; 0: no limit

	// Coalesce is how long arriving packets may wait to be processed together, if they arrive so fast that waking up
	// for each costs more than processing it. It bounds the added latency. 0: DefaultCoalesce; negative: every packet
	// wakes the switch.
	Coalesce time.Duration

	// Realtime is the real-time priority of forwarding's thread, 1 to 99, which then runs ahead of the control side
	// and of other processes. It needs CAP_SYS_NICE. 0: none.
	Realtime int

	// Kernel runs the program in the kernel, at the interfaces' ingress. Packets that it does not finish there are
	// forwarded here, and so are all packets while the kernel does not accept the program. Each port must be a
	// [port.Interface]. See [Stats].Kernel.
	Kernel bool
	// KernelOptional makes a switch forward all packets here if programs cannot be attached to its interfaces.
	// Without it that is an error.
	KernelOptional bool
	// KernelHook is where the program is attached; "": the best available hook.
	KernelHook ebpf.HookKind

	// Model forwards instead of the interpreter. The device closes it. Nil: none.
	Model Model

	// Budget limits controllers' requests and stored state.
	Budget rpc.Budget

	// PortEvents describes the packets by which the switch notifies the P4 program of port changes. Nil: none.
	PortEvents *portstate.EventPackets
	// Log receives events of the switch, not of packets, except for the program's log_msg if LogMessages is set.
	// Nil: no log.
	Log         *slog.Logger
	LogMessages bool
}

func (c *Config) setDefaults() error {
	if c.DropPort == 0 {
		c.DropPort = DefaultDropPort
	}
	if c.Queues == 0 {
		c.Queues = 1
	}
	if c.QueueDepth == 0 {
		c.QueueDepth = DefaultQueueDepth
	}
	if c.Coalesce == 0 {
		c.Coalesce = DefaultCoalesce
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Queues < 0 || c.Queues > maxQueues:
		return fmt.Errorf("switch: %d priority queues; it is 1 to %d", c.Queues, maxQueues)
	case c.QueueDepth < 0:
		return fmt.Errorf("switch: queue depth %d is negative", c.QueueDepth)
	case c.QueueRate < 0:
		return fmt.Errorf("switch: queue rate %d is negative", c.QueueRate)
	case c.Kernel && c.QueueRate > 0:
		return fmt.Errorf("switch: the kernel's data path has no queues, so no queue rate; leave one of them out")
	case c.Model != nil && c.Kernel:
		return fmt.Errorf("switch: the model forwards, or the kernel; leave one of them out")
	case c.Model != nil && c.QueueRate > 0:
		return fmt.Errorf("switch: the model's queues have no rate, so no queue rate; leave one of them out")
	}
	for _, p := range c.Ports {
		switch {
		case p.Port == nil:
			return fmt.Errorf("switch: port %d (%s) is not opened", p.Number, p.Name)
		case p.Number == c.CPUPort && c.CPUPort != 0:
			return fmt.Errorf("switch: CPU port %d is port %s too; choose another number", p.Number, p.Name)
		case c.Model != nil && p.Number > c.Model.LastPort():
			return fmt.Errorf("switch: port %d (%s): the model's ports are 0 to %d", p.Number, p.Name, c.Model.LastPort())
		}
	}
	return nil
}

// wantsPortEvents reports whether the switch notifies a program of its ports.
func (c *Config) wantsPortEvents(p *program.Program) bool {
	if c.PortEvents == nil || c.PortEvents.Register == "" {
		return c.PortEvents != nil
	}
	_, has := p.RegisterByName(c.PortEvents.Register)
	return has
}

// portTables are the tables that the program consults on a port event.
func (c *Config) portTables() []string {
	if c.PortEvents == nil {
		return nil
	}
	return c.PortEvents.Tables
}
