package transport

import (
	"fmt"
	"net/netip"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// QP is the sender's identifier of a queue pair, chosen by the caller.
type QP uint32

// Handler takes an endpoint's events. See the package comment for the calls that it may make.
type Handler interface {
	// Acked reports payload bytes newly acknowledged.
	Acked(now fabric.Time, qp QP, bytes int64)
	// Done reports that all of a QP's message is acknowledged. The QP no longer exists.
	Done(now fabric.Time, qp QP)
	// Timeout reports that the retransmission timer expired; the QP has gone back to its first unacknowledged
	// packet.
	Timeout(now fabric.Time, qp QP)
	// Delivered reports, once, that a message from src has arrived whole.
	Delivered(now fabric.Time, src fabric.NodeID, message uint64, bytes int64)
	// Quench passes a source quench's payload, valid during the call, and its (unverified) source address.
	Quench(now fabric.Time, payload []byte, src netip.Addr)
}

// Frame describes a packet that Next wrote.
type Frame struct {
	Len     int  // header bytes written
	Tail    int  // bytes that follow on the wire: payload, padding, ICRC
	Control bool // ACK or NAK

	// Of data packets: the QP, and the packet's number within it. The packet's payload begins at byte Packet*MTU of
	// the message.
	QP     QP
	Packet int32
}

// Stats are an endpoint's counts since it was made.
type Stats struct {
	DataSent, ControlSent uint64 // packets
	BytesAcked            uint64 // payload
	Retransmissions       uint64 // data packets retransmitted
	Nudges                uint64 // zero-length writes sent, without retransmissions
	TailProbes            uint64 // of these: because an answer was late
	PathProbes            uint64 // sent
	PathProbesTaken       uint64 // answered for other hosts
	Timeouts              uint64 // of messages: probes are not counted
	NaksSent, NaksTaken   uint64
	Marked                uint64 // acknowledgements that carried BECN
	RateCuts              uint64
	DataReceived          uint64
	BytesDelivered        uint64 // payload of accepted packets
	Delivered             uint64 // messages
	Duplicates            uint64 // data packets below the expected PSN
	OutOfOrder            uint64 // data packets above the expected PSN
	BeyondWindow          uint64 // data packets beyond the reorder window
	Trimmed               uint64 // data packets that a switch trimmed to their headers
	StaleData             uint64 // data packets of a closed QP
	StaleAcks             uint64 // ACKs without news, or of a closed QP
	CongestionMarks       uint64 // data packets that came with CE
	CNPsSent, CNPsTaken   uint64 // congestion notification packets; ignored by other controls
	Quenches              uint64
	Foreign               uint64 // packets that are neither RoCEv2 nor a quench
	Refused               uint64 // data packets refused by Config.Place
	Malformed             uint64 // packets that contradict themselves or the protocol
	QPsOpened, QPsDone    uint64
	QPsPeak               int // open at once
	ActiveQPs             int // open now
	ResponderQPs          int // with state at the responder now
}

// Endpoint is the RoCEv2 interface of one host. See the package comment.
type Endpoint struct {
	cfg     Config
	handler Handler

	transport transport
	control   rateControl
	roomy     Roomy // the balancer, if it has windows; otherwise nil
	// keepsSends: the rate control, or another part, needs the packets' sending times.
	keepsSends bool
	inOrder    bool // receivers accept packets in order only

	stack   stack
	full    int         // bytes of a full data packet without RETH, headers and tail
	fullGap fabric.Time // their transmission time at line rate
	span    int32       // largest number of packets that a responder can be sent from the first missing one
	ask     int         // number of packets per requested ACK
	// dataField and ackField are as in [Needs].
	dataField, ackField int

	stats    Stats
	paused   bool // sending of data is stopped
	overdues overdues
	longest  fabric.Time // round trip of a full packet over the longest path of the idle fabric
	lates    lates

	ports    []port // one per plane
	incoming packet // scratch of Receive
	requester
	responder
	sessions []session // by host; nil: all packets are of one partition
}

// New returns an endpoint without QPs, or the error of [Config.Validate].
func New(c Config, h Handler) (*Endpoint, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	e := &Endpoint{cfg: c.withDefaults(), handler: h}
	receiver, err := e.cfg.Receiver.Spec()
	if err != nil {
		return nil, err
	}
	control, err := e.cfg.Control.Spec()
	if err != nil {
		return nil, err
	}
	newControl, err := control.read(e.cfg.ControlParams)
	if err != nil {
		return nil, err
	}
	e.dataField, e.ackField = control.Needs.DataField, control.Needs.AckField
	e.roomy, _ = e.cfg.Balancer.(Roomy)
	e.keepsSends = control.Needs.SendTimes || e.cfg.Losses != nil
	e.inOrder = receiver.Needs.InOrder
	for range e.cfg.Fabric.Planes() {
		e.ports = append(e.ports, newPort())
	}
	e.stack = newStack(&e.cfg)
	if e.cfg.Connect != nil {
		e.sessions = make([]session, e.cfg.Fabric.Hosts())
	}
	e.span = unlimited
	if receiver.Needs.ReorderWindow {
		e.span = int32(e.cfg.ReorderWindow)
	}
	// A sender that has filled the span waits for an ACK: half of the span may be in flight.
	e.ask = min(e.cfg.AckEvery, max(1, int(e.span/2)))
	e.full = e.stack.len + e.cfg.MTU + padding(e.cfg.MTU) + frame.ICRCSize + e.cfg.Outer + e.dataField
	e.fullGap = e.cfg.LineRate.TimeFor(int64(e.full))
	if err := e.stack.encode(e.template[:], &e.cfg, e.cfg.Host, frame.WriteMiddle, ecnECT0); err != nil {
		return nil, fmt.Errorf("endpoint: header template: %w", err)
	}
	if err := e.ack.init(&e.stack, &e.cfg); err != nil {
		return nil, fmt.Errorf("endpoint: header template: %w", err)
	}
	if err := e.initProbe(); err != nil {
		return nil, fmt.Errorf("endpoint: header template: %w", err)
	}
	e.transport = receiver.transport(e)
	e.longest = IdleTrip(e.cfg.Fabric, e.cfg.MTU+e.cfg.Outer)
	e.directory.tripOf = e.tripOf
	e.control = newControl(e)
	if e.control.losses == nil {
		e.control.losses = lineRate{}
	}
	return e, nil
}

// Stats returns the counts so far.
func (e *Endpoint) Stats() Stats {
	s := e.stats
	s.ActiveQPs = e.open
	s.ResponderQPs = int(e.contexts.len) - len(e.contexts.unused)
	return s
}

// Next writes the headers of the packet to send now into dst, which holds at least [MaxHeader] bytes, and describes
// it. ok is false if there is nothing to send now; ask again at [Endpoint.NextWake]. Expired timers are handled
// first, so Next can call the handler.
func (e *Endpoint) Next(now fabric.Time, dst []byte) (f Frame, ok bool) { return e.NextBy(0, now, dst) }

// NextBy is Next for one of several ports.
func (e *Endpoint) NextBy(number int, now fabric.Time, dst []byte) (f Frame, ok bool) {
	e.expire(now)
	if e.control.credit != nil {
		e.control.credit.grant(now)
	}
	p := &e.ports[number]
	if p.queue.len > 0 {
		e.stats.ControlSent++
		k, field := p.queue.pop()
		return e.buildAck(k, field, dst), true
	}
	if e.paused {
		return Frame{}, false
	}
	return e.nextData(now, p, dst)
}

// NextWake returns when to call Next again if no other call comes before. It is in the past if Next has something
// to do now. ok is false if only other calls can cause something to send.
func (e *Endpoint) NextWake() (at fabric.Time, ok bool) { return e.NextWakeBy(0) }

// NextWakeBy is NextWake for one of several ports.
func (e *Endpoint) NextWakeBy(number int) (at fabric.Time, ok bool) {
	if p := &e.ports[number]; p.queue.len > 0 || p.waits() && !e.paused {
		return 0, true
	}
	at, ok = e.nextTimeout()
	if t, waits := e.nextOverdue(); waits && (!ok || t < at) {
		at, ok = t, true
	}
	if t, waits := e.nextLate(); waits && (!ok || t < at) {
		at, ok = t, true
	}
	if e.control.credit != nil {
		if t := e.control.credit.due(); t < never && (!ok || t < at) {
			at, ok = t, true
		}
	}
	if e.paused {
		return at, ok
	}
	if len(e.paced) > 0 && (!ok || e.paced[0].at < at) {
		return e.paced[0].at, true
	}
	return at, ok
}

// Pause stops the sending of data, as a switch's pause frame does, or resumes it. ACKs and timers are not stopped.
func (e *Endpoint) Pause(paused bool) { e.paused = paused }

// Sending returns the payload bytes in flight of the open QPs, and the mean of their allowed rates; 0 if none is
// open.
func (e *Endpoint) Sending() (inFlight int64, allowed fabric.Rate) {
	open := fabric.Rate(0)
	for _, q := range e.qps {
		if q.live {
			inFlight += q.payload(q.sndUna, q.sent, int64(e.cfg.MTU))
			allowed += q.rate.now
			open++
		}
	}
	return inFlight, allowed / max(1, open)
}

func padding(payload int) int { return -payload & 3 }
