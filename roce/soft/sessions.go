package soft

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// Two hosts' processes agree on a session by datagrams to queue pair 1, as RoCE's connection manager agrees on numbers
// and first PSNs. A session follows from two random nonces, one of each process. So a process that began anew has
// another session, and a host that sees none of the datagrams cannot know it.
//
// A message has its sender's nonce, and the receiver's as far as the sender knows it. A new nonce is believed only in a
// message with the nonce that the receiver keeps for its next session: the sender receives what is sent to its address,
// and has not sent the message before the receiver's last session. So forged and late messages change nothing. They
// are answered, if they ask for that, by a message of the same length.
//
//	h0: ask, mine a
//	h1: mine b, yours a
//	h0: ask, mine a, yours b, stored    h0 has the session
//	h1: mine b, yours a, stored         h1 has it, and h0 knows that
type sessions struct {
	ep          *transport.Endpoint
	cfg         *transport.Config
	random      func() uint64
	commonNonce uint64 // a nonce that all hosts have; 0: none
	labelSpan   fabric.Label
	peers       map[fabric.NodeID]*sessionPeer
	out         []sessionFrame // to be sent
	next        fabric.Time    // when something is due; never: nothing
}

// sessionPeer is what is known of another host's process.
type sessionPeer struct {
	mine, theirs uint64 // nonces of the session; 0: there is none
	next         uint64 // this process's nonce of the next one
	stored       bool   // the partner has the session, too
	wanted       bool   // something waits for the session
	askedAt      fabric.Time
	tries        int
}

// sessionFrame is a message to be sent.
type sessionFrame struct {
	dst   fabric.NodeID
	label fabric.Label
	sessionMessage
}

// sessionMessage is the payload of a datagram.
type sessionMessage struct {
	ask         bool // it wants an answer
	stored      bool // its sender has the session of these nonces
	mine, yours uint64
}

const (
	sessionQP    = 1 // the number that InfiniBand reserves for connection management
	sessionMagic = 0x45746853
	sessionSize  = 24
	udSendOnly   = frame.Opcode(0x64)

	flagAsk    = 1
	flagStored = 2
)

func (m *sessionMessage) encode(b []byte) {
	flags := uint32(0)
	if m.ask {
		flags |= flagAsk
	}
	if m.stored {
		flags |= flagStored
	}
	binary.BigEndian.PutUint32(b, sessionMagic)
	binary.BigEndian.PutUint32(b[4:], flags)
	binary.BigEndian.PutUint64(b[8:], m.mine)
	binary.BigEndian.PutUint64(b[16:], m.yours)
}

func parseSession(b []byte) (m sessionMessage, ok bool) {
	if len(b) != sessionSize || binary.BigEndian.Uint32(b) != sessionMagic {
		return m, false
	}
	flags := binary.BigEndian.Uint32(b[4:])
	m = sessionMessage{
		ask: flags&flagAsk != 0, stored: flags&flagStored != 0, mine: binary.BigEndian.Uint64(b[8:]), yours: binary.BigEndian.Uint64(b[16:]),
	}
	return m, m.mine != 0
}

// How often a peer is asked: at once, then after firstRetryWait, then after twice as long, up to maxRetryWait.
const (
	firstRetryWait = 10 * fabric.Millisecond
	maxRetryWait   = 160 * fabric.Millisecond
	// staleRetryWait is the least time between questions that stale packets cause.
	staleRetryWait = 10 * fabric.Millisecond

	maxSessionFrames = 256 // maximum number of session frames that wait to be sent

	never = fabric.Time(1<<63 - 1)
)

// fillConfig prepares the sessions with all hosts. With a shared nonce there are sessions with all that have it.
func (s *sessions) fillConfig(ep *transport.Endpoint, c *transport.Config) {
	s.ep, s.cfg, s.labelSpan, s.peers, s.next = ep, c, c.Fabric.LabelSpan(), map[fabric.NodeID]*sessionPeer{}, never
	if s.commonNonce == 0 {
		return
	}
	for h := range fabric.NodeID(c.Fabric.Hosts()) {
		if h != c.Host {
			ep.SetSession(0, h, sessionOf(s.commonNonce, s.commonNonce), true)
		}
	}
}

// sessionOf returns the session of two nonces, the lower host's first.
func sessionOf(low, high uint64) transport.Session {
	var b [24]byte
	copy(b[:], "ethereal")
	binary.BigEndian.PutUint64(b[8:], low)
	binary.BigEndian.PutUint64(b[16:], high)
	h := sha256.Sum256(b[:])
	// The partition has the bit of full membership, and is not the default one, that of the datagrams.
	return transport.Session{PKey: 0x8000 | binary.BigEndian.Uint16(h[8:])%0x7fff, Key: binary.BigEndian.Uint64(h[:])}
}

func (s *sessions) partner(h fabric.NodeID) *sessionPeer {
	p := s.peers[h]
	if p == nil {
		p = &sessionPeer{mine: s.commonNonce, theirs: s.commonNonce, stored: s.commonNonce != 0, askedAt: fabric.LongAgo}
		s.drawNumbers(p)
		s.peers[h] = p
	}
	return p
}

// drawNumbers draws the nonce of the next session.
func (s *sessions) drawNumbers(p *sessionPeer) {
	for p.next = 0; p.next == 0 || p.next == s.commonNonce; {
		p.next = s.random()
	}
}

// connect is called when something waits for a session.
func (s *sessions) connect(now fabric.Time, h fabric.NodeID) {
	if p := s.partner(h); !p.wanted {
		p.wanted, p.tries = true, 0
		s.sendRequest(now, h, p)
	}
}

