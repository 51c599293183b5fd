package sim

import (
	"errors"
	"fmt"
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Errors of this package wrap one of these.
var (
	ErrConfig   = errors.New("sim: bad configuration")
	ErrNoSwitch = errors.New("sim: not ready to run") // a node has no Pipeline or Endpoint
	ErrEndpoint = errors.New("sim: endpoint broke its contract")
	ErrPacket   = errors.New("sim: bad packet") // wrapped by errors of [Network.Inject]
)

// Defaults of a [Config].
const (
	DefaultBuffer  fabric.Bytes = 64e6 // 64 MB, as in the paper's reference simulation
	DefaultAlpha   float64      = 1    // as in the paper's reference simulation
	DefaultClasses int          = 2
	DefaultCell    int          = 256 // bytes per unit of queue depth
	DefaultCPUPort uint32       = 510

	// EventPort is the ingress port of the packets that a switch generates when one of its ports goes up or down, as
	// Tofino's packet generator does.
	EventPort uint32 = 508
)

// MaxClasses is the largest number of queues of a port.
const MaxClasses = 8

// Config sets up a [Network]. The zero value of a field means its default; Fabric is required.
type Config struct {
	Fabric *fabric.Fabric

	Buffer  fabric.Bytes // shared by all queues of a switch
	Alpha   float64      // dynamic threshold: a queue may hold Alpha times the free buffer
	Classes int          // queues per port; a packet of priority p joins queue min(p, Classes-1)
	Cell    int          // bytes per unit of the queue depths that the pipeline sees

	PFC PFC // priority flow control; off unless Xoff or Alpha is set

	// Trim makes a switch trim a data packet to its header if it would make its port's queue longer than this, in
	// bytes, and put it into the highest class, here and in all later switches. The receiver recognises it by the
	// lengths in its header. Ultra Ethernet's switches also change its DSCP. 0: never.
	Trim fabric.Bytes

	// Stamp, if not nil, is called for each data packet that a switch sends, to write telemetry into its headers hdr.
	// Calls may be concurrent.
	Stamp func(hdr []byte, h Hop)

	// Overhead is added to the length of every packet on the wire: 24 for Ethernet's FCS, preamble and gap. A negative
	// value imitates simulators whose headers are shorter. Default 0.
	Overhead int

	CPUPort uint32 // egress port to the switch's CPU: packets end there, and are counted

	// Tracer,, if not nil, receives a Record of every event that the event hash covers.
	Tracer Tracer

	// Regions is the number of parts into which the network is divided. They are simulated in turn, each for a short
	// window of time so that its data stay in a core's cache, or side by side on several Cores. The result does not
	// depend on it. 0 means 1; see [PayingRegions]. There are fewer if the fabric has fewer ToRs, and one with a
	// Tracer, or if a link between parts has no delay.
	Regions int

	// Cores is the number of goroutines that simulate the regions; 0 means 1.
	Cores int

	// InOrder, if not nil, is called with several regions, between windows, and reports whether an event of a node up
	// to the given time might call [Network.Stop] or touch other nodes' data. If so, all regions' events up to then are
	// simulated in one order. Without it no event of a node may touch other nodes' data, and a run ends up to
	// [Network.Lookahead] after the event that stops it.
	InOrder func(by fabric.Time) bool
}

// Hop is the state of a port when it starts to send a packet.
type Hop struct {
	Switch fabric.NodeID
	Port   fabric.PortNo
	At     fabric.Time
	Sent   int64 // bytes sent before this packet
	Queue  int64 // bytes of data in the queue behind this packet
	Rate   fabric.Rate
}

func (c Config) withDefaults() Config {
	if c.Buffer == 0 {
		c.Buffer = DefaultBuffer
	}
	if c.Alpha == 0 {
		c.Alpha = DefaultAlpha
	}
	if c.Classes == 0 {
		c.Classes = DefaultClasses
	}
	if c.Cell == 0 {
		c.Cell = DefaultCell
	}
	if c.CPUPort == 0 {
		c.CPUPort = DefaultCPUPort
	}
	return c
}

// Validate returns the first error in c.
func (c Config) Validate() error {
	fail := func(field, format string, args ...any) error {
		return fmt.Errorf("%w: %s: %s", ErrConfig, field, fmt.Sprintf(format, args...))
	}
	if c.Fabric == nil {
		return fail("Fabric", "missing")
	}
	d := c.withDefaults()
	switch {
	case d.Buffer < 0 || d.Buffer > math.MaxInt32:
		return fail("Buffer", "%d bytes is outside 1 to %d", d.Buffer, math.MaxInt32)
	case !(d.Alpha >= 1.0/alphaUnit && d.Alpha <= 1<<16):
		return fail("Alpha", "%v is outside 1/%d to %d", d.Alpha, alphaUnit, 1<<16)
	case d.Trim < 0 || d.Trim > d.Buffer:
		return fail("Trim", "%v is outside 0 to the buffer, %v", d.Trim, d.Buffer)
	case d.Trim > 0 && d.Classes < 2:
		return fail("Trim", "headers that are left go into a class of their own; have 2 or more")
	case d.Classes < 1 || d.Classes > MaxClasses:
		return fail("Classes", "%d is outside 1 to %d", d.Classes, MaxClasses)
	case d.Cell < 1:
		return fail("Cell", "%d bytes; write for example 256", d.Cell)
	case d.Overhead < -64 || d.Overhead > 1<<16:
		return fail("Overhead", "%d bytes is outside -64 to %d", d.Overhead, 1<<16)
	case c.Fabric.Links() > 1<<(entityBits-2):
		return fail("Fabric", "%d links; the most is %d", c.Fabric.Links(), 1<<(entityBits-2))
	}
	if field, err := d.PFC.validate(c.Fabric, d.Buffer, d.Classes); err != nil {
		return fail(field, "%v", err)
	}
	return nil
}
