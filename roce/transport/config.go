package transport

import (
	"errors"
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// Defaults of a [Config], from the reference evaluation.
const (
	DefaultMTU     = 9000               // [ref] bytes of payload
	DefaultRTO     = fabric.Millisecond // [ref]
	DefaultMinRate = 100 * fabric.Mbps
	slowest        = 100 // steps of this size per line rate

	// DefaultReorderWindow is in packets: 2.3 MB of the default MTU, several round trips at 400 Gb/s.
	DefaultReorderWindow = 256
)

// MaxMessage is the longest message of a QP in bytes: RC's limit.
const MaxMessage = 1 << 31

// Errors of this package.
var (
	ErrConfig  = errors.New("endpoint: bad configuration")
	ErrMessage = errors.New("endpoint: bad message")
	ErrUnknown = errors.New("endpoint: no such queue pair")
)

// Config sets up an [Endpoint].
type Config struct {
	Fabric *fabric.Fabric
	Host   fabric.NodeID

	IPv6 bool
	// FlowLabel also carries the path label in the IPv6 flow label. The UDP source port always carries it.
	FlowLabel bool
	// Outer is the length of an outer header that the owner adds to each packet; rates include it.
	Outer int

	// PKey is the partition: packets of other partitions are foreign. 0: the default one.
	PKey uint16

	MTU      int         // bytes of payload in a full packet; 0: DefaultMTU
	LineRate fabric.Rate // largest rate of a QP; 0: the host link's

	RTO fabric.Time // 0: DefaultRTO
	// AckEvery is the number of packets per requested ACK; the last packet and retransmitted ones always request
	// one. 0: 1.
	AckEvery int
	// AckWhenAsked makes a responder that keeps packets acknowledge only the end of a message and packets that
	// request an ACK. Otherwise it also acknowledges each packet that arrives out of order or fills a gap, and the
	// requester learns of a loss by the packets behind it.
	AckWhenAsked bool
	// Trip is the round trip of a full packet over the longest path of an otherwise idle network: no answer is late
	// before. 0: no probes for late answers to a message's last packets.
	Trip fabric.Time
	// ProbeOnFlip posts a zero-length WRITE on a queue pair that changes its path with nothing left to send.
	ProbeOnFlip bool

	// Receiver is the way in which the responders of all hosts handle packets that arrive out of order; senders
	// retransmit accordingly.
	Receiver Receiver
	// ReorderWindow is the number of packets, from the first missing one, that a responder of SelectiveRepeat can
	// keep, and that the sender has in flight at most; 0: DefaultReorderWindow. A packet of a balanced QP counts as
	// lost when one half a window later has arrived. A QP with one path is not reordered: any later packet shows
	// the gap.
	ReorderWindow int
	// Reordered says that switches may reorder the packets of any QP: losses of all QPs are detected as for
	// balanced ones.
	Reordered bool
	// LateLoss detects by time the losses of QPs whose packets take several paths, and probes for their last
	// packets: see late.go. It needs receivers that keep packets, and Trip.
	LateLoss bool

	Control Control
	// ControlParams are the rate control's parameters, by name; see [Spec].
	ControlParams map[string]string
	MinRate       fabric.Rate // 0: DefaultMinRate, or a hundredth of the line rate if that is less

	// AckLabel chooses the label of a control packet to peer, from the label of the data packet that caused it, and
	// from whether a switch rerouted that packet around a dead uplink, as its DSCP shows. nil keeps the label. It
	// is not called for labels of no path.
	AckLabel func(now fabric.Time, peer fabric.NodeID, mirrored fabric.Label, rerouted bool) fabric.Label
	// Balancer labels the packets of balanced QPs; nil: there are none.
	Balancer Balancer
	// Losses receives the paths of packets that balanced QPs lose; may be nil. With GoBackN it receives only those
	// of time-outs.
	Losses PathLosses
	// Watcher receives the losses of QPs that keep their packets in order; may be nil.
	Watcher PathWatcher
	// Place takes the payload of the data packets that the responder accepts, and decides about one that it cannot
	// take. nil: payloads are lengths only. It needs go-back-n receivers.
	Place func(now fabric.Time, p *Placement) Placing
	// InitialPSN returns the first PSN of a QP; nil: a hash of its arguments. Both ends must agree.
	InitialPSN func(src, dst fabric.NodeID, qpn uint32) uint32
	// Connect, if not nil, makes the endpoint accept and send packets of sessions only: see [Endpoint.SetSession]. It
	// is called when a packet to a host waits for one. PKey and InitialPSN are then not used.
	Connect func(now fabric.Time, peer fabric.NodeID)
	// Stale is called for packets from a host that are not of its session; nil: they are only counted.
	Stale func(now fabric.Time, src fabric.NodeID)
}

func (c Config) withDefaults() Config {
	if c.PKey == 0 {
		c.PKey = frame.DefaultPKey
	}
	if c.MTU == 0 {
		c.MTU = DefaultMTU
	}
	if c.RTO == 0 {
		c.RTO = DefaultRTO
	}
	if c.AckEvery == 0 {
		c.AckEvery = 1
	}
	if c.LineRate == 0 && c.Fabric != nil && c.Host >= 0 && int(c.Host) < c.Fabric.Hosts() {
		c.LineRate = c.Fabric.Link(c.Fabric.Node(c.Host).Link(1)).Rate
	}
	if c.MinRate == 0 {
		c.MinRate = min(DefaultMinRate, c.LineRate/slowest)
	}
	if c.ReorderWindow == 0 {
		c.ReorderWindow = DefaultReorderWindow
	}
	if c.InitialPSN == nil {
		c.InitialPSN = hashedPSN
	}
	return c
}

// Validate returns the first error in c, with the field and the remedy.
func (c Config) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
	}
	c = c.withDefaults()
	receiver, err := c.Receiver.Spec()
	if err != nil {
		return err
	}
	control, err := c.Control.Spec()
	if err != nil {
		return err
	}
	switch {
	case c.Fabric == nil:
		return bad("no fabric")
	case c.Host < 0 || int(c.Host) >= c.Fabric.Hosts():
		return bad("host is node %d; use a host, 0 to %d", c.Host, c.Fabric.Hosts()-1)
	case c.FlowLabel && !c.IPv6:
		return bad("labels in the flow label need IPv6")
	case c.MTU < 256 || c.MTU > 65000:
		return bad("MTU is %d bytes of payload; use 256 to 65000", c.MTU)
	case c.Trip < 0:
		return bad("round trip is %v; use 0 for no probes of late answers", c.Trip)
	case c.RTO < 0 || c.AckEvery < 0:
		return bad("RTO or AckEvery is negative; use 0 for the default")
	case c.MinRate < 0 || c.MinRate > c.LineRate:
		return bad("least rate is %v; use one up to the line's, %v", c.MinRate, c.LineRate)
	case c.LineRate > 8*fabric.Tbps:
		return bad("line rate is %v; use at most 8Tb/s", c.LineRate)
	case control.Needs.AnyOrder && receiver.Needs.InOrder:
		return bad("%s needs receivers that keep packets; use the receiver %v or %v", control.Name, SelectiveRepeat, Ideal)
	case c.ReorderWindow < 2 || c.ReorderWindow > maxPackets:
		return bad("reorder window is %d packets; use 2 to %d", c.ReorderWindow, maxPackets)
	case c.LateLoss && (receiver.Needs.InOrder || c.Trip == 0):
		return bad("losses are to be found by time, as fair opponents do, for which receivers keep packets and tails are probed; use the receiver %v or %v, and probes",
			SelectiveRepeat, Ideal)
	case c.Place != nil && !receiver.Needs.InOrder:
		return bad("payloads are placed in order only; use the receiver %v", GoBackN)
	}
	return control.Check(c.ControlParams)
}

