package frame

import "encoding/binary"

// BTH is a view of a packet's base transport header (InfiniBand), 12 bytes, in the packet's memory.
type BTH []byte

// Offsets in a BTH.
const (
	bthOpcode  = 0
	bthFlags   = 1 // solicited:1 migration:1 pad:2 version:4
	bthPKey    = 2
	bthECN     = 4 // FECN:1 BECN:1 reserved:6; outside the ICRC
	bthDestQP  = 5
	bthAckReq  = 8 // offset of the byte with AckReq (1 bit) and 7 reserved bits
	bthPSN     = 9
	fecnBit    = 0x80
	becnBit    = 0x40
	ackReqBit  = 0x80
	solicitBit = 0x80
	migrateBit = 0x40
)

// Mask24 selects the 24 bits of a QP number, PSN or MSN.
const Mask24 = 1<<24 - 1

// DefaultPKey is the partition key of InfiniBand's default partition, as a full member.
const DefaultPKey = 0xffff

// Opcode returns the opcode.
func (h BTH) Opcode() Opcode { return Opcode(h[bthOpcode]) }

// Solicited returns the solicited event bit: the receiver's program asked to be woken for such packets.
func (h BTH) Solicited() bool { return h[bthFlags]&solicitBit != 0 }

// Pad returns the number of bytes, 0 to 3, that pad the payload to a multiple of 4.
func (h BTH) Pad() int { return int(h[bthFlags] >> 4 & 3) }

// Version returns the transport header version; it is 0.
func (h BTH) Version() uint8 { return h[bthFlags] & 0xf }

// PKey returns the partition key.
func (h BTH) PKey() uint16 { return binary.BigEndian.Uint16(h[bthPKey:]) }

// FECN returns the bit of forward explicit congestion notification.
func (h BTH) FECN() bool { return h[bthECN]&fecnBit != 0 }

// BECN returns the bit of backward explicit congestion notification: the receiver saw congestion marks.
func (h BTH) BECN() bool { return h[bthECN]&becnBit != 0 }

// SetBECN writes the bit of backward explicit congestion notification. The ICRC does not cover it.
func (h BTH) SetBECN(on bool) {
	h[bthECN] &^= becnBit
	if on {
		h[bthECN] |= becnBit
	}
}

// DestQP returns the destination QP number, 24 bits.
func (h BTH) DestQP() uint32 { return uint24(h[bthDestQP:]) }

// AckRequest returns the acknowledge request bit.
func (h BTH) AckRequest() bool { return h[bthAckReq]&ackReqBit != 0 }

// PSN returns the packet sequence number, 24 bits.
func (h BTH) PSN() uint32 { return uint24(h[bthPSN:]) }

// SetPSN writes the packet sequence number; bits above 24 are ignored.
func (h BTH) SetPSN(psn uint32) { putUint24(h[bthPSN:], psn) }

// BTHFields are the fields of a BTH, for Encode.
type BTHFields struct {
	Opcode     Opcode
	Solicited  bool
	Migration  bool  // MigReq: RNICs set it on connections that never migrate
	Pad        uint8 // 0 to 3; [Stack.Encode] derives it from the payload
	PKey       uint16
	FECN, BECN bool
	DestQP     uint32 // destination queue pair number, 24 bits
	AckRequest bool
	PSN        uint32 // packet sequence number, 24 bits
}

// Encode writes f into h, which must hold [BTHSize] bytes.
func (h BTH) Encode(f *BTHFields) {
	_ = h[BTHSize-1]
	h[bthOpcode] = byte(f.Opcode)
	h[bthFlags] = f.Pad&3<<4 | bitIf(f.Solicited, solicitBit) | bitIf(f.Migration, migrateBit)
	binary.BigEndian.PutUint16(h[bthPKey:], f.PKey)
	h[bthECN] = bitIf(f.FECN, fecnBit) | bitIf(f.BECN, becnBit)
	putUint24(h[bthDestQP:], f.DestQP)
	h[bthAckReq] = bitIf(f.AckRequest, ackReqBit)
	putUint24(h[bthPSN:], f.PSN)
}

// RETH is a view of a packet's RDMA extended transport header, 16 bytes, in the packet's memory.
type RETH []byte

// VirtualAddress returns the address in the receiver's memory at which the message begins.
func (h RETH) VirtualAddress() uint64 { return binary.BigEndian.Uint64(h) }

// RKey returns the key of the receiver's memory region.
func (h RETH) RKey() uint32 { return binary.BigEndian.Uint32(h[8:]) }

// Length returns the length of the whole message in bytes.
func (h RETH) Length() uint32 { return binary.BigEndian.Uint32(h[12:]) }

// RETHFields are the fields of a RETH, for Encode.
type RETHFields struct {
	VirtualAddress uint64
	RKey           uint32
	Length         uint32 // DMA length: bytes of the message
}

// Encode writes f into h, which must hold [RETHSize] bytes.
func (h RETH) Encode(f *RETHFields) {
	_ = h[RETHSize-1]
	binary.BigEndian.PutUint64(h, f.VirtualAddress)
	binary.BigEndian.PutUint32(h[8:], f.RKey)
	binary.BigEndian.PutUint32(h[12:], f.Length)
}

// AETH is a view of a packet's acknowledge extended transport header, 4 bytes, in the packet's memory.
type AETH []byte

// Syndrome is the first byte of an AETH: an ACK with credits, an RNR (receiver not ready) NAK with its timer, or a NAK
// with its code.
type Syndrome uint8

// Syndromes.
const (
	ACK                Syndrome = 0x1f // positive acknowledgement that does not limit the sender's end-to-end credits
	NAKSequenceError   Syndrome = 0x60 // the BTH's PSN is the one that the receiver expects next
	NAKInvalidRequest  Syndrome = 0x61
	NAKRemoteAccess    Syndrome = 0x62
	NAKRemoteOperation Syndrome = 0x63
	NAKInvalidRDReq    Syndrome = 0x64
)

// IsACK reports whether s is a positive acknowledgement.
func (s Syndrome) IsACK() bool { return s>>5 == 0 }

// IsRNR reports whether s is a receiver-not-ready NAK.
func (s Syndrome) IsRNR() bool { return s>>5 == 1 }

// IsNAK reports whether s is a NAK, receiver-not-ready excepted.
func (s Syndrome) IsNAK() bool { return s>>5 == 3 }

// Syndrome returns the syndrome.
func (h AETH) Syndrome() Syndrome { return Syndrome(h[0]) }

// MSN returns the message sequence number, 24 bits: the number of messages that the responder has completed.
func (h AETH) MSN() uint32 { return uint24(h[1:]) }

// AETHFields are the fields of an AETH, for Encode.
type AETHFields struct {
	Syndrome Syndrome
	MSN      uint32 // message sequence number, 24 bits
}

// Encode writes f into h, which must hold [AETHSize] bytes.
func (h AETH) Encode(f *AETHFields) {
	_ = h[AETHSize-1]
	h[0] = byte(f.Syndrome)
	putUint24(h[1:], f.MSN)
}

func bitIf(on bool, b byte) byte {
	if on {
		return b
	}
	return 0
}

func uint24(b []byte) uint32 {
	return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
}

func putUint24(b []byte, v uint32) {
	b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v)
}
