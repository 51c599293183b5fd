package transport

import (
	"encoding/binary"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// Offsets and lengths of the header stack: Ethernet, IPv4 without options or
// IPv6 without extensions, UDP, BTH, then RETH or AETH.
const (
	etherLen = 14
	ipv4Len  = 20
	ipv6Len  = 40
	udpLen   = 8

	// stackLen is the most header bytes a packet has before RETH or AETH.
	stackLen = etherLen + ipv6Len + udpLen + frame.BTHSize

	// MaxHeader is the largest number of header bytes of a packet.
	MaxHeader = stackLen + frame.RETHSize + MaxField
)

const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	protoUDP  = 17
	hopLimit  = 64
)

// What changes from packet to packet in a BTH made by [frame.BTH.Encode]:
// offsets from its start, and bits.
const (
	bthFlags  = 1
	bthPKey   = 2
	bthDestQP = 5
	bthAckReq = 8

	migReq   = 0x40
	padShift = 4
	ackReq   = 0x80
)

// ECN codepoints in the traffic class.
const (
	ecnMask = 3
	ecnECT0 = 2
	ecnCE   = 3
)

// dscpRerouted are the DSCP bits that a switch sets on a packet it sends round a
// dead uplink.
const dscpRerouted = 3

// headerStack is the layout of one endpoint's packets: where the parts begin, and how
// to fill in what changes from packet to packet.
type headerStack struct {
	ipv6      bool
	flowLabel bool
	udp, bth  int // offsets
	len       int // bytes up to the end of BTH
}

func newStack(c *Config) headerStack {
	s := headerStack{ipv6: c.IPv6, flowLabel: c.FlowLabel}
	s.udp = etherLen + ipv4Len
	if s.ipv6 {
		s.udp = etherLen + ipv6Len
	}
	s.bth = s.udp + udpLen
	s.len = s.bth + frame.BTHSize
	return s
}

// encode writes the headers of a packet of no payload, up to BTH and AETH. The
// MACs are the host's and its ToR's.
func (s *headerStack) encode(b []byte, c *Config, dst fabric.NodeID, op frame.Opcode, ecn uint8) error {
	f := c.Fabric
	h := frame.Stack{
		DstMAC: f.MAC(f.ToROf(c.Host)), SrcMAC: f.MAC(c.Host),
		Src: f.HostAddr4(c.Host), Dst: f.HostAddr4(dst),
		TrafficClass: ecn, TTL: hopLimit,
		BTH: frame.BTHFields{Opcode: op, Migration: true, PKey: c.PKey},
	}
	if s.ipv6 {
		h.Src, h.Dst = f.HostAddr6(c.Host), f.HostAddr6(dst)
	}
	_, err := h.Encode(b)
	return err
}

// setDst fills in the destination's address.
func (s *headerStack) setDst(b []byte, f *fabric.Fabric, dst fabric.NodeID) {
	if s.ipv6 {
		a := f.HostAddr6(dst).As16()
		copy(b[etherLen+24:], a[:])
		return
	}
	a := f.HostAddr4(dst).As4()
	copy(b[etherLen+16:], a[:])
}

// setLabel fills in the path label.
func (s *headerStack) setLabel(b []byte, l fabric.Label) {
	binary.BigEndian.PutUint16(b[s.udp:], frame.SourcePort(l))
	if s.flowLabel {
		word := binary.BigEndian.Uint32(b[etherLen:])
		binary.BigEndian.PutUint32(b[etherLen:], word&^0xfffff|frame.FlowLabel(l))
	}
}

// label reads the path label.
func (s *headerStack) label(b []byte) fabric.Label {
	if s.flowLabel {
		return fabric.Label(binary.BigEndian.Uint16(b[etherLen+2:])) & labelMask
	}
	return fabric.Label(binary.BigEndian.Uint16(b[s.udp:])) & labelMask
}

// ipSum returns the sum over an IPv4 header without length and checksum, to be
// completed by setLength.
func (s *headerStack) ipSum(b []byte) uint32 {
	sum := uint32(0)
	if s.ipv6 {
		return sum
	}
	for i := etherLen; i < etherLen+ipv4Len; i += 2 {
		if i != etherLen+2 && i != etherLen+10 {
			sum += uint32(binary.BigEndian.Uint16(b[i:]))
		}
	}
	return sum
}

// setLength fills in the lengths and the IPv4 checksum, given the bytes from BTH
// to the end of the ICRC.
func (s *headerStack) setLength(b []byte, n int, ipSum uint32) {
	n += udpLen
	binary.BigEndian.PutUint16(b[s.udp+4:], uint16(n))
	if s.ipv6 {
		binary.BigEndian.PutUint16(b[etherLen+4:], uint16(n))
		return
	}
	n += ipv4Len
	binary.BigEndian.PutUint16(b[etherLen+2:], uint16(n))
	sum := ipSum + uint32(n)
	sum = sum&0xffff + sum>>16
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(b[etherLen+10:], ^uint16(sum))
}

func putUint24(b []byte, v uint32) {
	b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v)
}

// Packet sequence numbers are 24 bits and wrap around. Inside a QP packets are
// counted from 0 by an int32, which holds more than a message can have.
const psnMask = 1<<24 - 1

// maxPackets bounds a message, so that PSNs in flight, nudges included, stay
// within half the circle.
const maxPackets = 1 << 22

// psnDiff returns how far a is after b, negative when it is before, on the
// assumption that they are within half the circle of each other.
func psnDiff(a, b uint32) int32 { return int32((a-b)<<8) >> 8 }

// Queue pair numbers: see the package comment.
const (
	slotBits = 16
	slotMask = 1<<slotBits - 1
)

func qpNumber(slot uint32, generation uint8) uint32 { return uint32(generation)<<slotBits | slot }
