package cm

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// kind is the type of a connection manager message.
type kind uint8

const (
	kindRequest    kind = 1 + iota // connection request of the active side
	kindReply                      // connection reply: the passive side accepts
	kindReady                      // the active side has its queue pair ready
	kindReject                     // of either side, before there is a connection
	kindDisconnect                 // disconnect request, from either side
	lastKind       = kindDisconnect
)

// message is a connection manager message between two hosts. Addresses are those of the hosts.
type message struct {
	kind    kind
	space   uint16
	from    uint32 // the sender's identifier
	to      uint32 // the receiver's; 0 where the sender does not know it
	srcPort uint16
	dstPort uint16
	psn     uint32 // of the sender's first packet
	reason  uint32 // of a rejection
	vendor  uint32 // extended connection establishment: passed on
	options uint32
	param   param
}

const messageSize = 48

// errMessage is the cause of all errors of parseMessage.
var errMessage = errors.New("cm: a message of the other side")

func (m *message) encode() []byte {
	be := binary.BigEndian
	b := make([]byte, 0, messageSize+len(m.param.private))
	b = append(b, byte(m.kind), m.param.srq)
	b = be.AppendUint16(b, m.space)
	b = be.AppendUint32(b, m.from)
	b = be.AppendUint32(b, m.to)
	b = be.AppendUint16(b, m.srcPort)
	b = be.AppendUint16(b, m.dstPort)
	b = be.AppendUint32(b, m.psn)
	b = be.AppendUint32(b, m.reason)
	b = be.AppendUint32(b, m.vendor)
	b = be.AppendUint32(b, m.options)
	b = be.AppendUint32(b, m.param.qpn)
	b = be.AppendUint32(b, m.param.qkey)
	b = append(b, m.param.resources, m.param.depth, m.param.flow, m.param.retry, m.param.rnr, 0, 0, 0)
	return append(b, m.param.private...)
}

// parseMessage reads a message of another host, who may have sent anything.
func parseMessage(b []byte) (m message, err error) {
	be := binary.BigEndian
	if len(b) < messageSize || len(b) > messageSize+privateSize {
		return m, fmt.Errorf("%w has %d bytes, want %d to %d", errMessage, len(b), messageSize, messageSize+privateSize)
	}
	m = message{
		kind: kind(b[0]), space: be.Uint16(b[2:]), from: be.Uint32(b[4:]), to: be.Uint32(b[8:]), srcPort: be.Uint16(b[12:]),
		dstPort: be.Uint16(b[14:]), psn: be.Uint32(b[16:]) & 0xffffff, reason: be.Uint32(b[20:]), vendor: be.Uint32(b[24:]),
		options: be.Uint32(b[28:]),
		param: param{
			srq: b[1], qpn: be.Uint32(b[32:]) & 0xffffff, qkey: be.Uint32(b[36:]), resources: b[40], depth: b[41], flow: b[42],
			retry: b[43] & 7, rnr: b[44] & 7, private: append([]byte(nil), b[messageSize:]...),
		},
	}
	if m.kind < kindRequest || m.kind > lastKind {
		return m, fmt.Errorf("%w is of kind %d, want 1 to %d", errMessage, m.kind, lastKind)
	}
	if m.space != spaceTCP && m.space != spaceUDP {
		return m, fmt.Errorf("%w names port space %#x, want %#x or %#x", errMessage, m.space, spaceTCP, spaceUDP)
	}
	if n := privateMost(m.kind, m.space); len(m.param.private) > n {
		return m, fmt.Errorf("%w has %d private bytes, want at most %d", errMessage, len(m.param.private), n)
	}
	return m, nil
}

// privateMost returns how many private bytes a message may have, as InfiniBand's packets have room for them. RDMA CM
// takes 36 of a request's.
func privateMost(k kind, space uint16) int {
	switch {
	case k == kindRequest && space == spaceUDP:
		return 180
	case k == kindRequest:
		return 56
	case space == spaceUDP:
		return 136
	case k == kindReply:
		return 196
	case k == kindReject:
		return 148
	}
	return 0
}
