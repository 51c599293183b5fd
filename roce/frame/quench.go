package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// QuenchPort is the UDP port, source and destination, of source quenches and notices.
const QuenchPort = 47910

// QuenchSize is the size of a quench's UDP payload in bytes.
const QuenchSize = 24

const quenchVersion = 1

// Bits of a quench's flags byte.
const (
	quenchRerouted = 1 << 0
	quenchLabelled = 1 << 1
	quenchNotice   = 1 << 2
)

// ErrQuench is wrapped by every error of [ParseQuench].
var ErrQuench = errors.New("frame: bad quench")

// Quench is a switch's report that a port is dead. A source quench answers a packet of this host that was to leave by
// that port. A notice goes to every host with a path through the port when the port dies, since a host whose last
// packets were lost sends nothing that could be answered. Of a notice only Switch, Port and Epoch are valid.
type Quench struct {
	Notice bool       `json:",omitempty"`
	Dst    netip.Addr // destination of the host's packet; the quench has it as IP source address
	// the switch sent the packet by another uplink; otherwise the packet is lost
	Rerouted bool         `json:",omitempty"`
	Labelled bool         `json:",omitempty"` // Label is valid
	Label    fabric.Label // the packet's path label
	Switch   fabric.NodeID
	Port     fabric.PortNo // the dead port
	Epoch    uint32        // number of the port's down event, so that reports can be ordered; not 0
	DstQP    uint32        // the packet's destination queue pair, 24 bits
	PSN      uint32        // the packet's sequence number, 24 bits
}

// ParseQuench reads the UDP payload of a quench or notice. src is the datagram's IP source address, which a notice does
// not have. Accept notices only if they were sent to [NoticeAddr]: switches do not check other datagrams, which hosts
// can forge. ParseQuench checks the format, not whether the content is plausible.
func ParseQuench(payload []byte, src netip.Addr) (Quench, error) {
	if len(payload) != QuenchSize {
		return Quench{}, fmt.Errorf("%w: %d bytes of payload, a quench has %d", ErrQuench, len(payload), QuenchSize)
	}
	if v := payload[0]; v != quenchVersion {
		return Quench{}, fmt.Errorf("%w: version %d; want %d", ErrQuench, v, quenchVersion)
	}
	flags := payload[1]
	q := Quench{
		Notice:   flags&quenchNotice != 0,
		Dst:      src.Unmap(),
		Rerouted: flags&quenchRerouted != 0,
		Labelled: flags&quenchLabelled != 0,
		Label:    fabric.Label(binary.BigEndian.Uint16(payload[2:])),
		Switch:   fabric.NodeID(binary.BigEndian.Uint32(payload[4:])),
		Port:     fabric.PortNo(binary.BigEndian.Uint16(payload[8:])),
		Epoch:    binary.BigEndian.Uint32(payload[12:]),
		DstQP:    binary.BigEndian.Uint32(payload[16:]) & (1<<24 - 1),
		PSN:      binary.BigEndian.Uint32(payload[20:]) & (1<<24 - 1),
	}
	switch {
	case q.Epoch == 0:
		return Quench{}, fmt.Errorf("%w: epoch 0, which means a live port", ErrQuench)
	case q.Notice && !q.Dst.IsUnspecified():
		return Quench{}, fmt.Errorf("%w: a notice from %v; switches send them from %v", ErrQuench, q.Dst, netip.IPv4Unspecified())
	case q.Switch < 0:
		return Quench{}, fmt.Errorf("%w: switch %#08x is no node number", ErrQuench, uint32(q.Switch))
	}
	return q, nil
}

// NoticeAddr is the destination address of notices: 224.0.0.1, all systems of a link. It is IPv4 even if the hosts use
// IPv6. Hosts need not join it, and routers do not forward it.
var NoticeAddr = netip.AddrFrom4([4]byte{224, 0, 0, 1})

// NoticePayload finds the UDP payload of a notice in an Ethernet frame.
func NoticePayload(b []byte) ([]byte, bool) {
	const ether, udp = 14, 14 + 20
	if len(b) < udp+8+QuenchSize || b[12] != 0x08 || b[13] != 0 {
		return nil, false
	}
	ip := b[ether:]
	ok := ip[0] == 0x45 && binary.BigEndian.Uint16(ip[6:])&0x3fff == 0 && ip[9] == 17 && [4]byte(ip[16:]) == NoticeAddr.As4() &&
		binary.BigEndian.Uint16(b[udp+2:]) == QuenchPort && binary.BigEndian.Uint16(b[udp+4:]) == 8+QuenchSize
	return b[udp+8 : udp+8+QuenchSize], ok
}

// Append appends the quench's UDP payload to b, in the format of [ParseQuench].
func (q *Quench) Append(b []byte) []byte {
	var flags byte
	if q.Notice {
		flags |= quenchNotice
	}
	if q.Rerouted {
		flags |= quenchRerouted
	}
	if q.Labelled {
		flags |= quenchLabelled
	}
	b = append(b, quenchVersion, flags)
	b = binary.BigEndian.AppendUint16(b, uint16(q.Label))
	b = binary.BigEndian.AppendUint32(b, uint32(q.Switch))
	b = binary.BigEndian.AppendUint16(b, uint16(q.Port))
	b = append(b, 0, 0)
	b = binary.BigEndian.AppendUint32(b, q.Epoch)
	b = binary.BigEndian.AppendUint32(b, q.DstQP)
	return binary.BigEndian.AppendUint32(b, q.PSN)
}
