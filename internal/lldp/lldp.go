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
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// ErrMalformed is wrapped by the errors of [Parse].
var ErrMalformed = errors.New("lldp: malformed")

// EtherType is that of LLDP frames.
const EtherType = 0x88CC

// Multicast is the address of the nearest bridge, which bridges do not forward.
var Multicast = [6]byte{0x01, 0x80, 0xC2, 0x00, 0x00, 0x0E}

// Token distinguishes the frames of one check from all others.
type Token [8]byte

// MarshalText returns a token in hexadecimal.
func (t Token) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(t[:])), nil }

// about begins the system description of our frames; the token follows.
const about = "ethereal cabling check "

// ttl is the time for which a receiver may keep a frame, in seconds: the check is short.
const ttl = 10

// Append appends to b a frame that names the node and port that sent it.
func Append(b []byte, f *fabric.Fabric, from fabric.End, token Token) ([]byte, error) {
	mac := f.MAC(from.Node)
	port := strconv.Itoa(int(from.Port))
	text := func(t layers.LLDPTLVType, s string) layers.LinkLayerDiscoveryValue {
		return layers.LinkLayerDiscoveryValue{Type: t, Length: uint16(len(s)), Value: []byte(s)}
	}
	buf := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true},
		&layers.Ethernet{SrcMAC: mac[:], DstMAC: Multicast[:], EthernetType: EtherType},
		&layers.LinkLayerDiscovery{
			ChassisID: layers.LLDPChassisID{Subtype: layers.LLDPChassisIDSubTypeMACAddr, ID: mac[:]},
			PortID:    layers.LLDPPortID{Subtype: layers.LLDPPortIDSubtypeLocal, ID: []byte(port)},
			TTL:       ttl,
			Values: []layers.LinkLayerDiscoveryValue{
				text(layers.LLDPTLVSysName, f.Name(from.Node)),
				text(layers.LLDPTLVSysDescription, about+hex.EncodeToString(token[:])),
			},
		})
	if err != nil {
		return nil, fmt.Errorf("lldp: %w", err)
	}
	b = append(b, buf.Bytes()...)
	for len(b) < minFrame {
		b = append(b, 0) // after the end TLV
	}
	return b, nil
}

// minFrame is the minimum length of an Ethernet frame, without its check sequence.
const minFrame = 60

// Word is a frame's description of its sender.
type Word struct {
	System string // name; may be empty
	Port   string // in the sender's naming
	MAC    [6]byte
	Token  Token
	Ours   bool // the frame is one of a cabling check, with a token
}

// Parse reads a frame. Its error wraps [ErrMalformed].
func Parse(frame []byte) (w Word, err error) {
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.DecodeOptions{NoCopy: true})
	eth, ok := p.LinkLayer().(*layers.Ethernet)
	if !ok || eth.EthernetType != EtherType {
		return w, fmt.Errorf("%w: not an LLDP frame", ErrMalformed)
	}
	l, ok := p.Layer(layers.LayerTypeLinkLayerDiscovery).(*layers.LinkLayerDiscovery)
	if !ok {
		return w, fmt.Errorf("%w: %w", ErrMalformed, failure(p))
	}
	w.MAC = [6]byte(eth.SrcMAC)
	switch w.Port = printable(l.PortID.ID); {
	case l.PortID.Subtype == layers.LLDPPortIDSubtypeMACAddr && len(l.PortID.ID) == 6:
		w.Port = net.HardwareAddr(l.PortID.ID).String()
	}
	for _, v := range l.Values {
		switch v.Type {
		case layers.LLDPTLVSysName:
			w.System = printable(v.Value)
		case layers.LLDPTLVSysDescription:
			digits, found := strings.CutPrefix(string(v.Value), about)
			if token, err := hex.DecodeString(digits); found && err == nil && len(token) == len(w.Token) {
				w.Token, w.Ours = Token(token), true
			}
		}
	}
	if w.System == "" && l.ChassisID.Subtype == layers.LLDPChassisIDSubTypeMACAddr && len(l.ChassisID.ID) == 6 {
		w.System = net.HardwareAddr(l.ChassisID.ID).String()
	}
	return w, nil
}

var errNoTLVs = errors.New("chassis, port and time to live are not all there")

func failure(p gopacket.Packet) error {
	if e := p.ErrorLayer(); e != nil {
		return e.Error()
	}
	return errNoTLVs
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

// Sender returns the fabric's link end that sent a frame: by its names if the frame is ours, otherwise by the
// host's name or MAC address. ok is false for an unknown sender.
func (w Word) Sender(f *fabric.Fabric) (_ fabric.End, ok bool) {
	id, err := f.NodeByName(w.System)
	if err == nil && w.Ours {
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