// hashedPSN mixes its arguments; the result only needs to differ between QPs.
func hashedPSN(src, dst fabric.NodeID, qpn uint32) uint32 {
	h := uint64(src)<<40 ^ uint64(dst)<<24 ^ uint64(qpn)
	h ^= h >> 31
	h *= 0x9e3779b97f4a7c15
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	return uint32(h>>32) & psnMask
}

// PathWatcher receives evidence about the QPs' paths. It may make the same calls as a [Handler].
type PathWatcher interface {
	// Lost reports lost packets of a QP, or lost acknowledgements: a receiver asked for one, or an ACK came without
	// those before it. Time-outs are reported to the Handler alone.
	Lost(now fabric.Time, qp QP, l Loss)
	// Overdue reports that a QP has waited for an answer for longer than a round trip of the idle fabric. It says nothing of
	// the path: data wait wherever the fabric is busy. The QP itself retransmits nothing.
	Overdue(now fabric.Time, qp QP, o Overdue)
	// PathAnswered reports the answer to a path probe: see [Endpoint.Ask].
	PathAnswered(now fabric.Time, peer fabric.NodeID, question uint32)
	// Congested reports that a switch has marked a packet to a peer or, inbound, one from it. If one packet causes
	// both, Congested precedes Lost.
	Congested(now fabric.Time, peer fabric.NodeID, l fabric.Label, inbound bool)
}

// Loss is the known loss of a QP.
type Loss struct {
	Packets int         // packets for which its receiver asked
	Acks    int         // missing acknowledgements, although later ones came
	Since   fabric.Time // the lost packets were sent at this time or later
}

// Overdue is the knowledge of a QP whose answer is overdue.
type Overdue struct {
	Since  fabric.Time // time of its last answer, or of the first packet after that
	Probes int         // tail probes since: zero-length WRITEs behind its last packets
}
