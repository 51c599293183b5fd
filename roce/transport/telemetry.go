package transport

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// telemetry is what switches write into data packets for a rate control that asks for it, and what its answers carry
// back: in-band telemetry in HPCC's own format (Li et al., SIGCOMM 2019, figure 7), 2 bytes and 8 for each hop.
//
//	nHop 4, pathID 12, then of each hop: B 4, TS 24, txBytes 20, qLen 16 bits
//
// nHop counts the hops so far and pathID is the exclusive or of their switches. B is the link's rate, as the place in a
// list, TS in ns, txBytes in 128 B, qLen in 80 B, the greatest number meaning that or more. It stands at the end of a
// data packet's headers, before the payload, and behind an ACK's AETH.
type telemetry [telemetrySize]byte

const (
	maxHops       = 5
	hopSize       = 8
	telemetrySize = 2 + maxHops*hopSize

	hopTSBits, hopSentBits, hopQueueBits = 24, 20, 16
	hopSentUnit, hopQueueUnit            = 128, 80
)

// hopRates are the rates that the format has. Any other is written as the next below.
var hopRates = [...]fabric.Rate{
	0, fabric.Gbps, 5 * fabric.Gbps / 2, 5 * fabric.Gbps, 10 * fabric.Gbps, 25 * fabric.Gbps, 40 * fabric.Gbps, 50 * fabric.Gbps,
	100 * fabric.Gbps, 200 * fabric.Gbps, 400 * fabric.Gbps, 800 * fabric.Gbps, 1600 * fabric.Gbps,
}

// Hop is the state of a switch's output port that the switch writes into a packet as it sends it.
type Hop struct {
	Switch fabric.NodeID
	Port   fabric.PortNo
	At     fabric.Time
	Sent   int64 // bytes sent by the port before the packet
	Queue  int64 // bytes of data in the port's queue behind the packet
	Rate   fabric.Rate
}

// stampTelemetry is HPCC's [Needs].Stamp.
func stampTelemetry(hdr []byte, h Hop) {
	t := dataField(hdr, telemetrySize)
	if t == nil {
		return
	}
	word := binary.BigEndian.Uint16(t)
	hops := int(word >> 12)
	if hops >= maxHops {
		return
	}
	i, exact := slices.BinarySearch(hopRates[:], h.Rate)
	if !exact {
		i--
	}
	head := uint64(i)<<60 |
		uint64(h.At/fabric.Nanosecond)&(1<<hopTSBits-1)<<(hopSentBits+hopQueueBits) |
		uint64(h.Sent/hopSentUnit)&(1<<hopSentBits-1)<<hopQueueBits |
		min(uint64(h.Queue/hopQueueUnit), 1<<hopQueueBits-1)
	binary.BigEndian.PutUint64(t[2+hops*hopSize:], head)
	binary.BigEndian.PutUint16(t, uint16(hops+1)<<12|(word^uint16(h.Switch))&0xfff)
}

// dataField returns the [Needs].DataField of a packet, of that size; nil: it has none.
func dataField(hdr []byte, size int) []byte {
	at := etherLen + ipv4Len + udpLen
	if len(hdr) > etherLen && hdr[12] == etherIPv6>>8 {
		at = etherLen + ipv6Len + udpLen
	}
	if len(hdr) < at+frame.BTHSize+size || binary.BigEndian.Uint16(hdr[at-udpLen+2:]) != frame.Port {
		return nil
	}
	if op := frame.BTH(hdr[at : at+frame.BTHSize]).Opcode(); op == frame.Acknowledge || op == frame.CNP {
		return nil
	}
	return hdr[len(hdr)-size:]
}

// intReflection returns in ACKs what switches wrote into data packets.
type intReflection struct{}

// writeAck implements [ackField].
func (intReflection) writeAck(p *packet, field []byte) {
	if at := len(p.rest) - len(field); at >= 0 {
		copy(field, p.rest[at:])
	}
}

// intHop is the telemetry of one hop.
type intHop struct {
	sent, queue int64 // bytes
	at          int64 // ns
	rate        fabric.Rate
}

// path returns how many hops have written telemetry, and an identifier of the path. ok is false for what no switch has
// written.
func (t *telemetry) path() (hops int, id uint16, ok bool) {
	word := binary.BigEndian.Uint16(t[:])
	hops, id = int(word>>12), word&0xfff
	return hops, id, hops >= 1 && hops <= maxHops
}

func (t *telemetry) hop(i int) intHop {
	w := binary.BigEndian.Uint64(t[2+i*hopSize:])
	return intHop{
		rate: hopRates[min(int(w>>60), len(hopRates)-1)], at: int64(w >> (hopSentBits + hopQueueBits) & (1<<hopTSBits - 1)),
		sent: int64(w>>hopQueueBits&(1<<hopSentBits-1)) * hopSentUnit, queue: int64(w&(1<<hopQueueBits-1)) * hopQueueUnit,
	}
}

// since returns the time in ns and the bytes that the hop sent since an earlier word of it. ok is false if that was no
// earlier.
func (h intHop) since(before intHop) (ns, sent int64, ok bool) {
	ns = (h.at - before.at) & (1<<hopTSBits - 1)
	sent = (h.sent - before.sent) & ((1<<hopSentBits - 1) * hopSentUnit)
	return ns, sent, ns > 0 && ns < 1<<(hopTSBits-1) && h.rate == before.rate && h.rate > 0
}

// wraps reports whether the hop's time or bytes can come round in a time: at 400 Gb/s in 2.7 ms, by its bytes.
func (h intHop) wraps(in fabric.Time) bool {
	ns := int64(in / fabric.Nanosecond)
	return ns >= 1<<(hopTSBits-1) || bytesIn(h.rate, ns) >= hopSentUnit<<hopSentBits
}

// bytesIn returns how many bytes a link sends in a time, in ns.
func bytesIn(r fabric.Rate, ns int64) int64 {
	if int64(r)/8 > math.MaxInt64/max(ns, 1) {
		return math.MaxInt64
	}
	return int64(r) / 8 * ns / 1e9
}
