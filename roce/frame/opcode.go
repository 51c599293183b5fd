package frame

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Port is the UDP destination port of RoCEv2.
const Port = fabric.RoCEPort

// Opcode is the operation in a packet's BTH. Its upper three bits name the InfiniBand transport (RC, UC, RD, UD).
type Opcode uint8

// Opcodes of the reliable connection (RC) transport, and the CNP.
const (
	SendFirst          Opcode = 0x00
	SendMiddle         Opcode = 0x01
	SendLast           Opcode = 0x02
	SendLastImmediate  Opcode = 0x03
	SendOnly           Opcode = 0x04
	SendOnlyImmediate  Opcode = 0x05
	WriteFirst         Opcode = 0x06
	WriteMiddle        Opcode = 0x07
	WriteLast          Opcode = 0x08
	WriteLastImmediate Opcode = 0x09
	WriteOnly          Opcode = 0x0a
	WriteOnlyImmediate Opcode = 0x0b
	ReadRequest        Opcode = 0x0c
	ReadResponseFirst  Opcode = 0x0d
	ReadResponseMiddle Opcode = 0x0e
	ReadResponseLast   Opcode = 0x0f
	ReadResponseOnly   Opcode = 0x10
	Acknowledge        Opcode = 0x11 // ACK and NAK; the AETH distinguishes them
	AtomicAcknowledge  Opcode = 0x12
	CompareSwap        Opcode = 0x13
	FetchAdd           Opcode = 0x14
	CNP                Opcode = 0x81 // congestion notification packet
)

// Transports, in an opcode's upper bits.
const (
	transportMask Opcode = 0xe0
	transportRC   Opcode = 0x00
	transportUC   Opcode = 0x20
	transportUD   Opcode = 0x60
)

// String returns the opcode's name, or its number for a transport other than RC.
func (o Opcode) String() string {
	names := [...]string{
		"SEND first", "SEND middle", "SEND last", "SEND last immediate", "SEND only", "SEND only immediate",
		"WRITE first", "WRITE middle", "WRITE last", "WRITE last immediate", "WRITE only", "WRITE only immediate",
		"READ request", "READ response first", "READ response middle", "READ response last", "READ response only",
		"ACK", "atomic ACK", "compare and swap", "fetch and add",
	}
	switch {
	case int(o) < len(names):
		return names[o]
	case o == CNP:
		return "CNP"
	}
	return fmt.Sprintf("opcode %#02x", uint8(o))
}

// Control reports whether the fabric should send the packet ahead of data: ACKs, NAKs and CNPs.
func (o Opcode) Control() bool {
	return o == Acknowledge || o == AtomicAcknowledge || o == CNP
}

// Starts reports whether the packet is the first, or only, one of a SEND or
// WRITE message.
func (o Opcode) Starts() bool {
	switch o {
	case SendFirst, SendOnly, SendOnlyImmediate, WriteFirst, WriteOnly, WriteOnlyImmediate:
		return true
	}
	return false
}

// Ends reports whether the packet is the last, or only, one of a SEND or WRITE
// message.
func (o Opcode) Ends() bool {
	switch o {
	case SendLast, SendLastImmediate, SendOnly, SendOnlyImmediate,
		WriteLast, WriteLastImmediate, WriteOnly, WriteOnlyImmediate:
		return true
	}
	return false
}

// headerExtensions are the sizes of the headers behind the BTH, in wire order; 0 bytes means absent.
type headerExtensions struct {
	other int // headers that this package skips: DETH, AtomicETH
	reth  bool
	aeth  bool
	after int // AtomicAckETH, the reserved bytes of a CNP
	imm   bool
}

// Header sizes in bytes.
const (
	ethernetSize = 14
	vlanSize     = 4
	ipv4Size     = 20
	ipv6Size     = 40
	udpSize      = 8
	BTHSize      = 12
	RETHSize     = 16
	AETHSize     = 4
	ImmSize      = 4
	ICRCSize     = 4
	cnpSize      = 16 // length in bytes of a CNP's reserved payload, all zero
	dethSize     = 8
	atomicSize   = 28
	atomicAck    = 8
)

// extensions returns the headers that follow the BTH for the opcode. An unknown opcode has none: everything behind
// the BTH counts as payload.
func (o Opcode) extensions() (x headerExtensions) {
	if o == CNP {
		x.after = cnpSize
		return x
	}
	switch o & transportMask {
	case transportRC, transportUC:
	case transportUD:
		x.other = dethSize
		x.imm = o&^transportMask == SendOnlyImmediate
		return x
	default:
		return x
	}
	switch o &^ transportMask {
	case WriteFirst, WriteOnly, ReadRequest:
		x.reth = true
	case WriteOnlyImmediate:
		x.reth, x.imm = true, true
	case SendLastImmediate, SendOnlyImmediate, WriteLastImmediate:
		x.imm = true
	case ReadResponseFirst, ReadResponseLast, ReadResponseOnly, Acknowledge:
		x.aeth = true
	case AtomicAcknowledge:
		x.aeth, x.after = true, atomicAck
	case CompareSwap, FetchAdd:
		x.other = atomicSize
	}
	return x
}

// size returns the bytes of all extensions.
func (x headerExtensions) size() int {
	n := x.other + x.after
	if x.reth {
		n += RETHSize
	}
	if x.aeth {
		n += AETHSize
	}
	if x.imm {
		n += ImmSize
	}
	return n
}
