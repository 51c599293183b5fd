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
	ErrNoSwitch = errors.New("sim: not ready to run") // a node without Pipeline or Endpoint
	ErrEndpoint = errors.New("sim: endpoint broke its contract")
	ErrPacket   = errors.New("sim: bad packet") // of Inject
)

// Defaults of a [Config].
const (
	DefaultBuffer  fabric.Bytes = 64e6 // [ref] 64 MB
	DefaultAlpha   float64      = 1    // [ref]
	DefaultClasses int          = 2
	DefaultCell    int          = 256 // bytes
	DefaultCPUPort uint32       = 510

	// EventPort is the ingress port of packets a switch makes when a port of
	// its own changes, as Tofino's packet generator does.
	EventPort uint32 = 508
)

// MaxClasses is the most queues a port can have.
const MaxClasses = 8

// Config sets up a [Network]. The zero value of a field means its default,
// save Fabric, which is required.
type Config struct {
	Fabric *fabric.Fabric

	Buffer  fabric.Bytes // shared by all queues of a switch
	Alpha   float64      // dynamic threshold: a queue may hold Alpha times the free buffer
	Classes int          // queues per port; a packet of priority p joins queue min(p, Classes-1)
	Cell    int          // bytes per unit of the queue depths the pipeline sees

	PFC PFC // off unless Xoff or Alpha is set

	// Trim cuts a packet of the data class to its header when its port's queue would
	// have more bytes with it, and puts it into the highest class, there and in all
	// switches that follow. 0: none is cut. Who receives it sees by the lengths in its
	// header that it was longer. Switches of Ultra Ethernet change its DSCP as well.
	Trim fabric.Bytes

	// Stamp, if set, lets switches write telemetry into each packet of the data class that they send: hdr is its real bytes.
	// Regions call it at the same time.
	Stamp func(hdr []byte, h Hop)

	// Overhead is added to the wire bytes of every packet: 24 for Ethernet's
	// FCS, preamble and gap. Negative values imitate simulators that count
	// fewer header bytes than a frame has. Default 0.
	Overhead int

	CPUPort uint32 // egress port that leads to the switch's CPU: packets end there, and are counted

	// Tracer, if set, gets a Record of everything that goes into the event
	// hash.
	Tracer Tracer

	// Regions is how many parts the network is cut into. They take turns through
	// short windows of time, so that what a part needs stays in a core's cache, or
	// run side by side on several Cores; the result is that of one. 0 is 1, see
	// [PayingRegions]. There are fewer if the fabric has fewer ToRs, and one with a
	// Tracer or where a link between parts takes no time.
	Regions int

	// Cores is how many goroutines simulate the regions; 0 is 1.
	Cores int

	// MayStop, if set, is asked with several regions, while all are at rest, whether
	// anything that happens up to a time might call [Network.Stop]. If so, events of
	// all regions are taken in turn, so that it ends at the very event. Where it is
	// not set, or wrong, it ends up to [Network.Lookahead] later.
	MayStop func(by fabric.Time) bool
}

// Hop is what a port reports about itself when it begins to send a packet.
type Hop struct {
	Switch fabric.NodeID
	Port   fabric.PortNo
	At     fabric.Time
	Sent   int64 // bytes before this packet
	Queue  int64 // bytes of data that wait behind it
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

// Validate reports the first thing wrong with c.
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
