package cm

import (
	"encoding/binary"
	"net/netip"
	"syscall"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
)

// state is the connection state of an identifier.
type state uint8

const (
	stateIdle state = iota
	stateBound
	stateResolved // the address is resolved
	stateRouted   // address and route are resolved
	stateListening
	stateConnecting // this side has sent a connection request
	stateAnswered   // the peer has accepted; this side has still to confirm
	stateRequested  // the peer has sent a connection request
	stateAccepted
	stateEstablished
	stateDisconnecting
	stateEnded
)

// connID is one end of a connection, a datagram service or a listener: struct rdma_cm_id.
type connID struct {
	program *Program // nil: destroyed
	owner   *Program // whose messages it sends, also when it is destroyed
	channel *eventChannel
	number  uint32 // the program's
	uid     uint64 // the program's; 0: it does not know the identifier yet
	space   uint16
	state   state
	fetched uint32 // events that the program has got

	src, dst   netip.AddrPort
	bound      bool // src's port is taken
	device     bool // it is known that the device is used
	reuse      bool
	v6only     bool
	tos        uint8
	ackTimeout uint8

	backlog  uint32  // of a listener: how many more requests may wait
	listener *connID // of a request that the program has not accepted
	counted  bool    // it has been returned to the listener's backlog

	peer      fabric.NodeID
	sent      uint32 // this identifier's number in messages
	peerSent  uint32 // the other side's
	key       peerKey
	until     fabric.Time
	psn       uint32
	remotePSN uint32
	mine      param
	remote    param
	vendor    uint32
	options   uint32
	out       []outgoingMessage
}

// outgoingMessage is a message that has not arrived.
type outgoingMessage struct {
	kind  kind
	bytes []byte
}

// defaultAckTimeout is 4.096 us * 2^18, a second: the kernel's of RoCE.
const defaultAckTimeout = 18

// defaultQKey is that of the UDP port space.
const defaultQKey = 0x01234567

// event is one that a program has not fetched.
type event struct {
	of    *connID // whose it is
	about *connID // the new identifier of a request, else of
	bytes []byte
}

// raiseEvent has the program get an event.
func (i *connID) raiseEvent(kind uint32, status int32, p param) {
	if i.program == nil || i.uid == 0 {
		return // as the kernel, which lets a program learn at its next command what has become of a request
	}
	i.pushTo(i, kind, status, p)
}

// pushTo has an event about i be of another identifier.
func (i *connID) pushTo(of *connID, kind uint32, status int32, p param) {
	b := make([]byte, eventSize)
	native.PutUint64(b, of.uid)
	native.PutUint32(b[8:], i.number)
	native.PutUint32(b[12:], kind)
	native.PutUint32(b[16:], uint32(status))
	if i.space == spaceUDP {
		p.putDatagram(b[eventParam:], i.dst.Addr())
	} else {
		p.put(b[eventParam:])
	}
	native.PutUint32(b[eventECE:], i.vendor)
	native.PutUint32(b[eventECE+4:], i.options)
	of.channel.push(event{of, i, b})
}

// destroy destroys an identifier, with its pending requests and events.
func (i *connID) destroy(now fabric.Time) {
	if i.program == nil {
		return // with its listener, or before it
	}
	m := i.program.m
	was := i.state
	i.state = stateEnded
	i.channel.discard(func(e event) bool {
		if e.of == i && e.about != i {
			e.about.destroy(now)
		}
		return e.of == i
	})
	switch was {
	case stateConnecting:
		if i.space == spaceTCP {
			m.sendMessage(now, i, message{kind: kindReject, reason: reasonTimeout})
		}
	case stateRequested, stateAnswered, stateAccepted:
		if i.space == spaceTCP || was == stateRequested {
			i.reject(now, 0, nil)
		}
	case stateEstablished:
		if i.space == spaceTCP {
			m.sendMessage(now, i, message{kind: kindDisconnect})
		}
	}
	i.releaseBacklog()
	m.unbind(i)
	delete(m.waits, i)
	delete(m.sent, i.sent)
	if m.peers[i.key] == i {
		delete(m.peers, i.key)
	}
	delete(i.program.idents, i.number)
	i.program = nil
}

// reject sends a rejection; reason 0: the program's wish.
func (i *connID) reject(now fabric.Time, reason uint32, private []byte) {
	if reason == 0 {
		reason = reasonConsumer
		if i.space == spaceUDP {
			reason = statusRejected
		}
	}
	i.program.m.sendMessage(now, i, message{kind: kindReject, reason: reason, param: param{private: private}})
}

// releaseBacklog returns a request's place in its listener's backlog.
func (i *connID) releaseBacklog() {
	if l := i.listener; l != nil && !i.counted {
		i.counted = true
		l.backlog++
	}
	i.listener = nil
}

func (i *connID) connect(now fabric.Time, p *param, vendor, options uint32) error {
	m := i.program.m
	if i.state != stateRouted || len(p.private) > privateMost(kindRequest, i.space) {
		return syscall.EINVAL
	}
	m.assignNumber(i)
	i.mine, i.state = *p, stateConnecting
	m.awaitAnswer(now, answerTimeout, i)
	m.sendMessage(now, i, message{kind: kindRequest, psn: i.psn, vendor: vendor, options: options, param: *p})
	return nil
}

