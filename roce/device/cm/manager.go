package cm

import (
	"math/rand/v2"
	"net/netip"
	"syscall"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Config is what a [Manager] needs to know.
type Config struct {
	Fabric *fabric.Fabric
	Host   fabric.NodeID
	GUID   uint64 // of the device
	MTU    uint32 // enum ibv_mtu
	// Send has a message carried to a host, which may be this one. It calls done once: when the message has arrived,
	// or when it was given up.
	Send func(now fabric.Time, dst fabric.NodeID, message []byte, done func(now fabric.Time, arrived bool))
}

// Manager is the identifiers of a host's programs. It is not safe for concurrent use.
type Manager struct {
	cfg   Config
	addr  netip.Addr
	ports map[portKey][]*ident
	sent  map[uint32]*ident  // by their number in messages
	peers map[peerKey]*ident // those that another host has asked for
	waits map[*ident]struct{}
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
	maxSending  = 256 // messages under way; more wait
	maxRefusals = 256 // under way to a host
)

// answerTime is how long the other side's program may take to answer, about as long as the kernel's.
const answerTime = 60 * fabric.Second

// timewait is for how long an identifier is not free for another connection. Nothing of one can be confused with another's
// here: a program may wait for the event.
const timewait = fabric.Second

// checkEvery is how often that is looked at.
const checkEvery = fabric.Second

// New returns a manager without programs.
func New(c Config) *Manager {
	return &Manager{
		cfg: c, addr: c.Fabric.HostAddr4(c.Host), ports: map[portKey][]*ident{},
		sent: map[uint32]*ident{}, peers: map[peerKey]*ident{}, waits: map[*ident]struct{}{}, last: rand.Uint32(),
		refusals: map[fabric.NodeID]int{},
	}
}

// Wake returns when Tick is to be called; ok is false if not at all.
func (m *Manager) Wake() (at fabric.Time, ok bool) { return m.check, len(m.waits) > 0 }

// Tick gives up what the other side has not answered.
func (m *Manager) Tick(now fabric.Time) {
	if len(m.waits) == 0 || now < m.check {
		return
	}
	m.check = now + checkEvery
	for i := range m.waits {
		switch {
		case now < i.until:
		case i.state == stateEnded:
			delete(m.waits, i)
			i.raise(eventTimewaitExit, 0, param{})
		default:
			m.unreachable(i)
		}
	}
}

// await has an identifier wait for the other side, or for its end.
func (m *Manager) await(now, d fabric.Time, i *ident) {
	if len(m.waits) == 0 {
		m.check = now + checkEvery
	}
	m.waits[i] = struct{}{}
	i.until = now + d
}

// disconnected ends a connection.
func (m *Manager) disconnected(now fabric.Time, i *ident, status int32) {
	i.state = stateEnded
	i.raise(eventDisconnected, status, param{})
	m.await(now, timewait, i)
}

// unreachable ends an identifier whose other side does not answer.
func (m *Manager) unreachable(i *ident) {
	delete(m.waits, i)
	i.state = stateEnded
	i.raise(eventUnreachable, -int32(syscall.ETIMEDOUT), param{})
}

// number gives an identifier a number that no other has, for messages.
func (m *Manager) number(i *ident) {
	for m.last++; m.last == 0 || m.sent[m.last] != nil; m.last++ {
	}
	i.sent = m.last
	m.sent[i.sent] = i
}

// Ports that are given to those who do not ask for one: Linux's.
const (
	firstPort = 32768
	ports     = 60999 - firstPort + 1
)

// bind gives an identifier an address and a port; port 0 is any.
func (m *Manager) bind(i *ident, a netip.AddrPort) error {
	to, any, ok := m.own(a.Addr())
	if !ok {
		return syscall.EADDRNOTAVAIL
	}
	port := a.Port()
	if port == 0 {
		from := rand.IntN(ports)
		for k := range ports {
			p := uint16(firstPort + (from+k)%ports)
			if len(m.ports[portKey{i.space, p}]) == 0 {
				port = p
				break
			}
		}
		if port == 0 {
			return syscall.EADDRINUSE
		}
	} else if !m.free(i, port, i.reuse) {
		return syscall.EADDRINUSE
	}
	i.src, i.device = netip.AddrPortFrom(to, port), !any
	key := portKey{i.space, port}
	m.ports[key] = append(m.ports[key], i)
	i.bound = true
	return nil
}

// free reports whether an identifier may have a port beside those that have it.
func (m *Manager) free(i *ident, port uint16, reuse bool) bool {
	for _, other := range m.ports[portKey{i.space, port}] {
		if other != i && (!reuse || !other.reuse || other.state == stateListening) {
			return false
		}
	}
	return true
}

func (m *Manager) unbind(i *ident) {
	if !i.bound {
		return
	}
	i.bound = false
	key := portKey{i.space, i.src.Port()}
	var left []*ident
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

// own reports whether an address is this host's; any, whether it names no device. A loopback address names none unless it
// is the device's, as for the kernel (cma_any_addr); libfabric then takes the address of the device.
func (m *Manager) own(a netip.Addr) (as netip.Addr, any, ok bool) {
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

// listener finds who listens on a port.
func (m *Manager) listener(space, port uint16) *ident {
	for _, i := range m.ports[portKey{space, port}] {
		if a := i.src.Addr(); i.state == stateListening && (!i.v6only || a.Unmap().Is4()) {
			return i
		}
	}
	return nil
}

// post has an identifier's message follow those before it.
func (m *Manager) post(now fabric.Time, i *ident, x message) {
	x.from, x.to, x.space, x.srcPort, x.dstPort = i.sent, i.peerSent, i.space, i.src.Port(), i.dst.Port()
	i.out = append(i.out, outgoing{x.kind, x.encode()})
	if len(i.out) == 1 {
		m.sendNext(now, i)
	}
}

// sendNext sends the first message of an identifier, which may be destroyed meanwhile.
func (m *Manager) sendNext(now fabric.Time, i *ident) {
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
func (m *Manager) sentOne(now fabric.Time, i *ident, k kind, arrived bool) {
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

// refuse rejects a request for which there is no identifier.
func (m *Manager) refuse(now fabric.Time, dst fabric.NodeID, x *message, reason uint32) {
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

// Receive takes a message of another host, or of this one. It returns an error if the message is none.
func (m *Manager) Receive(now fabric.Time, src fabric.NodeID, b []byte) error {
	x, err := parseMessage(b)
	if err == nil {
		m.receive(now, src, &x)
	}
	return err
}

func (m *Manager) receive(now fabric.Time, src fabric.NodeID, x *message) {
	if x.kind == kindRequest {
		m.request(now, src, x)
		return
	}
	i := m.sent[x.to]
	if x.to == 0 { // the active side ends before it has an answer
		i = m.peers[peerKey{src, x.from}]
	}
	if i == nil || i.peer != src || i.space != x.space || i.peerSent != 0 && x.from != i.peerSent {
		if x.kind == kindReply {
			m.refuse(now, src, x, reasonTimeout)
		}
		return
	}
	x.pad()
	switch x.kind {
	case kindReply:
		m.reply(i, x)
	case kindReady:
		if i.state == stateAccepted {
			m.established(i)
		}
	case kindReject:
		m.rejected(i, x)
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

// request makes an identifier for a request and hands it to the program that listens.
func (m *Manager) request(now fabric.Time, src fabric.NodeID, x *message) {
	key := peerKey{src, x.from}
	if x.from == 0 || m.peers[key] != nil {
		return // the second copy of one
	}
	l := m.listener(x.space, x.dstPort)
	switch {
	case l == nil && x.space == spaceUDP:
		m.refuse(now, src, x, statusUnsupported)
		return
	case l == nil:
		m.refuse(now, src, x, reasonNoService)
		return
	case l.backlog == 0:
		m.refuse(now, src, x, reasonConsumer)
		return
	}
	i, err := l.program.newIdent(l.channel, l.space, 0)
	if err != nil {
		m.refuse(now, src, x, reasonNoResources)
		return
	}
	l.backlog--
	m.number(i)
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

// reply takes the other side's acceptance.
func (m *Manager) reply(i *ident, x *message) {
	if i.state != stateConnecting {
		return
	}
	delete(m.waits, i)
	i.peerSent, i.remote, i.remotePSN, i.vendor, i.options = x.from, x.param, x.psn, x.vendor, x.options
	p := x.param
	p.resources, p.depth = p.depth, p.resources
	if i.space == spaceUDP {
		i.state = stateEstablished
		i.raise(eventEstablished, 0, p)
		return
	}
	i.state = stateAnswered
	i.mine.resources, i.mine.depth = p.resources, p.depth
	i.raise(eventConnectResponse, 0, p)
}

// established takes note that the active side is ready.
func (m *Manager) established(i *ident) {
	delete(m.waits, i)
	i.state = stateEstablished
	i.raise(eventEstablished, 0, param{})
}

// rejected takes a rejection.
func (m *Manager) rejected(i *ident, x *message) {
	switch i.state {
	case stateConnecting, stateRequested, stateAccepted:
	default:
		return
	}
	delete(m.waits, i)
	i.state = stateEnded
	if i.space == spaceUDP {
		i.raise(eventUnreachable, int32(x.reason), param{private: x.param.private})
		return
	}
	i.raise(eventRejected, int32(x.reason), param{private: x.param.private})
}
