package controller

import (
	"errors"
	"fmt"
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// ErrConfig is wrapped by every error of [Config.Validate].
var ErrConfig = errors.New("controller: bad config")

// FieldError is an error in one field of a [Config].
type FieldError struct {
	Field   string // name of the field, such as ECN.Kmax
	Problem string // the problem and, after a semicolon, the remedy
}

// Error returns the field and its problem.
func (e *FieldError) Error() string { return fmt.Sprintf("%v: %s: %s", ErrConfig, e.Field, e.Problem) }

// Unwrap returns [ErrConfig].
func (e *FieldError) Unwrap() error { return ErrConfig }

// ErrUnknownPort is wrapped if a port state names a switch or port that the fabric does not have.
var ErrUnknownPort = errors.New("controller: unknown port")

// Carrier is the field that carries the path label, in packets of one address family.
type Carrier uint8

// The carriers.
const (
	NoCarrier     Carrier = iota // packets of this address family carry no label
	UDPSourcePort                // the low 14 bits of a RoCEv2 packet's UDP source port carry labels
	FlowLabel                    // the IPv6 flow label carries labels
	MicroSegments                // the destination of an outer IPv6 header lists the path's switches: see [fabric.SID]
)

var carrierNames = [...]string{"none", "udp-sport", "ipv6-flowlabel", "srv6-usid"}

func (c Carrier) String() string { return carrierNames[c] }

// MarshalText prints the carrier's name.
func (c Carrier) MarshalText() ([]byte, error) {
	if int(c) >= len(carrierNames) {
		return nil, fmt.Errorf("controller: carrier %d is unknown", uint8(c))
	}
	return []byte(carrierNames[c]), nil
}

// UnmarshalText reads none, udp-sport, ipv6-flowlabel or srv6-usid.
func (c *Carrier) UnmarshalText(text []byte) error {
	for i, n := range carrierNames {
		if n == string(text) {
			*c = Carrier(i)
			return nil
		}
	}
	return fmt.Errorf("controller: carrier %q is unknown; write one of %v", text, carrierNames)
}

// ECN is a port's marking profile (RED): the probability of an ECN mark by the depth of the queue.
type ECN struct {
	Kmin fabric.Bytes // no packets are marked below it
	Kmax fabric.Bytes // all packets are marked from it on; Kmin: a step; 0: no marking
	Pmax float64      // probability just below Kmax, 0 to 1
	// Unit is the number of bytes per unit of the target's queue depth.
	Unit fabric.Bytes
}

// Limits of the tables.
const (
	NeverQuench    = math.MaxUint32 // value of Config.QuenchIntervalUs: switches send no quenches
	CloneSessions  = 512            // the clone (mirror) session for port p has number CloneSessions+p
	maxDepth       = 1<<19 - 1      // largest queue threshold of P4 action mark_between, in units of the ECN profile
	maxPriority    = 1<<3 - 1       // largest control_priority of P4 action set_device
	maxProbability = 1<<16 - 1      // pmax of P4 action mark_between that stands for a probability of 1
	groupSizeLimit = 1 << 10
)

// Config is everything, except the states of links, from which the switches' tables are computed.
type Config struct {
	Fabric *fabric.Fabric
	// Instance names this controller process in the updates that agents receive; see [statepb.Update].
	Instance string

	CarrierV4 Carrier // NoCarrier or UDPSourcePort
	// CarrierV6 is the field for IPv6 packets. MicroSegments applies to IPv4 in an outer header, too; CarrierV4 is then
	// NoCarrier.
	CarrierV6 Carrier

	ECN ECN
	// Balancer is how switches choose an uplink for packets without a label.
	Balancer Balancing
	// QuenchIntervalUs is the minimum time between two quenches to one source for one port, in microseconds;
	// NeverQuench turns quenches off.
	QuenchIntervalUs uint32
	// ControlPriority is the queue of ACKs, CNPs, quenches and RoCEv2 packets with DSCP CS6: 0 (the data's queue) to 7.
	ControlPriority int
	HashSeed        uint32 // of the ECMP hash, in all switches
	// EqualHashes makes all tiers use the same bits of the ECMP hash, as switches with equal seeds do. Traffic then
	// polarises.
	EqualHashes bool
	// MaxGroupSize is the largest total of the members' shares in one ECMP group; larger weights are approximated.
	// 0 means 64. It must be at least the number of a switch's uplinks.
	MaxGroupSize int
	// LinksOnly computes no tables, only link states and notices, for fabrics that are too large for tables. Links
	// cannot be drained then.
	LinksOnly bool
	// CloneClass is the queue of clones, which become quenches. BMv2 accepts only 0.
	CloneClass int
}

func (c Config) withDefaults() Config {
	if c.MaxGroupSize == 0 {
		c.MaxGroupSize = fabric.MaxUplinks
	}
	return c
}

// Validate returns the first error in c, naming the field and the remedy.
func (c Config) Validate() error {
	fail := func(field, format string, args ...any) error {
		return &FieldError{field, fmt.Sprintf(format, args...)}
	}
	c = c.withDefaults()
	switch {
	case c.Fabric == nil:
		return fail("Fabric", "missing")
	case c.CarrierV4 > UDPSourcePort:
		return fail("CarrierV4", "IPv4 packets have no flow label; use %v or %v", NoCarrier, UDPSourcePort)
	case c.CarrierV6 > MicroSegments:
		return fail("CarrierV6", "%d is unknown", uint8(c.CarrierV6))
	case c.CarrierV6 == MicroSegments && c.CarrierV4 != NoCarrier:
		return fail("CarrierV4", "%v beside %v, whose outer header is IPv6 whatever is in it; use %v",
			c.CarrierV4, c.CarrierV6, NoCarrier)
	case c.CarrierV6 == MicroSegments && !c.Fabric.HasUSIDs():
		return fail("CarrierV6", "%d nodes, and micro segments for %d; use another carrier", c.Fabric.Nodes(), fabric.MaxUSID)
	case c.CarrierV6 == MicroSegments && !c.Fabric.Clos():
		return fail("CarrierV6", "the paths of a %s have more switches than an address has micro segments; use another carrier",
			c.Fabric.Spec().Kind)
	case c.ControlPriority < 0 || c.ControlPriority > maxPriority:
		return fail("ControlPriority", "%d is outside 0 to %d", c.ControlPriority, maxPriority)
	case c.CloneClass < 0 || c.CloneClass > maxPriority:
		return fail("CloneClass", "%d is outside 0 to %d", c.CloneClass, maxPriority)
	}
	if c.LinksOnly {
		return nil
	}
	most := 0
	for _, id := range []fabric.NodeID{c.Fabric.ToRID(0), c.Fabric.ToRID(c.Fabric.ToRs())} {
		if int(id) < c.Fabric.Nodes() {
			most = max(most, c.Fabric.Node(id).Uplinks())
		}
	}
	if c.MaxGroupSize < most || c.MaxGroupSize > groupSizeLimit {
		return fail("MaxGroupSize", "%d is outside %d (the uplinks of a switch) to %d", c.MaxGroupSize, most, groupSizeLimit)
	}
	if n := int(perToRGroup) + c.Fabric.ToRs(); n > math.MaxUint16+1 {
		return fail("Fabric", "%d ToRs need more than 2^16 ECMP group numbers; the most is %d",
			c.Fabric.ToRs(), math.MaxUint16+1-int(perToRGroup))
	}
	if err := c.Balancer.validate(c.Fabric, c.MaxGroupSize); err != nil {
		return fmt.Errorf("%w: Balancer.%w", ErrConfig, err)
	}
	e := c.ECN
	if e == (ECN{}) {
		return nil
	}
	switch {
	case e.Kmin < 0 || e.Kmax < e.Kmin:
		return fail("ECN.Kmax", "%v is below Kmin (%v)", e.Kmax, e.Kmin)
	case e.Pmax < 0 || e.Pmax > 1 || math.IsNaN(e.Pmax):
		return fail("ECN.Pmax", "%v is not a probability of 0 to 1", e.Pmax)
	case e.Unit < 1:
		return fail("ECN.Unit", "%d is not a number of bytes above 0", int64(e.Unit))
	case e.Kmax/e.Unit > maxDepth:
		return fail("ECN.Kmax", "%v is more than %d steps of %v; use a larger Unit", e.Kmax, maxDepth, e.Unit)
	}
	return nil
}