func (i *connID) accept(now fabric.Time, uid uint64, p *param, vendor, options uint32) error {
	m := i.program.m
	switch {
	case p.valid && i.state == stateRequested:
		if len(p.private) > privateMost(kindReply, i.space) {
			return syscall.EINVAL
		}
		i.releaseBacklog()
		i.uid = uid
		if i.space == spaceUDP {
			if p.qkey == 0 {
				p.qkey = defaultQKey
			}
			i.state = stateEstablished
		} else {
			i.mine.resources, i.mine.depth, i.mine.rnr = p.resources, p.depth, p.rnr
			i.state = stateAccepted
			m.awaitAnswer(now, answerTimeout, i)
		}
		m.sendMessage(now, i, message{kind: kindReply, psn: i.psn, vendor: vendor, options: options, param: *p})
		return nil
	case !p.valid && i.state == stateAnswered:
		i.state = stateEstablished
		m.sendMessage(now, i, message{kind: kindReady})
		return nil
	}
	return syscall.EINVAL
}

func (i *connID) disconnect(now fabric.Time) error {
	switch i.state {
	case stateEstablished, stateAccepted:
		if i.space == spaceUDP {
			return syscall.EINVAL
		}
		delete(i.program.m.waits, i)
		i.state = stateDisconnecting
		i.program.m.sendMessage(now, i, message{kind: kindDisconnect})
	case stateAnswered:
		i.reject(now, 0, nil)
		i.state = stateEnded
	case stateDisconnecting, stateEnded:
	default:
		return syscall.EINVAL
	}
	return nil
}

// attributes answers cmdInitQPAttr: the attributes of a queue pair for a state.
func (i *connID) attributes(to uint32) ([]byte, error) {
	m := i.program.m
	b := make([]byte, attrSize)
	mask := uint32(uverbs.MaskState)
	put := func(at int, v uint32) { native.PutUint32(b[at:], v) }
	switch {
	case !i.device:
		return nil, syscall.EINVAL
	case to == uverbs.QPSInit:
		mask |= uverbs.MaskPKey | uverbs.MaskPort
		b[133] = 1
		if i.space == spaceUDP {
			mask |= uverbs.MaskQKey
			put(20, defaultQKey)
			break
		}
		mask |= uverbs.MaskAccess
		if i.connected() {
			put(36, accessRemote)
		}
	case i.space == spaceUDP && to == uverbs.QPSRTR:
	case i.space == spaceUDP && to == uverbs.QPSRTS:
		mask |= uverbs.MaskSQPSN
	case !i.connected():
		return nil, syscall.EINVAL
	case to == uverbs.QPSRTR:
		mask |= uverbs.MaskRTR
		put(12, m.cfg.MTU)
		put(24, i.remotePSN)
		put(32, i.remote.qpn)
		putAH(b[attrAH:], m.cfg.Fabric.HostAddr4(i.peer))
		b[attrAH+22] = i.tos
		b[131] = i.mine.resources
	case to == uverbs.QPSRTS:
		mask |= uverbs.MaskRTS
		put(28, i.psn)
		b[130], b[134], b[135], b[136] = i.mine.depth, i.ackTimeout, i.remoteRetry(), i.remote.rnr&7
	default:
		return nil, syscall.EINVAL
	}
	put(0, mask)
	put(4, to)
	return b, nil
}

// connected reports whether the other side's parameters are known.
func (i *connID) connected() bool {
	switch i.state {
	case stateAnswered, stateRequested, stateAccepted, stateEstablished:
		return true
	}
	return false
}

// remoteRetry is the number of retransmissions, which the active side chooses for both.
func (i *connID) remoteRetry() uint8 {
	if i.key.from == 0 {
		return i.mine.retry & 7
	}
	return i.remote.retry & 7
}

// route answers cmdQueryRoute.
func (i *connID) route() []byte {
	b := make([]byte, answerSize)
	m := i.program.m
	const addrs = 8 + 2*pathSize
	if i.device {
		binary.BigEndian.PutUint64(b, m.cfg.GUID)
		src := m.addr.As16()
		path := b[8:]
		copy(path[16:], src[:])
		if i.dst.IsValid() {
			dst := m.cfg.Fabric.HostAddr4(i.peer).As16()
			copy(path, dst[:])
		}
		native.PutUint32(path[44:], 1) // reversible
		native.PutUint32(path[48:], m.cfg.MTU)
		binary.BigEndian.PutUint16(path[52:], pkey)
		path[54], path[55], path[56] = hopLimit, i.tos, 1
		path[58], path[59], path[60], path[61], path[62] = 2, 2, 2, 2, 16 // exactly the MTU, rate and life time
		b[addrs+2*sockaddrSize+4] = 1                                     // the port
		if i.dst.IsValid() && i.state >= stateRouted {
			native.PutUint32(b[addrs+2*sockaddrSize:], 1)
		}
	}
	putAddr(b[addrs:], i.src)
	putAddr(b[addrs+sockaddrSize:], i.dst)
	native.PutUint32(b[addrs+2*sockaddrSize+8:], ^uint32(0)) // the kernel has no index of the device
	return b
}
