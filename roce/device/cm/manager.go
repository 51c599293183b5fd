package cm

import (
	"math/rand/v2"
	"net/netip"
	"syscall"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Config sets up a [Manager].
type Config struct {
	Fabric *fabric.Fabric
	Host   fabric.NodeID
	GUID   uint64 // GUID of the host's RDMA device
	MTU    uint32 // path MTU, as a value of C's enum ibv_mtu
	// Send carries a connection manager's message to a host, which may be this one, and then calls done once: arrived
	// is false if the message was given up.
	Send func(now fabric.Time, dst fabric.NodeID, message []byte, done func(now fabric.Time, arrived bool))
}

// Manager is a host's RDMA connection manager: the state of all rdma_cm identifiers of its programs. It is not safe for
// concurrent use.
type Manager struct {
	cfg   Config
	addr  netip.Addr
	ports map[portKey][]*connID
	sent  map[uint32]*connID  // by their number in messages
	peers map[peerKey]*connID // those that another host has asked for
	waits map[*connID]struct{}
	last  uint32
	check fabric.Time // when waits is looked at next

	refusals map[fabric.NodeID]int // under way
}

type portKey struct {
	space uint16
	port  uint16
}

type peerKey struct {
	host fabric.NodeID
	from uint32
}

// Bounds of what a program may have.
const (
	maxIdents   = 16384 // librdmacm takes numbers up to 65535
	maxChannels = 4096
	maxBacklog  = 1024
	maxSending  = 256 // maximum number of CM messages in flight; more wait
	maxRefusals = 256 // maximum number of rejects in flight to one host
)

// answerTimeout is how long the other side's program may take to answer, about as long as the kernel's.
const answerTimeout = 60 * fabric.Second

// timeWait is for how long an identifier is not free for another connection. Nothing of one can be confused with
// another's here: a program may wait for the event.
const timeWait = fabric.Second

// checkInterval is how often that is looked at.
const checkInterval = fabric.Second

// New returns a connection manager without programs.
func New(c Config) *Manager {
	return &Manager{
		cfg: c, addr: c.Fabric.HostAddr4(c.Host), ports: map[portKey][]*connID{},
		sent: map[uint32]*connID{}, peers: map[peerKey]*connID{}, waits: map[*connID]struct{}{}, last: rand.Uint32(),
		refusals: map[fabric.NodeID]int{},
	}
}

// Wake returns the time of the next [Manager.Tick]; ok is false if no timer runs.
func (m *Manager) Wake() (at fabric.Time, ok bool) { return m.check, len(m.waits) > 0 }

// Tick ends connection requests whose answer is overdue.
func (m *Manager) Tick(now fabric.Time) {
	if len(m.waits) == 0 || now < m.check {
		return
	}
	m.check = now + checkInterval
	for i := range m.waits {
		switch {
		case now < i.until:
		case i.state == stateEnded:
			delete(m.waits, i)
			i.raiseEvent(eventTimewaitExit, 0, param{})
		default:
			m.unreachable(i)
		}
	}
}

// awaitAnswer has an identifier wait for the other side, or for its end.
func (m *Manager) awaitAnswer(now, d fabric.Time, i *connID) {
	if len(m.waits) == 0 {
		m.check = now + checkInterval
	}
	m.waits[i] = struct{}{}
	i.until = now + d
}

// disconnected ends a connection.
func (m *Manager) disconnected(now fabric.Time, i *connID, status int32) {
	i.state = stateEnded
	i.raiseEvent(eventDisconnected, status, param{})
	m.awaitAnswer(now, timeWait, i)
}

// unreachable ends an identifier whose other side does not answer.
func (m *Manager) unreachable(i *connID) {
	delete(m.waits, i)
	i.state = stateEnded
	i.raiseEvent(eventUnreachable, -int32(syscall.ETIMEDOUT), param{})
}

// assignNumber assigns a unique number to an identifier, for messages.
func (m *Manager) assignNumber(i *connID) {
	for m.last++; m.last == 0 || m.sent[m.last] != nil; m.last++ {
	}
	i.sent = m.last
	m.sent[i.sent] = i
}

// Ports that are given to those who do not ask for one: Linux's.
const (
	firstPort    = 32768
	dynamicPorts = 60999 - firstPort + 1
)

// bindAddress assigns an address and a port to an identifier; port 0: any free one.
func (m *Manager) bindAddress(i *connID, a netip.AddrPort) error {
	to, any, ok := m.ownAddress(a.Addr())
	if !ok {
		return syscall.EADDRNOTAVAIL
	}
	port := a.Port()
	if port == 0 {
		from := rand.IntN(dynamicPorts)
		for k := range dynamicPorts {
			p := uint16(firstPort + (from+k)%dynamicPorts)
			if len(m.ports[portKey{i.space, p}]) == 0 {
				port = p
				break
			}
		}
		if port == 0 {
			return syscall.EADDRINUSE
		}
	} else if !m.portFree(i, port, i.reuse) {
		return syscall.EADDRINUSE
	}
	i.src, i.device = netip.AddrPortFrom(to, port), !any
	key := portKey{i.space, port}
	m.ports[key] = append(m.ports[key], i)
	i.bound = true
	return nil
}

// portFree reports whether an identifier may have a port beside those that have it.
func (m *Manager) portFree(i *connID, port uint16, reuse bool) bool {
	for _, other := range m.ports[portKey{i.space, port}] {
		if other != i && (!reuse || !other.reuse || other.state == stateListening) {
			return false
		}
	}
	return true
}

func (m *Manager) unbind(i *connID) {
	if !i.bound {
		return
	}
	i.bound = false
	key := portKey{i.space, i.src.Port()}
	var left []*connID
	for _, other := range m.ports[key] {
		if other != i {
			left = append(left, other)
		}
	}
	if len(left) == 0 {
		delete(m.ports, key)
	} else {
		m.ports[key] = left
	}
}

// ownAddress reports whether an address is this host's; any, whether it names no device. A loopback address names none
// unless it is the device's, as for the kernel (cma_any_addr); libfabric then takes the address of the device.
func (m *Manager) ownAddress(a netip.Addr) (as netip.Addr, any, ok bool) {
	switch v4 := a.Unmap(); {
	case v4 == m.addr:
		return a, false, true
	case a.IsUnspecified() || v4.Is4() && v4.IsLoopback():
		return a, true, true
	}
	return a, false, false
}

// hostOf returns which host has an address. Loopback addresses and the unspecified one are this host's.
func (m *Manager) hostOf(a netip.Addr) (fabric.NodeID, bool) {
	v4 := a.Unmap()
	if a.IsUnspecified() || v4.Is4() && v4.IsLoopback() {
		return m.cfg.Host, true
	}
	if !v4.Is4() {
		return 0, false
	}
	return m.cfg.Fabric.HostByAddr(v4)
}

// listener returns the identifier that listens on a port, or nil.
func (m *Manager) listener(space, port uint16) *connID {
	for _, i := range m.ports[portKey{space, port}] {
		if a := i.src.Addr(); i.state == stateListening && (!i.v6only || a.Unmap().Is4()) {
			return i
		}
	}
	return nil
}

// sendMessage has an identifier's message follow those before it.
func (m *Manager) sendMessage(now fabric.Time, i *connID, x message) {
	x.from, x.to, x.space, x.srcPort, x.dstPort = i.sent, i.peerSent, i.space, i.src.Port(), i.dst.Port()
	i.out = append(i.out, outgoingMessage{x.kind, x.encode()})
	if len(i.out) == 1 {
		m.sendNext(now, i)
	}
}

// sendNext sends the first message of an identifier, which may be destroyed meanwhile.
func (m *Manager) sendNext(now fabric.Time, i *connID) {
	p := i.owner
	if p.sending >= maxSending {
		p.later = append(p.later, i)
		return
	}
	p.sending++
	m.cfg.Send(now, i.peer, i.out[0].bytes, func(now fabric.Time, arrived bool) {
		p.sending--
		if len(p.later) > 0 {
			next := p.later[0]
			p.later = p.later[1:]
			m.sendNext(now, next)
		}
		k := i.out[0].kind
		i.out = i.out[1:]
		if !arrived {
			i.out = nil
		}
		m.sentOne(now, i, k, arrived)
		if len(i.out) > 0 {
			m.sendNext(now, i)
		}
	})
}

// sentOne takes note that a message has arrived, or that it has not.
func (m *Manager) sentOne(now fabric.Time, i *connID, k kind, arrived bool) {
	switch {
	case i.program == nil:
	case k == kindDisconnect && i.state == stateDisconnecting:
		status := int32(0)
		if !arrived {
			status = -int32(syscall.ETIMEDOUT)
		}
		m.disconnected(now, i, status)
	case !arrived && (k == kindRequest && i.state == stateConnecting || k == kindReply && i.state == stateAccepted):
		m.unreachable(i)
	}
}

// sendReject rejects a request for which there is no identifier.
func (m *Manager) sendReject(now fabric.Time, dst fabric.NodeID, x *message, reason uint32) {
	if m.refusals[dst] >= maxRefusals {
		return
	}
	m.refusals[dst]++
	answer := message{
		kind: kindReject, space: x.space, from: x.to, to: x.from, srcPort: x.dstPort, dstPort: x.srcPort, reason: reason,
	}
	m.cfg.Send(now, dst, answer.encode(), func(fabric.Time, bool) {
		if m.refusals[dst]--; m.refusals[dst] == 0 {
			delete(m.refusals, dst)
		}
	})
}

// Receive processes a connection manager's message from a host, which may be this one. The error says that b is no such
// message.
func (m *Manager) Receive(now fabric.Time, src fabric.NodeID, b []byte) error {
	x, err := parseMessage(b)
	if err == nil {
		m.receiveMessage(now, src, &x)
	}
	return err
}

func (m *Manager) receiveMessage(now fabric.Time, src fabric.NodeID, x *message) {
	if x.kind == kindRequest {
		m.receiveRequest(now, src, x)
		return
	}
	i := m.sent[x.to]
	if x.to == 0 { // the active side ends before it has an answer
		i = m.peers[peerKey{src, x.from}]
	}
	if i == nil || i.peer != src || i.space != x.space || i.peerSent != 0 && x.from != i.peerSent {
		if x.kind == kindReply {
			m.sendReject(now, src, x, reasonTimeout)
		}
		return
	}
	x.pad()
	switch x.kind {
	case kindReply:
		m.receiveReply(i, x)
	case kindReady:
		if i.state == stateAccepted {
			m.established(i)
		}
	case kindReject:
		m.receiveReject(i, x)
	case kindDisconnect:
		switch i.state {
		case stateAnswered, stateAccepted, stateEstablished, stateDisconnecting:
			m.disconnected(now, i, 0)
		}
	}
}

// pad makes the private bytes as many as InfiniBand's packets have, which programs get to see.
func (x *message) pad() {
	x.param.private = append(x.param.private, make([]byte, privateMost(x.kind, x.space)-len(x.param.private))...)
}

// receiveRequest makes an identifier for a request and hands it to the program that listens.
func (m *Manager) receiveRequest(now fabric.Time, src fabric.NodeID, x *message) {
	key := peerKey{src, x.from}
	if x.from == 0 || m.peers[key] != nil {
		return // the second copy of one
	}
	l := m.listener(x.space, x.dstPort)
	switch {
	case l == nil && x.space == spaceUDP:
		m.sendReject(now, src, x, statusUnsupported)
		return
	case l == nil:
		m.sendReject(now, src, x, reasonNoService)
		return
	case l.backlog == 0:
		m.sendReject(now, src, x, reasonConsumer)
		return
	}
	i, err := l.program.newIdent(l.channel, l.space, 0)
	if err != nil {
		m.sendReject(now, src, x, reasonNoResources)
		return
	}
	l.backlog--
	m.assignNumber(i)
	m.peers[key] = i
	x.pad()
	i.key, i.listener, i.state, i.peer, i.peerSent = key, l, stateRequested, src, x.from
	i.src = netip.AddrPortFrom(m.addr, x.dstPort)
	i.dst = netip.AddrPortFrom(m.cfg.Fabric.HostAddr4(src), x.srcPort)
	i.device = true
	i.tos, i.ackTimeout = l.tos, l.ackTimeout
	i.remote, i.remotePSN, i.vendor, i.options = x.param, x.psn, x.vendor, x.options
	p := x.param
	p.resources, p.depth = p.depth, p.resources
	i.mine = param{resources: p.resources, depth: p.depth, retry: p.retry, rnr: p.rnr}
	i.pushTo(l, eventConnectRequest, 0, p)
}

// receiveReply takes the other side's acceptance.
func (m *Manager) receiveReply(i *connID, x *message) {
	if i.state != stateConnecting {
		return
	}
	delete(m.waits, i)
	i.peerSent, i.remote, i.remotePSN, i.vendor, i.options = x.from, x.param, x.psn, x.vendor, x.options
	p := x.param
	p.resources, p.depth = p.depth, p.resources
	if i.space == spaceUDP {
		i.state = stateEstablished
		i.raiseEvent(eventEstablished, 0, p)
		return
	}
	i.state = stateAnswered
	i.mine.resources, i.mine.depth = p.resources, p.depth
	i.raiseEvent(eventConnectResponse, 0, p)
}

// established takes note that the active side is ready.
func (m *Manager) established(i *connID) {
	delete(m.waits, i)
	i.state = stateEstablished
	i.raiseEvent(eventEstablished, 0, param{})
}

// receiveReject processes a reject message.
func (m *Manager) receiveReject(i *connID, x *message) {
	switch i.state {
	case stateConnecting, stateRequested, stateAccepted:
	default:
		return
	}
	delete(m.waits, i)
	i.state = stateEnded
	if i.space == spaceUDP {
		i.raiseEvent(eventUnreachable, int32(x.reason), param{private: x.param.private})
		return
	}
	i.raiseEvent(eventRejected, int32(x.reason), param{private: x.param.private})
}
