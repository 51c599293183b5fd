package cm

import (
	"encoding/binary"
	"net/netip"

	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
)

// The structures and numbers of rdma/rdma_user_cm.h and rdma/ib_user_verbs.h. A test compares them with the headers.

// native is the byte order of the structures that programs share.
var native = binary.NativeEndian

// command is a program's command.
type command uint32

const (
	cmdCreateID command = iota
	cmdDestroyID
	cmdBindIP
	cmdResolveIP
	cmdResolveRoute
	cmdQueryRoute
	cmdConnect
	cmdListen
	cmdAccept
	cmdReject
	cmdDisconnect
	cmdInitQPAttr
	cmdGetEvent
	_ // GET_OPTION
	cmdSetOption
	cmdNotify
	_ // JOIN_IP_MCAST
	_ // LEAVE_MCAST
	cmdMigrateID
)

// Port spaces.
const (
	spaceTCP = 0x0106
	spaceUDP = 0x0111
)

// Sizes and offsets, of commands without their header.
const (
	headSize     = 8
	createSize   = 24
	destroySize  = 16
	bindSize     = 40
	sockaddrSize = 28
	resolveSize  = 64
	routeSize    = 8
	querySize    = 16
	connectSize  = paramSize + 16
	listenSize   = 8
	acceptSize   = 8 + paramSize + 16
	rejectSize   = 8 + privateSize
	initSize     = 16
	optionSize   = 24
	notifySize   = 8
	migrateSize  = 16

	privateSize = 256
	paramSize   = 8 + privateSize + 8
	eventSize   = 336
	eventParam  = 20
	eventECE    = 328
	ahSize      = 32
	attrSize    = 144
	attrAH      = 40
	attrPKey    = 124
	pathSize    = 64
	answerSize  = 8 + 2*pathSize + 2*sockaddrSize + 16 // size in bytes of the answer to cmdQueryRoute
)

// Events.
const (
	eventAddrResolved = iota
	eventAddrError
	eventRouteResolved
	_ // ROUTE_ERROR
	eventConnectRequest
	eventConnectResponse
	_ // CONNECT_ERROR
	eventUnreachable
	eventRejected
	eventEstablished
	eventDisconnected
	_ // DEVICE_REMOVAL
	_ // MULTICAST_JOIN
	_ // MULTICAST_ERROR
	_ // ADDR_CHANGE
	eventTimewaitExit
)

// Options.
const (
	optionTOS = iota
	optionReuse
	optionV6Only
	optionAckTimeout
)

// Why a request is rejected, as InfiniBand's connection manager has it.
const (
	reasonNoResources = 3
	reasonTimeout     = 4
	reasonNoService   = 8
	reasonConsumer    = 28

	statusUnsupported = 1 // of a datagram service that is not there
	statusRejected    = 2 // datagram service: the service refuses (SIDR reject)
)

// accessRemote is the access flags that a connection's queue pair grants to the peer.
const accessRemote = uverbs.AccessRemoteWrite | uverbs.AccessRemoteRead | uverbs.AccessRemoteAtomic

// pkey is the only partition key.
const pkey = 0xffff

// param is struct rdma_ucm_conn_param, and what of struct rdma_ucm_ud_param is not in it.
type param struct {
	qpn, qkey  uint32
	private    []byte
	srq        uint8
	resources  uint8 // reads and atomics of the other side that are answered at once
	depth      uint8 // those of this side under way
	flow       uint8
	retry, rnr uint8
	valid      bool
}

// parseParam reads a program's parameters. ok is false if there cannot be as many private bytes.
func parseParam(b []byte) (p param, ok bool) {
	t := b[8+privateSize:]
	n := int(t[0])
	if n > privateSize {
		return p, false
	}
	return param{
		qpn: native.Uint32(b), qkey: native.Uint32(b[4:]), private: append([]byte(nil), b[8:8+n]...), srq: t[1], resources: t[2],
		depth: t[3], flow: t[4], retry: t[5], rnr: t[6], valid: t[7] != 0,
	}, true
}

func (p *param) put(b []byte) {
	native.PutUint32(b, p.qpn)
	native.PutUint32(b[4:], p.qkey)
	n := copy(b[8:8+privateSize], p.private)
	copy(b[8+privateSize:], []byte{byte(min(n, 255)), p.srq, p.resources, p.depth, p.flow, p.retry, p.rnr, 0})
}

// putDatagram writes struct rdma_ucm_ud_param.
func (p *param) putDatagram(b []byte, to netip.Addr) {
	native.PutUint32(b, p.qpn)
	native.PutUint32(b[4:], p.qkey)
	if to.IsValid() {
		putAH(b[8:], to)
	}
	b[8+ahSize+privateSize] = byte(min(copy(b[8+ahSize:8+ahSize+privateSize], p.private), 255))
}

// hopLimit is that of packets between hosts.
const hopLimit = 64

// putAH writes struct ib_uverbs_ah_attr.
func putAH(b []byte, to netip.Addr) {
	gid := to.As16()
	copy(b, gid[:])
	b[21] = hopLimit
	b[29], b[30] = 1, 1 // is_global, port_num
}

// parseAddr reads a sockaddr. ok is false if it has another family.
func parseAddr(b []byte) (a netip.AddrPort, ok bool) {
	port := binary.BigEndian.Uint16(b[2:])
	switch native.Uint16(b) {
	case 2:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:])), port), true
	case 10:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:])), port), true
	}
	return a, false
}

func putAddr(b []byte, a netip.AddrPort) {
	if !a.IsValid() {
		return
	}
	binary.BigEndian.PutUint16(b[2:], a.Port())
	if a.Addr().Is4() {
		native.PutUint16(b, 2)
		v := a.Addr().As4()
		copy(b[4:], v[:])
		return
	}
	native.PutUint16(b, 10)
	v := a.Addr().As16()
	copy(b[8:], v[:])
}

// addrPort is an IPv4 address, as IPv6 has it if mapped.
func addrPort(a netip.Addr, port uint16, mapped bool) netip.AddrPort {
	if mapped {
		a = netip.AddrFrom16(a.As16())
	}
	return netip.AddrPortFrom(a, port)
}