// sessionStale is called for a packet that is not of its sender's session: it, or this process, may have begun anew.
// Late packets of a former run are not a reason to ask.
func (s *sessions) sessionStale(now fabric.Time, h fabric.NodeID) {
	if s.commonNonce != 0 {
		return
	}
	if p := s.partner(h); now-p.askedAt >= staleRetryWait {
		s.sendRequest(now, h, p)
	}
}

// sendRequest asks a host whether it has the session, or for its nonce, each time on another path.
func (s *sessions) sendRequest(now fabric.Time, h fabric.NodeID, p *sessionPeer) {
	p.askedAt = now
	label := fabric.Label((uint64(h) + uint64(p.tries)) % uint64(max(1, s.labelSpan)))
	m := sessionMessage{ask: true, stored: p.theirs != 0, mine: p.mine, yours: p.theirs}
	if !m.stored {
		m.mine = p.next
	}
	s.queueFrame(sessionFrame{h, label, m})
	if p.wanted {
		s.next = min(s.next, s.retryAfter(p))
		p.tries++
	}
}

// retryAfter returns when a host is asked again.
func (s *sessions) retryAfter(p *sessionPeer) fabric.Time {
	return p.askedAt + min(firstRetryWait<<min(p.tries, 8), maxRetryWait)
}

func (s *sessions) queueFrame(f sessionFrame) {
	if len(s.out) < maxSessionFrames {
		s.out = append(s.out, f)
	}
}

// receive processes a session message.
func (s *sessions) receive(now fabric.Time, src fabric.NodeID, label fabric.Label, m sessionMessage) {
	p := s.partner(src)
	known := p.theirs == m.mine
	believed := known && m.yours == p.mine
	switch {
	case believed:
		p.stored = p.stored || m.stored
	case !known && m.yours == p.next: // of a process that began anew, or has lost the session
		believed = true
		p.mine, p.theirs, p.stored = p.next, m.mine, m.stored
		s.drawNumbers(p)
	}
	if believed {
		low, high := p.mine, p.theirs
		if src < s.cfg.Host {
			low, high = high, low
		}
		p.wanted = p.wanted && !p.stored
		s.ep.SetSession(now, src, sessionOf(low, high), p.stored)
	}
	answer := sessionMessage{stored: p.theirs == m.mine, mine: p.mine, yours: m.mine}
	if !answer.stored {
		answer.mine = p.next
	}
	switch {
	case m.ask:
		s.queueFrame(sessionFrame{src, label, answer})
	case believed && !p.stored:
		s.sendRequest(now, src, p)
	case !known && !believed && p.mine != 0 && m.yours == p.mine: // it answers, but does not have the session
		answer.ask = true
		s.queueFrame(sessionFrame{src, label, answer})
	}
}

// repeatUnanswered repeats session requests that were not answered.
func (s *sessions) repeatUnanswered(now fabric.Time) {
	if now < s.next {
		return
	}
	s.next = never
	for _, h := range slices.Sorted(maps.Keys(s.peers)) {
		p := s.peers[h]
		if !p.wanted {
			continue
		}
		if at := s.retryAfter(p); at > now {
			s.next = min(s.next, at)
			continue
		}
		s.sendRequest(now, h, p)
	}
}

// nextFrame writes the first message that waits into buf.
func (s *sessions) nextFrame(buf []byte) (n int, ok bool) {
	if len(s.out) == 0 {
		return 0, false
	}
	m := s.out[0]
	s.out = s.out[1:]
	c, f := s.cfg, s.cfg.Fabric
	h := frame.Stack{
		DstMAC: f.MAC(f.ToROf(c.Host)), SrcMAC: f.MAC(c.Host), Src: f.HostAddr4(c.Host), Dst: f.HostAddr4(m.dst),
		TTL: 64, SourcePort: frame.SourcePort(m.label), PayloadLen: sessionSize,
		BTH: frame.BTHFields{Opcode: udSendOnly, PKey: frame.DefaultPKey, DestQP: sessionQP},
	}
	if c.IPv6 {
		h.Src, h.Dst = f.HostAddr6(c.Host), f.HostAddr6(m.dst)
	}
	if c.FlowLabel {
		h.FlowLabel = frame.FlowLabel(m.label)
	}
	k, err := h.Encode(buf)
	if err != nil {
		panic(fmt.Sprintf("endpoint: the headers of a session's datagram: %v", err)) // a test would have seen it
	}
	n = k + sessionSize + frame.ICRCSize
	m.encode(buf[k:n])
	frame, err := frame.Parse(buf[:n])
	if err != nil {
		panic(fmt.Sprintf("endpoint: a session's datagram: %v", err)) // a test would have seen it
	}
	frame.SetICRC()
	return n, true
}

// takeFrame takes a frame if it is a session's datagram.
func (s *sessions) takeFrame(now fabric.Time, f *frame.Frame) bool {
	if b := f.BTH(); b.Opcode() != udSendOnly || b.DestQP() != sessionQP || b.PKey() != frame.DefaultPKey {
		return false
	}
	m, ok := parseSession(f.Payload())
	src, known := s.cfg.Fabric.HostByAddr(f.Source())
	if ok && known && src != s.cfg.Host {
		label, _ := frame.LabelOfSourcePort(f.SourcePort())
		if s.cfg.FlowLabel {
			label, _ = frame.LabelOfFlowLabel(f.FlowLabel())
		}
		s.receive(now, src, label, m)
	}
	return true
}
