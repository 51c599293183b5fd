package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// Sentinels that errors of [Parse] wrap.
var (
	// ErrNotRoCE is wrapped by errors of parsers for a frame that is not unfragmented RoCEv2: another EtherType,
	// protocol or port.
	ErrNotRoCE = errors.New("rocev2: not RoCEv2")
	// ErrMalformed is wrapped by errors of parsers for a RoCEv2 frame that is too short or has contradictory lengths.
	ErrMalformed = errors.New("rocev2: malformed")
	// ErrFragment is wrapped beside [ErrNotRoCE] for the first fragment of a datagram to RoCEv2's port. Later
	// fragments cannot be recognised.
	ErrFragment = fmt.Errorf("%w: a fragment", ErrNotRoCE)
)

const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	etherVLAN = 0x8100
	etherQinQ = 0x88a8
	protoUDP  = 17

	protoFragment = 44 // IP protocol number of the IPv6 fragment header
	fragmentSize  = 8
)

// Frame locates the headers of a RoCEv2 packet in an Ethernet frame's bytes, which it shares with the caller. [Parse]
// and [ParseHeaders] return one; the zero Frame is not usable.
type Frame struct {
	b       []byte
	ip      int // offsets of headers in b
	udp     int
	bth     int
	payload int
	end     int // of the IP packet, ICRC included; may be beyond b
	v6      bool
	x       headerExtensions
}

// Parse finds the RoCEv2 headers in an Ethernet frame without FCS. It ignores bytes behind the IP packet (Ethernet
// padding). It does not check the ICRC: see [Frame.VerifyICRC]. It never panics, whatever the bytes.
func Parse(frame []byte) (Frame, error) {
	f, err := ParseHeaders(frame)
	if err == nil {
		err = f.fillLengths()
	}
	if err != nil {
		return Frame{}, err
	}
	return f, nil
}

// ParseHeaders is [Parse] for a frame that may be cut off anywhere behind its transport headers: a capture with a
// snap length, or a simulated packet whose payload is only a length. Only methods of Frame that say so need the
// payload bytes.
func ParseHeaders(frame []byte) (Frame, error) {
	f, err := parseTransport(frame)
	if err == nil {
		err = f.parseExtensions()
	}
	if err != nil {
		return Frame{}, err
	}
	return f, nil
}

// ParseTransport is [Parse] for code that only reads or rewrites labels. It does not read beyond the base transport
// header (BTH), so it accepts a packet that is too short for its opcode, or has an unknown opcode. Everything behind
// the BTH counts as payload.
func ParseTransport(frame []byte) (Frame, error) {
	f, err := parseTransport(frame)
	if err == nil {
		err = f.fillLengths()
	}
	if err != nil {
		return Frame{}, err
	}
	return f, nil
}

// fillLengths returns an error if the frame is cut off.
func (f *Frame) fillLengths() error {
	if f.end > len(f.b) {
		return fmt.Errorf("%w: the IP header says the packet ends at byte %d of the frame, which has %d",
			ErrMalformed, f.end, len(f.b))
	}
	return nil
}

func parseTransport(frame []byte) (Frame, error) {
	f := Frame{b: frame}
	if len(frame) < ethernetSize {
		return Frame{}, tooShort("Ethernet header", ethernetSize, len(frame))
	}
	at := ethernetSize
	kind := binary.BigEndian.Uint16(frame[12:])
	for tags := 0; kind == etherVLAN || kind == etherQinQ; tags++ {
		if tags == 2 {
			return Frame{}, fmt.Errorf("%w: more than two VLAN tags", ErrNotRoCE)
		}
		if len(frame) < at+vlanSize {
			return Frame{}, tooShort("VLAN tag", at+vlanSize, len(frame))
		}
		kind = binary.BigEndian.Uint16(frame[at+2:])
		at += vlanSize
	}
	f.ip = at
	var err error
	switch kind {
	case etherIPv4:
		err = f.parseIPv4()
	case etherIPv6:
		err = f.parseIPv6()
	default:
		err = fmt.Errorf("%w: EtherType %#04x", ErrNotRoCE, kind)
	}
	return f, err
}

