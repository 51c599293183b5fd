//go:build linux

package device

import (
	"encoding/binary"
)

// native is the byte order of the structures that programs share.
var native = binary.NativeEndian

// ABI is the version of the protocol between a NIC and the library that programs load; it must equal that of the C
// header roce/device/interpose/nic.h.
const ABI = 3

// callOp is the number of a call that a program makes to the device.
type callOp uint32

const (
	opHello callOp = 1 + iota
	opAllocPD
	opDeallocPD
	opRegMR
	opDeregMR
	opCreateChannel
	opDestroyChannel
	opCreateCQ
	opDestroyCQ
	opCreateSRQ
	opModifySRQ
	opDestroySRQ
	opCreateQP
	opModifyQP
	opQueryQP
	opDestroyQP
	opQueryPort
	opResizeCQ
	opResizeSRQ
	opQuerySRQ
	opReregMR
	opAllocMW
	opDeallocMW
	opCM
	opFindHost
)

// firstLimit is where limits begin in the answer to opHello.
const firstLimit = 3

// Sizes and offsets of the shared structures, in bytes.
const (
	callArgs        = 15
	callSize        = 8 + 8*callArgs
	bellSize        = 16
	bellRung        = 4
	bellNews        = 8
	doorbellWaiting = 12
	ringHead        = 0
	ringTail        = 64
	ringArmed       = 128
	ringSize        = 192
	sgeSize         = 16
	sendSize        = 80
	recvSize        = 16
	cqeSize         = 48
	asyncSize       = 16
	cmCallHead      = 8 // of struct nic_cm_call, and of the answer
	cmMaxLength     = 512
	cmOption        = 16
)

// Arguments of opModifyQP.
const (
	argState = 2 + iota
	argAccess
	argDestQPN
	argRQPSN
	argSQPSN
	argDestAddr
	argTimeout
	argRetryCnt
	argRNRRetry
	argMinRNRTimer
	argMaxRDAtomic
	argMaxDestRDAtomic
	argQKey
)

// programCall is a program's call, or the answer: its first word is then an errno.
type programCall struct {
	word uint32
	arg  [callArgs]uint64
}

func (c *programCall) parse(b *[callSize]byte) {
	c.word = native.Uint32(b[:])
	for i := range c.arg {
		c.arg[i] = native.Uint64(b[8+8*i:])
	}
}

func (c *programCall) encode() []byte {
	b := make([]byte, callSize)
	native.PutUint32(b, c.word)
	for i, v := range c.arg {
		native.PutUint64(b[8+8*i:], v)
	}
	return b
}

// Verbs' numbers, as in infiniband/verbs.h.
const (
	qptRC = 2
	qptUD = 4

	wrWrite    = 0
	wrWriteImm = 1
	wrSend     = 2
	wrSendImm  = 3
	wrRead     = 4
	wrCompSwap = 5
	wrFetchAdd = 6
	wrLocalInv = 7
	wrBind     = 8
	wrSendInv  = 9

	reregTranslation = 1 << 0
	reregPD          = 1 << 1
	reregAccess      = 1 << 2

	sendFence     = 1 << 0
	sendSignaled  = 1 << 1
	sendSolicited = 1 << 2
	sendInline    = 1 << 3

	eventCQErr      = 0
	eventQPFatal    = 1
	eventPortActive = 9
	eventPortErr    = 10
	eventSRQLimit   = 15
	eventLastWQE    = 16

	wcGRH     = 1 << 0
	wcWithImm = 1 << 1
	wcWithInv = 1 << 3

	grhSize = 40
)

// status is the status of a work completion (enum ibv_wc_status).
type status uint32

const (
	wcSuccess    status = 0
	locLenErr    status = 1
	locQPOpErr   status = 2
	locProtErr   status = 4
	flushErr     status = 5
	mwBindErr    status = 6
	locAccessErr status = 8
	remInvReqErr status = 9
	remAccessErr status = 10
	remOpErr     status = 11
	retryExcErr  status = 12
	rnrRetryErr  status = 13
)

// Opcodes of completions.
const (
	wcSend        = 0
	wcWrite       = 1
	wcRead        = 2
	wcCompSwap    = 3
	wcFetchAdd    = 4
	wcBind        = 5
	wcLocalInv    = 6
	wcRecv        = 1 << 7
	wcRecvWithImm = 1<<7 + 1
)

