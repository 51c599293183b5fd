package transport

import (
	"errors"
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// Defaults of a [Config], from the reference evaluation.
const (
	DefaultMTU     = 9000               // bytes of payload, as in the paper's reference simulation
	DefaultRTO     = fabric.Millisecond // retransmission time-out, as in the paper's reference simulation
	DefaultMinRate = 100 * fabric.Mbps
	slowest        = 100 // steps of this size per line rate

	// DefaultReorderWindow is the default of [Config].ReorderWindow, in packets: 2.3 MB with the default MTU, several
	// round trips at 400 Gb/s.
	DefaultReorderWindow = 256
)

// MaxMessage is the longest message of a QP, in bytes: the limit of InfiniBand's reliable connections.
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
	// Outer is the number of bytes of an outer header that the caller adds to each packet, so that rates include it.
	Outer int

	// PKey is the partition key of all packets. Packets with another one are counted as foreign and dropped. 0: the
	// default partition.
	PKey uint16

	MTU      int         // bytes of payload in a full packet; 0: DefaultMTU
	LineRate fabric.Rate // largest rate of a QP; 0: the host link's

	RTO fabric.Time // minimum retransmission time-out; 0: DefaultRTO
	// MostRTO is the longest time that the retransmission timer grows to, as in RFC 6298: it is at least srtt + 4
	// rttvar, and doubles each time that it expires, until something is acknowledged. Hosts in software need it:
	// answers are late there because processes wait for processors, and what is retransmitted too early makes them wait
	// longer. 0: it stays RTO, as that of RNICs.
	MostRTO fabric.Time
	// AckEvery is the number of packets per requested ACK; the last packet and retransmitted ones always request
	// one. 0: 1.
	AckEvery int
	// AckWhenAsked makes a responder that keeps packets acknowledge only the end of a message and packets that
	// request an ACK. Otherwise it also acknowledges each packet that arrives out of order or fills a gap, and the
	// requester learns of a loss by the packets behind it.
	AckWhenAsked bool
	// Trip is the round-trip time of a full packet over the longest path of an otherwise idle network. After it an ACK
	// of a message's last packets counts as overdue, and the sender probes for it. 0: no such probes.
	Trip fabric.Time
	// ProbeOnFlip sends a zero-length RDMA WRITE on a QP that changes its path while all its packets are sent and some
	// are not acknowledged.
	ProbeOnFlip bool

	// Receiver names the rule by which responders of all hosts handle packets that arrive out of order; senders
	// retransmit accordingly.
	Receiver Receiver
	// ReorderWindow is the number of packets, from the first missing one, that a responder of [SelectiveRepeat] keeps,
	// and the most that a sender has in flight; 0: [DefaultReorderWindow]. A packet of a balanced QP counts as lost
	// when a packet half a window later has arrived. The packets of a QP with one path stay in order, so any later
	// packet shows the loss.
	ReorderWindow int
	// Reordered says that switches may reorder the packets of any QP, so that losses of all QPs are detected as those
	// of balanced QPs are.
	Reordered bool
	// LateLoss detects losses of QPs whose packets take several paths by time, as RACK-TLP (RFC 8985) does, and probes
	// for their last packets. It requires receivers that keep packets that arrive out of order, and Trip.
	LateLoss bool

	Control Control
	// ControlParams are the rate control's parameters, by name; see [Spec].
	ControlParams map[string]string
	MinRate       fabric.Rate // 0: DefaultMinRate, or a hundredth of the line rate if that is less

	// AckLabel returns the path label of an ACK, NAK or CNP to peer. mirrored is the label of the data packet that
	// caused it; rerouted says that a switch rerouted that packet around a dead uplink, as its DSCP shows. nil: the
	// label is mirrored. It is not called for labels that name no path.
	AckLabel func(now fabric.Time, peer fabric.NodeID, mirrored fabric.Label, rerouted bool) fabric.Label
	// Balancer chooses the path of each packet of balanced QPs; nil: no QP may be balanced.
	Balancer Balancer
	// Losses receives the paths of packets that balanced QPs lose; may be nil. With [GoBackN] only time-outs are
	// reported.
	Losses PathLosses
	// Watcher receives evidence of losses on the paths of QPs whose packets stay in order; may be nil.
	Watcher PathWatcher
	// Place writes the payload of each data packet that the responder accepts, or says why it cannot. nil: payloads
	// have no bytes, only lengths. It requires [GoBackN].
	Place func(now fabric.Time, p *Placement) Placing
	// InitialPSN returns the first PSN of a QP; nil: a hash of its arguments. Both ends must agree.
	InitialPSN func(src, dst fabric.NodeID, qpn uint32) uint32
	// Connect, if not nil, makes the endpoint accept and send only packets of sessions: see [Endpoint.SetSession]. It
	// is called when a packet to a host waits for a session with it. PKey and InitialPSN are not used then.
	Connect func(now fabric.Time, peer fabric.NodeID)
	// Stale is called for each packet from a host that does not belong to the session with it; nil: such packets are
	// only counted.
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

// Validate returns the first error in c, with the name of the field and the remedy.
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
	case c.RTO < 0 || c.MostRTO < 0 || c.AckEvery < 0:
		return bad("RTO, MostRTO or AckEvery is negative; use 0 for the default")
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

// PathWatcher receives evidence about the paths of QPs: losses, overdue answers, congestion marks. It may call the
// endpoint as a [Handler] may.
type PathWatcher interface {
	// Lost reports lost packets of a QP (its receiver sent a NAK), or lost ACKs (a later ACK came). Time-outs are
	// reported to the [Handler] alone.
	Lost(now fabric.Time, qp QP, l Loss)
	// Overdue reports that a QP has waited for an ACK for longer than a round trip of the idle fabric. That alone does
	// not indicate a loss: packets also wait in busy queues. The QP retransmits nothing for it.
	Overdue(now fabric.Time, qp QP, o Overdue)
	// PathAnswered reports the answer to a path probe; question is the number passed to [Endpoint.Ask].
	PathAnswered(now fabric.Time, peer fabric.NodeID, question uint32)
	// Congested reports an ECN mark on the path with label l: of a packet to a peer or, if inbound, from it. If one
	// packet causes both, Congested is called before Lost.
	Congested(now fabric.Time, peer fabric.NodeID, l fabric.Label, inbound bool)
}

// Loss is what is known of a QP's lost packets and ACKs.
type Loss struct {
	Packets int         // data packets that its receiver reported missing by a NAK
	Acks    int         // ACKs that are missing although later ones came
	Since   fabric.Time // the lost packets were sent at this time or later
}

// Overdue describes a QP whose ACK is overdue.
type Overdue struct {
	Since  fabric.Time // time of the last ACK, or of the first packet sent after it
	Probes int         // tail probes sent since then: zero-length WRITEs behind the last packets
}