func tooShort(what string, want, got int) error {
	return fmt.Errorf("%w: %s: needs %d bytes of frame, there are %d", ErrMalformed, what, want, got)
}

func (f *Frame) parseIPv4() error {
	if len(f.b) < f.ip+ipv4Size {
		return tooShort("IPv4 header", f.ip+ipv4Size, len(f.b))
	}
	h := f.b[f.ip:]
	size := int(h[0]&0xf) * 4
	total := int(binary.BigEndian.Uint16(h[2:]))
	switch {
	case h[0]>>4 != 4:
		return fmt.Errorf("%w: IPv4 header: version %d", ErrMalformed, h[0]>>4)
	case size < ipv4Size || total < size:
		return fmt.Errorf("%w: IPv4 header: header length %d, total length %d", ErrMalformed, size, total)
	case h[9] != protoUDP:
		return fmt.Errorf("%w: IP protocol %d", ErrNotRoCE, h[9])
	case binary.BigEndian.Uint16(h[6:])&0x3fff != 0:
		return f.markFragment(binary.BigEndian.Uint16(h[6:])&0x1fff == 0, size)
	}
	f.udp = f.ip + size
	f.end = f.ip + total
	return f.parseUDP()
}

// markFragment returns the error for a fragment of a UDP datagram; the first one has a UDP header at offset at behind
// the IP header's start.
func (f *Frame) markFragment(first bool, at int) error {
	at += f.ip
	if first && len(f.b) >= at+udpSize && binary.BigEndian.Uint16(f.b[at+2:]) == Port {
		return ErrFragment
	}
	return fmt.Errorf("%w: a fragment of some datagram", ErrNotRoCE)
}

func (f *Frame) parseIPv6() error {
	if len(f.b) < f.ip+ipv6Size {
		return tooShort("IPv6 header", f.ip+ipv6Size, len(f.b))
	}
	h := f.b[f.ip:]
	switch {
	case h[0]>>4 != 6:
		return fmt.Errorf("%w: IPv6 header: version %d", ErrMalformed, h[0]>>4)
	case h[6] == protoFragment && len(h) >= ipv6Size+fragmentSize && h[ipv6Size] == protoUDP:
		return f.markFragment(binary.BigEndian.Uint16(h[ipv6Size+2:])&^7 == 0, ipv6Size+fragmentSize)
	case h[6] != protoUDP:
		return fmt.Errorf("%w: IPv6 next header %d", ErrNotRoCE, h[6])
	}
	f.v6 = true
	f.udp = f.ip + ipv6Size
	f.end = f.udp + int(binary.BigEndian.Uint16(h[4:]))
	return f.parseUDP()
}

func (f *Frame) parseUDP() error {
	if len(f.b) < f.udp+udpSize {
		return tooShort("UDP header", f.udp+udpSize, len(f.b))
	}
	h := f.b[f.udp:]
	if port := binary.BigEndian.Uint16(h[2:]); port != Port {
		return fmt.Errorf("%w: UDP destination port %d", ErrNotRoCE, port)
	}
	if n := int(binary.BigEndian.Uint16(h[4:])); n != f.end-f.udp {
		return fmt.Errorf("%w: UDP header: length %d, the IP header leaves %d", ErrMalformed, n, f.end-f.udp)
	}
	f.bth = f.udp + udpSize
	if need := f.bth + BTHSize; len(f.b) < need || f.end < need+ICRCSize {
		return tooShort("BTH and ICRC", need+ICRCSize, min(len(f.b), f.end))
	}
	f.payload = f.bth + BTHSize
	return nil
}

