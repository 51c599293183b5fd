package transport

import (
	"encoding/binary"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/params"
)

// csig is a rate control by Congestion Signaling (draft-ravi-ippm-csig-01): each switch compares a tag in a data packet
// with its port, and replaces it if the port is worse; the receiver reflects the tag. The signal is the greatest delay
// of a hop. Our reading: Swift's window takes it in place of the measured queueing. A round trip is the idle one plus
// that delay, so that only the bottleneck of the packet's path counts, without queues of other hops and of the way
// back.
type csig struct{ swift }

// CSIG names a rate control by CSIG (draft-ravi-ippm-csig): switches write their congestion into a tag of each packet.
const CSIG Control = "csig"

func csigSpec() Spec {
	return Spec{
		Kind: RateControl, Name: string(CSIG), Summary: "changes its window by the greatest delay of a hop, which switches write into packets (virtual world only)",
		Params: []Param{targetDelay}, Needs: Needs{DataField: csigSize, AckField: csigSize, Stamp: stampCSIG},
		control: func(a *params.Reader) controlMaker {
			target := readTargetDelay(a)
			return func(e *Endpoint) rateControl {
				c := &csig{swift{delayMeter: newDelayMeter(e, target)}}
				return rateControl{pacer: c, losses: c, ack: intReflection{}}
			}
		},
	}
}

// csigTag is our layout of the draft's fields: signal type 4, signal 20, then the locator of the bottleneck, switch 24
// and port 16 bits. It stands where HPCC's [telemetry] does, not between Ethernet and IP.
type csigTag uint64

const (
	csigSize     = 8
	csigHopDelay = 1 // signal type: the greatest delay of a hop in ns, the greatest number meaning that or more

	csigPortBits, csigSwitchBits, csigSignalBits = 16, 24, 20
)

// stampCSIG is CSIG's [Needs].Stamp. The delay of a hop is the time that the port takes to send the data that waits
// there. Of equal ones the first hop stays.
func stampCSIG(hdr []byte, h Hop) {
	field := dataField(hdr, csigSize)
	if field == nil {
		return
	}
	delay := uint64(min(h.Rate.TimeFor(h.Queue)/fabric.Nanosecond, 1<<csigSignalBits-1))
	tag := csigTag(csigHopDelay<<csigSignalBits|delay)<<(csigSwitchBits+csigPortBits) |
		csigTag(h.Switch)&(1<<csigSwitchBits-1)<<csigPortBits | csigTag(h.Port)&(1<<csigPortBits-1)
	if was, _, _, ok := csigTag(binary.BigEndian.Uint64(field)).hop(); !ok || was < fabric.Time(delay)*fabric.Nanosecond {
		binary.BigEndian.PutUint64(field, uint64(tag))
	}
}

// hop returns the greatest delay of a hop and its place. ok is false for what no switch has written.
func (t csigTag) hop() (delay fabric.Time, at fabric.NodeID, port fabric.PortNo, ok bool) {
	signal := t >> (csigSwitchBits + csigPortBits)
	return fabric.Time(signal&(1<<csigSignalBits-1)) * fabric.Nanosecond, fabric.NodeID(t >> csigPortBits & (1<<csigSwitchBits - 1)),
		fabric.PortNo(t & (1<<csigPortBits - 1)), signal>>csigSignalBits == csigHopDelay
}

func (c *csig) acked(now fabric.Time, q *qp, p *packet, packets, _ int32, _ bool) {
	s := c.qps.at(q)
	s.GaveUp = 0
	if len(p.rest) < frame.AETHSize+csigSize {
		return
	}
	delay, _, _, ok := csigTag(binary.BigEndian.Uint64(p.rest[frame.AETHSize:])).hop()
	if !ok {
		return
	}
	c.answered(now, q, s.Base+delay, packets)
}

// cut implements [lossObserver].
func (c *csig) cut(now fabric.Time, q *qp, _ int32) { c.lost(now, q, 1) }