// wcOpcode is a send request's completion's opcode.
func wcOpcode(wr uint32) uint32 {
	return [...]uint32{
		wcWrite, wcWrite, wcSend, wcSend, wcRead, wcCompSwap, wcFetchAdd, wcLocalInv, wcBind, wcSend,
	}[min(wr, wrSendInv)]
}

// fetchesData reports whether a work request brings something back.
func fetchesData(wr uint32) bool { return wr >= wrRead && wr <= wrFetchAdd }

// isLocal reports whether a work request concerns this side alone.
func isLocal(wr uint32) bool { return wr == wrLocalInv || wr == wrBind }

// sge is a part of a program's memory.
type sge struct {
	addr   uint64
	length uint32
	lkey   uint32
}

func parseSGEs(b []byte, n int) []sge {
	out := make([]sge, n)
	for i := range out {
		at := b[i*sgeSize:]
		out[i] = sge{native.Uint64(at), native.Uint32(at[8:]), native.Uint32(at[12:])}
	}
	return out
}

func totalLength(sges []sge) (n uint64) {
	for _, s := range sges {
		n += uint64(s.length)
	}
	return n
}

// sendRequest is a work request to send.
type sendRequest struct {
	id          uint64
	opcode      uint32
	flags       uint32
	imm         uint32
	rkey        uint32
	remote      uint64
	compare     uint64
	swap        uint64
	udQPN, qkey uint32
	udAddr      uint32
	inline      []byte
	sges        []sge
}

// parseSend reads a request from a slot's copy, which becomes the request's. ok is
// false when the counts in it are not possible.
func parseSend(b []byte, maxSGE, maxInline int) (r sendRequest, ok bool) {
	r = sendRequest{
		id: native.Uint64(b), opcode: native.Uint32(b[8:]), flags: native.Uint32(b[12:]), imm: binary.BigEndian.Uint32(b[16:]),
		rkey: native.Uint32(b[28:]), remote: native.Uint64(b[32:]), compare: native.Uint64(b[40:]), swap: native.Uint64(b[48:]),
		udQPN: native.Uint32(b[56:]), qkey: native.Uint32(b[60:]), udAddr: native.Uint32(b[64:]),
	}
	sges, inline := native.Uint32(b[20:]), native.Uint32(b[24:])
	if sges > uint32(maxSGE) || inline > uint32(maxInline) || r.opcode > wrSendInv {
		return r, false
	}
	if r.flags&sendInline != 0 {
		r.inline = b[sendSize : sendSize+inline]
	} else {
		r.sges = parseSGEs(b[sendSize:], int(sges))
	}
	return r, true
}

// recvRequest is a work request to receive.
type recvRequest struct {
	id   uint64
	sges []sge
}

func parseRecv(b []byte, maxSGE int) (r recvRequest, ok bool) {
	n := native.Uint32(b[8:])
	if n > uint32(maxSGE) {
		return r, false
	}
	return recvRequest{native.Uint64(b), parseSGEs(b[recvSize:], int(n))}, true
}

func sendStride(sges, inline int) int { return sendSize + (max(sges*sgeSize, inline)+15)&^15 }
func recvStride(sges int) int         { return recvSize + sges*sgeSize }

// completion is an entry of a completion queue.
type completion struct {
	id        uint64
	status    status
	opcode    uint32
	bytes     uint32
	imm       uint32
	qpn, src  uint32
	flags     uint32
	solicited bool
}

func (c *completion) encode(b []byte) {
	native.PutUint64(b, c.id)
	native.PutUint32(b[8:], uint32(c.status))
	native.PutUint32(b[12:], c.opcode)
	native.PutUint32(b[16:], 0)
	native.PutUint32(b[20:], c.bytes)
	if c.flags&wcWithInv != 0 {
		native.PutUint32(b[24:], c.imm)
	} else {
		binary.BigEndian.PutUint32(b[24:], c.imm)
	}
	native.PutUint32(b[28:], c.qpn)
	native.PutUint32(b[32:], c.src)
	native.PutUint32(b[36:], c.flags)
}