func (f *Frame) parseExtensions() error {
	f.x = f.BTH().Opcode().extensions()
	f.payload = f.bth + BTHSize + f.x.size()
	if len(f.b) < f.payload || f.end < f.payload+f.BTH().Pad()+ICRCSize {
		return tooShort(fmt.Sprintf("%v: extended headers, pad and ICRC", f.BTH().Opcode()),
			f.payload+f.BTH().Pad()+ICRCSize, min(len(f.b), f.end))
	}
	return nil
}

// IPv6 reports whether the frame's network header is IPv6.
func (f *Frame) IPv6() bool { return f.v6 }

// Source returns the IP source address.
func (f *Frame) Source() netip.Addr {
	if f.v6 {
		return netip.AddrFrom16([16]byte(f.b[f.ip+8:]))
	}
	return netip.AddrFrom4([4]byte(f.b[f.ip+12:]))
}

// Destination returns the IP destination address.
func (f *Frame) Destination() netip.Addr {
	if f.v6 {
		return netip.AddrFrom16([16]byte(f.b[f.ip+24:]))
	}
	return netip.AddrFrom4([4]byte(f.b[f.ip+16:]))
}

// TrafficClass returns the IPv4 ToS or IPv6 traffic class byte: DSCP in the
// upper six bits, ECN in the lower two.
func (f *Frame) TrafficClass() uint8 {
	if f.v6 {
		return f.b[f.ip]<<4 | f.b[f.ip+1]>>4
	}
	return f.b[f.ip+1]
}

// CE reports whether the packet has the ECN mark "congestion experienced".
func (f *Frame) CE() bool { return f.TrafficClass()&3 == 3 }

// FlowLabel returns the IPv6 flow label, 20 bits; 0 for IPv4.
func (f *Frame) FlowLabel() uint32 {
	if !f.v6 {
		return 0
	}
	return binary.BigEndian.Uint32(f.b[f.ip:]) & 0xfffff
}

// SourcePort returns the UDP source port.
func (f *Frame) SourcePort() uint16 { return binary.BigEndian.Uint16(f.b[f.udp:]) }

// BTH returns the base transport header.
func (f *Frame) BTH() BTH { return BTH(f.b[f.bth : f.bth+BTHSize]) }

// RETH returns the RDMA extended transport header, or nil if the opcode has none.
func (f *Frame) RETH() RETH {
	if !f.x.reth {
		return nil
	}
	at := f.bth + BTHSize + f.x.other
	return RETH(f.b[at : at+RETHSize])
}

// AETH returns the acknowledge extended transport header, or nil if the opcode has none.
func (f *Frame) AETH() AETH {
	if !f.x.aeth {
		return nil
	}
	at := f.bth + BTHSize + f.x.other
	return AETH(f.b[at : at+AETHSize])
}

// Immediate returns the immediate data, if the opcode has any.
func (f *Frame) Immediate() (v uint32, ok bool) {
	if !f.x.imm {
		return 0, false
	}
	return binary.BigEndian.Uint32(f.b[f.payload-ImmSize:]), true
}

// HeaderLen returns the number of bytes before the payload.
func (f *Frame) HeaderLen() int { return f.payload }

// PayloadLen returns the payload's length in bytes, without the pad to a multiple of 4.
func (f *Frame) PayloadLen() int { return max(0, f.end-ICRCSize-f.BTH().Pad()-f.payload) }

// Len returns the frame's length in bytes according to its headers: with the ICRC, without the FCS and without
// Ethernet's padding.
func (f *Frame) Len() int { return f.end }

// Payload returns the payload without its pad, or nil if the payload is cut off.
func (f *Frame) Payload() []byte {
	end := f.payload + f.PayloadLen()
	if end > len(f.b) {
		return nil
	}
	return f.b[f.payload:end]
}

// isWhole reports whether all bytes up to the ICRC's end are there.
func (f *Frame) isWhole() bool { return f.end <= len(f.b) }
