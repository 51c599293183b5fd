package frame

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Stack is the values of all headers of a RoCEv2 frame, from Ethernet on. Fields of headers that the opcode does not
// have are ignored.
type Stack struct {
	DstMAC, SrcMAC [6]byte
	VLAN           uint16 // tag control information: priority and VLAN ID; used if Tagged
	Tagged         bool

	Src, Dst     netip.Addr // addresses, both IPv4 or both IPv6
	TrafficClass uint8      // DSCP<<2 | ECN
	TTL          uint8      // time to live, or IPv6's hop limit
	ID           uint16     // IPv4's identification, which the ICRC covers
	FlowLabel    uint32     // IPv6 only, 20 bits

	SourcePort uint16
	BTH        BTHFields // Pad is derived from PayloadLen
	RETH       RETHFields
	AETH       AETHFields
	Immediate  uint32

	PayloadLen int // length of the payload behind UDP, in bytes
}

// MaxHeaders is the maximum length of the headers of [Stack.Encode], in bytes.
const MaxHeaders = ethernetSize + vlanSize + ipv6Size + udpSize + BTHSize + atomicSize + RETHSize + ImmSize

// maxPacket is the maximum length of an IPv4 packet, in bytes.
const maxPacket = 65535

// HeaderLen returns the number of bytes that [Stack.Encode] writes.
func (s *Stack) HeaderLen() int {
	n := ethernetSize + ipv4Size + udpSize + BTHSize + s.BTH.Opcode.extensions().size()
	if s.Src.Is6() {
		n += ipv6Size - ipv4Size
	}
	if s.Tagged {
		n += vlanSize
	}
	return n
}

// FrameLen returns the whole frame's length in bytes: headers, payload, pad and
// ICRC, without the FCS.
func (s *Stack) FrameLen() int {
	return s.HeaderLen() + s.PayloadLen + padCount(s.PayloadLen) + ICRCSize
}

func padCount(payload int) int { return -payload & 3 }

// Encode writes the headers into b and returns their length in bytes. The payload follows, then the pad, then the
// ICRC ([Frame.SetICRC]). The UDP checksum is 0, as RNICs send it over either IP version; the IPv4 header checksum
// is set.
func (s *Stack) Encode(b []byte) (int, error) {
	n := s.HeaderLen()
	switch {
	case len(b) < n:
		return 0, fmt.Errorf("rocev2: encode: the headers are %d bytes, the buffer has %d", n, len(b))
	case !s.Src.IsValid() || s.Src.BitLen() != s.Dst.BitLen():
		return 0, fmt.Errorf("rocev2: encode: addresses %v and %v are not of one IP version", s.Src, s.Dst)
	case s.PayloadLen < 0 || s.PayloadLen > maxPacket || s.FrameLen()-ethernetSize > maxPacket:
		return 0, fmt.Errorf("rocev2: encode: a payload of %d bytes; an IP packet has room for %d at most", s.PayloadLen,
			maxPacket-(n-ethernetSize)-ICRCSize)
	}
	b = b[:n]
	copy(b, s.DstMAC[:])
	copy(b[6:], s.SrcMAC[:])
	at := 12
	if s.Tagged {
		binary.BigEndian.PutUint16(b[at:], etherVLAN)
		binary.BigEndian.PutUint16(b[at+2:], s.VLAN)
		at += vlanSize
	}
	v6 := s.Src.Is6()
	kind, ip := uint16(etherIPv4), at+2
	udp := ip + ipv4Size
	if v6 {
		kind, udp = etherIPv6, ip+ipv6Size
	}
	binary.BigEndian.PutUint16(b[at:], kind)

	udpLen := n - udp + s.PayloadLen + padCount(s.PayloadLen) + ICRCSize
	if v6 {
		s.encodeIPv6(b[ip:udp], udpLen)
	} else {
		s.encodeIPv4(b[ip:udp], udpLen)
	}
	h := b[udp:]
	binary.BigEndian.PutUint16(h, s.SourcePort)
	binary.BigEndian.PutUint16(h[2:], Port)
	binary.BigEndian.PutUint16(h[4:], uint16(udpLen))
	binary.BigEndian.PutUint16(h[6:], 0)

	h = h[udpSize:]
	fields := s.BTH
	fields.Pad = uint8(padCount(s.PayloadLen))
	BTH(h).Encode(&fields)
	h = h[BTHSize:]
	x := s.BTH.Opcode.extensions()
	clear(h[:x.other])
	h = h[x.other:]
	if x.reth {
		RETH(h).Encode(&s.RETH)
		h = h[RETHSize:]
	}
	if x.aeth {
		AETH(h).Encode(&s.AETH)
		h = h[AETHSize:]
	}
	clear(h[:x.after])
	h = h[x.after:]
	if x.imm {
		binary.BigEndian.PutUint32(h, s.Immediate)
	}
	return n, nil
}

func (s *Stack) encodeIPv4(h []byte, payload int) {
	h[0] = 4<<4 | ipv4Size/4
	h[1] = s.TrafficClass
	binary.BigEndian.PutUint16(h[2:], uint16(ipv4Size+payload))
	binary.BigEndian.PutUint16(h[4:], s.ID)
	binary.BigEndian.PutUint16(h[6:], 0x4000) // don't fragment
	h[8] = s.TTL
	h[9] = protoUDP
	h[10], h[11] = 0, 0
	src, dst := s.Src.As4(), s.Dst.As4()
	copy(h[12:], src[:])
	copy(h[16:], dst[:])
	var sum uint32
	for i := 0; i < ipv4Size; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	binary.BigEndian.PutUint16(h[10:], ^foldChecksum(sum))
}

func (s *Stack) encodeIPv6(h []byte, payload int) {
	binary.BigEndian.PutUint32(h, 6<<28|uint32(s.TrafficClass)<<20|s.FlowLabel&0xfffff)
	binary.BigEndian.PutUint16(h[4:], uint16(payload))
	h[6] = protoUDP
	h[7] = s.TTL
	src, dst := s.Src.As16(), s.Dst.As16()
	copy(h[8:], src[:])
	copy(h[24:], dst[:])
}

// foldChecksum reduces a sum of 16-bit words to one's complement 16 bits.
func foldChecksum(sum uint32) uint16 {
	sum = sum&0xffff + sum>>16
	return uint16(sum + sum>>16)
}
