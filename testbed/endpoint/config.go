package endpoint

import (
	"errors"
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/rocev2"
)

// Defaults of a [Config]: the reference evaluation's.
const (
	DefaultMTU     = 9000               // [ref] bytes of payload
	DefaultRTO     = fabric.Millisecond // [ref]
	DefaultMinRate = 100 * fabric.Mbps
	slowest        = 100 // of these a line has: steps up to its rate

	// DefaultReorderWindow is in packets: 2.3 MB of the default MTU, several
	// round trips at 400 Gb/s.
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

// Config is what an [Endpoint] needs to know.
type Config struct {
	Fabric *fabric.Fabric
	Host   fabric.NodeID

	IPv6 bool
	// FlowLabel carries the path label in the IPv6 flow label. The UDP source
	// port carries it in any case.
	FlowLabel bool
	// Outer is the size of an outer header that the owner adds to each packet: rates count it.
	Outer int

	// PKey is the partition: packets of another are foreign. 0: the default one.
	PKey uint16

	MTU      int         // bytes of payload in a full packet; 0: DefaultMTU
	LineRate fabric.Rate // a QP's top rate; 0: the host link's

	RTO fabric.Time // 0: DefaultRTO
	// AckEvery asks for an ACK every that many packets, for the last one and for
	// every repeated one; 0: 1.
	AckEvery int
	// AckWhenAsked has a responder that keeps packets acknowledge those that ask
	// for it and the end of a message only. Otherwise it also does each packet
	// that comes out of its turn or fills a gap, and the requester learns of a loss
	// by what came behind it.
	AckWhenAsked bool
	// Trip is the round trip of a full packet over the longest path, when nothing else
	// is on the way: no answer is late before. 0: the last packets of a message are not
	// probed when it is.
	Trip fabric.Time
	// NoNudge leaves out the zero-length WRITE after a change of path.
	NoNudge bool

	// Receiver is what the responders of all hosts do with packets that come
	// before their turn; senders repeat accordingly.
	Receiver Receiver
	// ReorderWindow is how many packets from the first one missing a responder
	// of SelectiveRepeat can keep, and the sender has on the way at most; 0:
	// DefaultReorderWindow. A packet of a balanced QP is taken for lost when
	// one half a window later has arrived. A QP with a path of its own has no
	// reason to be reordered: any later packet shows the gap.
	ReorderWindow int
	// Reordered says that switches may reorder the packets of any QP: all are
	// taken for lost as those of balanced ones are.
	Reordered bool
	// LateLoss finds the losses of QPs whose packets take several paths by time, and probes
	// for their last packets: see late.go. It needs receivers that keep packets, and Trip.
	LateLoss bool

	Control Control
	// ControlParams are the control's parameters, by name; see [Spec].
	ControlParams map[string]string
	MinRate       fabric.Rate // 0: DefaultMinRate, or a hundredth of the line rate if that is less

	// AckLabel chooses the label of a control packet to peer, given that of the
	// data packet that caused it, and whether a switch sent that packet round a
	// dead uplink, as its DSCP says. nil keeps the label. It is not asked about
	// labels of no path.
	AckLabel func(now fabric.Time, peer fabric.NodeID, mirrored fabric.Label, rerouted bool) fabric.Label
	// Balancer labels the packets of balanced QPs; nil: there are none.
	Balancer Balancer
	// Losses receives the paths of packets that balanced QPs lose; may be
	// nil. With GoBackN it receives only those of time-outs.
	Losses PathLosses
	// Watcher receives the losses of QPs that keep their packets in order; may be nil.
	Watcher PathWatcher
	// Place takes the payload of the data packets that the responder accepts, and
	// says what to do about one that it cannot take. nil: payloads are lengths
	// only. It needs receivers that go back.
	Place func(now fabric.Time, p *Placement) Placing
	// InitialPSN gives the first PSN of a QP; nil: a hash of its arguments. Both
	// ends must agree.
	InitialPSN func(src, dst fabric.NodeID, qpn uint32) uint32
}

func (c Config) withDefaults() Config {
	if c.PKey == 0 {
		c.PKey = rocev2.DefaultPKey
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

// Validate reports the first thing wrong with c, with the field and the remedy.
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

// hashedPSN mixes its arguments; the result needs to differ between QPs, nothing more.
func hashedPSN(src, dst fabric.NodeID, qpn uint32) uint32 {
	h := uint64(src)<<40 ^ uint64(dst)<<24 ^ uint64(qpn)
	h ^= h >> 31
	h *= 0x9e3779b97f4a7c15
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	return uint32(h>>32) & psnMask
}

// PathWatcher receives evidence about the paths that QPs take. It may do what a
// [Handler] may.
type PathWatcher interface {
	// Lost reports packets of a QP, or acknowledgements of them, that are known to
	// be lost: a receiver asked for one, or an ACK came without those before it. A
	// time-out is reported to the Handler alone.
	Lost(now fabric.Time, qp QP, l hostagent.Loss)
	// Unanswered reports that nothing is answered of what a QP has sent since a time,
	// though other QPs are answered. It may still be: the QP sends nothing again by
	// itself.
	Unanswered(now fabric.Time, qp QP, l hostagent.Silence)
	// Late reports that an answer came by a path that its QP is not on any more.
	Late(now fabric.Time, peer fabric.NodeID, l fabric.Label)
	// Congested reports that a switch has marked a packet to a peer or, inbound, one
	// from it. It precedes Lost where one packet causes both.
	Congested(now fabric.Time, peer fabric.NodeID, l fabric.Label, inbound bool)
}
