package transport

import (
	"fmt"
	"math"
	"net/netip"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// QP is the number by which a sender's endpoint and its caller name a queue pair. The caller chooses it; it is not on
// the wire.
type QP uint32

// Handler receives an endpoint's events. The package comment says which calls of the endpoint it may make.
type Handler interface {
	// Acked reports that so many more payload bytes of a QP are acknowledged; 0: a switch has trimmed a packet.
	Acked(now fabric.Time, qp QP, bytes int64)
	// Done reports that all of a QP's message is acknowledged. The QP no longer exists.
	Done(now fabric.Time, qp QP)
	// Timeout reports that a QP's retransmission timer has expired. The QP starts again at its first unacknowledged
	// packet.
	Timeout(now fabric.Time, qp QP)
	// Delivered reports, once per message, that a message from host src has arrived completely. bytes is its length.
	Delivered(now fabric.Time, src fabric.NodeID, message uint64, bytes int64)
	// Quench passes on the UDP payload of a source quench or notice, valid during the call, and its IP source address,
	// which is not verified.
	Quench(now fabric.Time, payload []byte, src netip.Addr)
}

// Frame describes a packet that [Endpoint.Next] wrote.
type Frame struct {
	Len     int  // bytes of headers written
	Tail    int  // bytes that follow on the wire: payload, padding, ICRC
	Control bool // ACK, NAK, CNP or path probe

	// QP and Packet are set for data packets: the QP, and the packet's number in it. The packet's payload begins at
	// byte Packet*MTU of the message.
	QP     QP
	Packet int32
}

// Stats are an endpoint's counts since it was made.
type Stats struct {
	DataSent, ControlSent uint64 // ACKs, NAKs, CNPs and path probes
	BytesAcked            uint64 // payload bytes acknowledged
	Retransmissions       uint64 // data packets retransmitted
	// zero-length WRITEs sent that make the receiver report a gap; retransmitted ones are not counted
	Nudges              uint64
	TailProbes          uint64 // of the nudges: those sent because an ACK was overdue
	PathProbes          uint64 // path probes sent
	PathProbesTaken     uint64 // path probes of other hosts that were answered
	Timeouts            uint64 // expired retransmission timers, without those of probes
	NaksSent, NaksTaken uint64
	Marked              uint64 // ACKs that reported an ECN mark (BECN)
	RateCuts            uint64
	DataReceived        uint64
	BytesDelivered      uint64 // payload bytes of accepted packets
	Delivered           uint64 // messages that arrived completely
	Duplicates          uint64 // data packets below the expected PSN
	OutOfOrder          uint64 // data packets above the expected PSN
	BeyondWindow        uint64 // data packets beyond the reorder window
	Trimmed             uint64 // data packets that a switch trimmed to their headers
	StaleData           uint64 // data packets of a closed QP
	StaleAcks           uint64 // ACKs that acknowledged nothing new, or of a closed QP
	CongestionMarks     uint64 // data packets that arrived with an ECN mark (CE)
	CNPsSent, CNPsTaken uint64 // congestion notification packets; ignored by other controls
	Quenches            uint64
	Foreign             uint64 // packets that are neither RoCEv2 nor a quench
	Refused             uint64 // data packets that Config.Place refused
	Malformed           uint64 // packets with contradictory lengths or fields, or against the protocol
	QPsOpened, QPsDone  uint64
	QPsPeak             int // largest number of QPs open at once
	ActiveQPs           int // QPs open now
	ResponderQPs        int // QPs of other hosts for which the responder keeps state now
}

// Endpoint is the RoCEv2 network interface of one host, as a state machine without clock or socket. See the package
// comment.
type Endpoint struct {
	cfg     Config
	handler Handler

	transport reliability
	control   rateControl
	windowed  WindowedBalancer // the balancer, if it has windows; otherwise nil
	// keepsSends: the rate control, or another part, needs the packets' sending times.
	keepsSends bool
	inOrder    bool // receivers accept packets in order only

	stack           headerStack
	fullPacketBytes int         // bytes of a full data packet without RETH, headers and tail
	fullPacketTime  fabric.Time // their transmission time at line rate
	maxPacketSpan   int32       // largest number of packets that a responder can be sent from the first missing one
	ackInterval     int         // number of packets per requested ACK
	// mostUnanswered is how many bytes of a message may be unanswered when the next one to the same peer begins.
	mostUnanswered int64
	// dataField and ackField are as in [Needs].
	dataField, ackField int

	stats         Stats
	paused        bool // sending of data is stopped
	overdueQueue  overdueQueue
	longestTrip   fabric.Time // round trip of a full packet over the longest path of the idle fabric
	lateDetectors lateDetectors

	ports    []sendPort // one per plane
	incoming packet     // scratch of Receive
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
	e.windowed, _ = e.cfg.Balancer.(WindowedBalancer)
	e.keepsSends = control.Needs.SendTimes || e.cfg.Losses != nil
	e.inOrder = receiver.Needs.InOrder
	for range e.cfg.Fabric.Planes() {
		e.ports = append(e.ports, newPort())
	}
	e.stack = newStack(&e.cfg)
	if e.cfg.Connect != nil {
		e.sessions = make([]session, e.cfg.Fabric.Hosts())
	}
	e.maxPacketSpan = unlimited
	if receiver.Needs.ReorderWindow {
		e.maxPacketSpan = int32(e.cfg.ReorderWindow)
	}
	// A sender that has filled the span waits for an ACK: half of the span may be in flight.
	e.ackInterval = min(e.cfg.AckEvery, max(1, int(e.maxPacketSpan/2)))
	e.fullPacketBytes = e.stack.len + e.cfg.MTU + padBytes(e.cfg.MTU) + frame.ICRCSize + e.cfg.Outer + e.dataField
	e.fullPacketTime = e.cfg.LineRate.TimeFor(int64(e.fullPacketBytes))
	if err := e.stack.encode(e.template[:], &e.cfg, e.cfg.Host, frame.WriteMiddle, ecnECT0); err != nil {
		return nil, fmt.Errorf("endpoint: header template: %w", err)
	}
	if err := e.ack.init(&e.stack, &e.cfg); err != nil {
		return nil, fmt.Errorf("endpoint: header template: %w", err)
	}
	if err := e.initProbe(); err != nil {
		return nil, fmt.Errorf("endpoint: header template: %w", err)
	}
	if e.mostUnanswered = math.MaxInt64; e.cfg.Trip > 0 {
		inFlight := e.bandwidthDelay(e.cfg.Trip)*int64(len(e.ports)) + int64(e.ackInterval*e.fullPacketBytes)
		e.mostUnanswered = 2 * inFlight
	}
	e.transport = receiver.transport(e)
	e.longestTrip = IdleTrip(e.cfg.Fabric, e.cfg.MTU+e.cfg.Outer)
	e.peerDirectory.tripOf = e.tripOf
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

// NextBy is [Endpoint.Next] for one of the ports of a host with several planes, counted from 0.
func (e *Endpoint) NextBy(number int, now fabric.Time, dst []byte) (f Frame, ok bool) {
	e.expireTimers(now)
	if e.control.credit != nil {
		e.control.credit.grantCredit(now)
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

// NextWakeBy is [Endpoint.NextWake] for one of the ports of a host with several planes, counted from 0.
func (e *Endpoint) NextWakeBy(number int) (at fabric.Time, ok bool) {
	if p := &e.ports[number]; p.queue.len > 0 || p.hasWaiting() && !e.paused {
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

// Sending returns, over all open QPs, the payload bytes in flight and the mean of the rates that rate control allows;
// 0 if no QP is open.
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

func padBytes(payload int) int { return -payload & 3 }
