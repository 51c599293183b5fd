// Package lldp writes and reads the frames by which the two ends of a cable identify themselves to each other: IEEE
// 802.1AB, with only the fields that the cabling check needs.
//
// Our frames name the sender's node and port in the fabric, and carry a token. So an answer to one check is not
// taken for an answer to another, nor for a frame of a switch's own LLDP agent. Of other frames, only the sender's
// identity is read.
//
// [Parse] takes bytes from outside and never panics.
package lldp

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// ErrMalformed is wrapped by the errors of [Parse].
var ErrMalformed = errors.New("lldp: malformed")

// EtherType is the EtherType of LLDP frames.
const EtherType = 0x88CC

// Multicast is LLDP's destination address "nearest bridge", which bridges do not forward.
var Multicast = [6]byte{0x01, 0x80, 0xC2, 0x00, 0x00, 0x0E}

// Token is a random number that the frames of one cabling check carry, so that frames of other checks are ignored.
type Token [8]byte

// MarshalText returns a token in hexadecimal.
func (t Token) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(t[:])), nil }

// descriptionPrefix begins the system description of our frames; the token follows.
const descriptionPrefix = "ethereal cabling check "

// ttl is the time for which a receiver may keep a frame, in seconds: the check is short.
const ttl = 10

// The fields (TLVs) that are written and read: a type of 7 bits, a length of 9, the value.
const (
	tlvEnd         = 0
	tlvChassis     = 1 // LLDP TLV type: chassis ID (a subtype, then the ID)
	tlvPort        = 2 // LLDP TLV type: port ID (a subtype, then the ID)
	tlvTTL         = 3
	tlvName        = 5
	tlvDescription = 6
	tlvMost        = 1<<9 - 1 // maximum length in bytes of a TLV's value

	chassisMAC = 4 // LLDP chassis ID subtype: MAC address
	portMAC    = 3
	portLocal  = 7
)

// Append appends to b an LLDP frame that names the node and port that send it, and the check's token.
func Append(b []byte, f *fabric.Fabric, from fabric.End, token Token) ([]byte, error) {
	mac, name := f.MAC(from.Node), f.Name(from.Node)
	if len(name) > tlvMost {
		return nil, fmt.Errorf("lldp: %s: a name has %d bytes at most", name, tlvMost)
	}
	b = append(append(b, Multicast[:]...), mac[:]...)
	b = binary.BigEndian.AppendUint16(b, EtherType)
	tlv := func(kind int, value ...byte) {
		b = append(binary.BigEndian.AppendUint16(b, uint16(kind<<9|len(value))), value...)
	}
	tlv(tlvChassis, append([]byte{chassisMAC}, mac[:]...)...)
	tlv(tlvPort, strconv.AppendInt([]byte{portLocal}, int64(from.Port), 10)...)
	tlv(tlvTTL, 0, ttl)
	tlv(tlvName, []byte(name)...)
	tlv(tlvDescription, hex.AppendEncode([]byte(descriptionPrefix), token[:])...)
	tlv(tlvEnd)
	for len(b) < minFrame {
		b = append(b, 0) // after the end TLV
	}
	return b, nil
}

// minFrame is the minimum length of an Ethernet frame, without its check sequence.
const minFrame = 60

// Announcement is what an LLDP frame says about its sender.
type Announcement struct {
	System    string // the sender's name; may be empty
	Port      string // the sending port's name, as its owner writes it
	MAC       [6]byte
	Token     Token
	FromCheck bool // the frame was sent by a cabling check of this program, and has a token
}

// Parse reads an LLDP frame. Its error wraps [ErrMalformed].
func Parse(frame []byte) (w Announcement, err error) {
	const header = 14
	if len(frame) < header || binary.BigEndian.Uint16(frame[12:]) != EtherType {
		return w, fmt.Errorf("%w: not an LLDP frame", ErrMalformed)
	}
	w.MAC = [6]byte(frame[6:])
	var seen [tlvTTL + 1]bool
	chassis := ""
	for b := frame[header:]; !seen[tlvEnd]; {
		if len(b) < 2 {
			return w, fmt.Errorf("%w: no end", ErrMalformed)
		}
		kind, n := b[0]>>1, int(binary.BigEndian.Uint16(b)&tlvMost)
		if b = b[2:]; len(b) < n {
			return w, fmt.Errorf("%w: field %d has %d bytes of %d", ErrMalformed, kind, len(b), n)
		}
		value := b[:n]
		b = b[n:]
		if kind <= tlvTTL {
			if seen[kind] = true; kind != tlvEnd && n < 2 {
				return w, fmt.Errorf("%w: field %d has %d bytes", ErrMalformed, kind, n)
			}
		}
		switch kind {
		case tlvChassis:
			if value[0] == chassisMAC && n == 7 {
				chassis = net.HardwareAddr(value[1:]).String()
			}
		case tlvPort:
			if w.Port = printable(value[1:]); value[0] == portMAC && n == 7 {
				w.Port = net.HardwareAddr(value[1:]).String()
			}
		case tlvName:
			w.System = printable(value)
		case tlvDescription:
			digits, found := strings.CutPrefix(string(value), descriptionPrefix)
			if token, err := hex.DecodeString(digits); found && err == nil && len(token) == len(w.Token) {
				w.Token, w.FromCheck = Token(token), true
			}
		}
	}
	if seen != [...]bool{true, true, true, true} {
		return w, fmt.Errorf("%w: chassis, port and time to live are not all there", ErrMalformed)
	}
	if w.System == "" {
		w.System = chassis
	}
	return w, nil
}

// printable returns outside text for a terminal: at most 64 characters, without control characters.
func printable(b []byte) string {
	s := strings.ToValidUTF8(string(b[:min(len(b), 64)]), "?")
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// Sender returns the end of the fabric's link that sent a frame: by its names if a cabling check sent it, otherwise by
// the host's name or MAC address. ok is false for an unknown sender.
func (w Announcement) Sender(f *fabric.Fabric) (_ fabric.End, ok bool) {
	id, err := f.NodeByName(w.System)
	if err == nil && w.FromCheck {
		n, err := strconv.ParseUint(w.Port, 10, 16)
		return fabric.End{Node: id, Port: fabric.PortNo(n)}, err == nil && n > 0
	}
	if err == nil && f.Node(id).Tier == fabric.Host {
		return fabric.End{Node: id, Port: 1}, true
	}
	for h := range f.Hosts() {
		if f.MAC(fabric.NodeID(h)) == w.MAC {
			return fabric.End{Node: fabric.NodeID(h), Port: 1}, true
		}
	}
	return fabric.End{}, false
}
