// Package usid carries path labels as SRv6 micro segments (uSID, RFC 9800). It puts a host's RoCEv2 frames into an
// outer IPv6 header whose destination lists the switches of the label's path, and removes that header from incoming
// frames. Switches need no labels, only a static route for each neighbour: see [fabric.SID].
//
// The inner UDP source port still carries the label. A switch removes the outer header when it reroutes a frame
// around a dead uplink; the frame then still has its label. The outer flow label repeats it, since switches shift
// the list away.
package usid

import (
	"encoding/binary"
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// HeaderSize is the length of the outer header, in bytes.
const HeaderSize = 40

const (
	etherSize = 14
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	nextIPv4  = 4
	nextIPv6  = 41
	hopLimit  = 64

	ecnMask = 3
	ecnCE   = 3
)

// Encapsulator adds outer IPv6 headers with SRv6 micro segments (uSIDs) to one host's packets. It is not safe for
// concurrent use.
type Encapsulator struct {
	f    *fabric.Fabric
	host fabric.NodeID
	last cachedDestination // most frames have the previous frame's destination
}

// cachedDestination is an outer destination, with the values from which it was computed.
type cachedDestination struct {
	dst   fabric.NodeID
	label fabric.Label
	ok    bool // the label names a path
	sid   [16]byte
}

// New returns a host's encapsulator, or an error if the fabric has more nodes than micro segments can number.
func New(f *fabric.Fabric, host fabric.NodeID) (*Encapsulator, error) {
	if !f.HasUSIDs() {
		return nil, fmt.Errorf("usid: %d nodes, and micro segments for %d; use another carrier", f.Nodes(), fabric.MaxUSID)
	}
	return &Encapsulator{f: f, host: host, last: cachedDestination{dst: -1}}, nil
}

// Wrap adds the outer header to a RoCEv2 frame without VLAN tag. b holds the frame's first n bytes, at least to the end
// of the BTH, and has room for [HeaderSize] more; length is that of the whole frame, without FCS. It returns the new
// number of bytes in b.
//
// A frame whose label names no path, as between hosts of one ToR, is addressed to the receiver directly. Frames that
// are not RoCEv2 between two hosts of the fabric are not changed.
func (e *Encapsulator) Wrap(b []byte, n, length int) int {
	x, err := frame.ParseHeaders(b[:n])
	if kind := b[12:14]; err != nil || kind[0] != etherIPv4>>8 && kind[0] != etherIPv6>>8 { // tagged
		return n
	}
	dst, ok := e.f.HostByAddr(x.Destination())
	if !ok {
		return n
	}
	label, _ := frame.LabelOfSourcePort(x.SourcePort())
	to := e.destinationOf(dst, label)
	class, next := x.TrafficClass(), byte(nextIPv4)
	if x.IPv6() {
		next = nextIPv6
	}
	b = b[:n+HeaderSize]
	copy(b[etherSize+HeaderSize:], b[etherSize:n])
	binary.BigEndian.PutUint16(b[12:], etherIPv6)
	h := b[etherSize:]
	word := 6<<28 | uint32(class)<<20
	if to.ok {
		word |= frame.FlowLabel(label)
	}
	binary.BigEndian.PutUint32(h, word)
	binary.BigEndian.PutUint16(h[4:], uint16(length-etherSize))
	h[6], h[7] = next, hopLimit
	src := e.f.HostAddr6(e.host).As16()
	copy(h[8:], src[:])
	copy(h[24:], to.sid[:])
	return len(b)
}

// destinationOf returns the outer destination for a label.
func (e *Encapsulator) destinationOf(dst fabric.NodeID, label fabric.Label) *cachedDestination {
	if e.last.dst == dst && e.last.label == label {
		return &e.last
	}
	e.last = cachedDestination{dst: dst, label: label}
	var buf [fabric.MaxUSIDs]fabric.NodeID
	ids, ok := e.f.Segments(buf[:0], e.host, dst, label)
	e.last.ok = ok
	if ok {
		e.last.sid = fabric.SID(ids...).As16()
	} else {
		e.last.sid = e.f.HostAddr6(dst).As16()
	}
	return &e.last
}

// Unwrap removes the outer header of a RoCEv2 frame, which it overwrites. Other frames are returned unchanged, also
// those with an outer header around something else: switches' messages to hosts have no outer header, and a host
// may not send them in one. A congestion mark is kept, as RFC 6040 requires for packets that can be marked, which
// all of these are.
func Unwrap(frame []byte) []byte {
	if len(frame) <= etherSize+HeaderSize || binary.BigEndian.Uint16(frame[12:]) != etherIPv6 {
		return frame
	}
	h, inner := frame[etherSize:], frame[etherSize+HeaderSize:]
	kind := uint16(etherIPv4)
	switch {
	case h[6] == nextIPv4 && carriesRoCE(inner, 0x45, 9, 20):
	case h[6] == nextIPv6 && carriesRoCE(inner, 0x60, 6, 40):
		kind = etherIPv6
	default:
		return frame
	}
	if h[1]>>4&ecnMask == ecnCE {
		markCE(inner)
	}
	out := frame[HeaderSize:]
	copy(out, frame[:12])
	binary.BigEndian.PutUint16(out[12:], kind)
	return out
}

// carriesRoCE reports whether an IP header of a version and length has RoCEv2 behind it; next is the offset of its
// protocol.
func carriesRoCE(ip []byte, first byte, next, length int) bool {
	const udp = 17
	if len(ip) < length+8 || ip[next] != udp || binary.BigEndian.Uint16(ip[length+2:]) != frame.Port {
		return false
	}
	return ip[0] == first || first == 0x60 && ip[0]>>4 == 6
}

// markCE sets the congestion mark in an IP header.
func markCE(ip []byte) {
	if ip[0]>>4 == 6 {
		if len(ip) > 1 {
			ip[1] |= ecnCE << 4
		}
		return
	}
	if len(ip) < 20 {
		return
	}
	old := binary.BigEndian.Uint16(ip)
	ip[1] |= ecnCE
	// RFC 1624: HC' = ~(~HC + ~m + m').
	sum := uint32(^binary.BigEndian.Uint16(ip[10:])) + uint32(^old) + uint32(binary.BigEndian.Uint16(ip))
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
}
