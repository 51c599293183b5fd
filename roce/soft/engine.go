package soft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// Errors of this package.
var (
	ErrConfig = errors.New("endpoint: bad configuration")
	ErrRegion = errors.New("endpoint: bad memory region")
)

// Handler receives an [Engine]'s events, in the engine's goroutine. It may call the engine's Write, Relabel, Register
// and Deregister.
type Handler interface {
	// Acked, Done and Timeout are as in [transport.Handler].
	Acked(now fabric.Time, qp transport.QP, bytes int64)
	Done(now fabric.Time, qp transport.QP)
	Timeout(now fabric.Time, qp transport.QP)
	// Failed reports that the receiver refused the queue pair's message. The
	// queue pair is closed.
	Failed(now fabric.Time, qp transport.QP, s frame.Syndrome)
	// Written reports that an RDMA WRITE of n bytes from host src is complete. address is the offset in the memory
	// region registered under key.
	Written(now fabric.Time, src fabric.NodeID, key uint32, address uint64, n int64)
	// Quench reports a switch's source quench or notice.
	Quench(now fabric.Time, q frame.Quench)
}

// Config sets up an [Engine].
type Config struct {
	// NIC sets up the transport endpoint; its Place must be nil.
	NIC transport.Config
	// Place takes the payload of WRITEs whose key is not registered, and says whether it was placed. nil: such WRITEs
	// are refused.
	Place func(now fabric.Time, p *transport.Placement, payload []byte) transport.Placing
	// Random returns random numbers that no other host can guess. If it is set, the engine agrees on a session with
	// each host to which it sends: see [transport.Endpoint.SetSession]. nil: all packets have NIC.PKey and start at
	// NIC.InitialPSN.
	Random func() uint64
	// Nonce is a secret number that all hosts have in common. If it is not 0, sessions with all hosts exist from the
	// start, and are replaced when a host's process restarts.
	Nonce uint64
}

// Stats counts what an [Engine] has done since it was made.
type Stats struct {
	transport.Stats
	FramesOut, BytesOut uint64 // RoCEv2 frames sent, and their bytes
	FramesIn, BytesIn   uint64 // RoCEv2 frames that were accepted, and their bytes
	BadICRC             uint64
	BadFrame            uint64 // malformed frames to the UDP port of RoCEv2 or quenches
	NotForUs            uint64 // addressed to another host
	BadQuench           uint64
	NoRegion            uint64 // WRITEs outside registered memory
}

// Engine is a RoCEv2 endpoint that sends and receives whole frames, with payload: a transport endpoint, registered
// memory and ICRC. See the package comment.
type Engine struct {
	ep        *transport.Endpoint
	sessions  *sessions // nil: none
	handler   Handler
	mtu       int
	addr      netip.Addr
	ipv6      bool
	labelSpan fabric.Label
	flow      bool

	sources         map[transport.QP]outgoingPacket // of open queue pairs
	placeForeign    func(now fabric.Time, p *transport.Placement, payload []byte) transport.Placing
	regions         map[uint32][]byte
	raw             frame.Frame         // in the hands of the endpoint
	last            transport.Placement // placed last
	stats           Stats
	byLabel         []uint64 // data frames' bytes out, by label
	unlabelledBytes uint64   // those whose label names no path
	toHost          []uint64 // payload since it was taken last, by destination
}

// outgoingPacket is what an open queue pair sends.
type outgoingPacket struct {
	from Source
	dst  fabric.NodeID
}

// New returns an engine without registered memory, or the error in c.
func New(c Config, h Handler) (*Engine, error) {
	if c.NIC.Place != nil {
		return nil, fmt.Errorf("%w: NIC.Place is the engine's own; leave it nil", ErrConfig)
	}
	e := &Engine{
		handler: h, mtu: c.NIC.MTU, ipv6: c.NIC.IPv6, flow: c.NIC.FlowLabel,
		placeForeign: c.Place, sources: map[transport.QP]outgoingPacket{}, regions: map[uint32][]byte{},
	}
	if e.mtu == 0 {
		e.mtu = transport.DefaultMTU
	}
	c.NIC.Place = e.place
	var err error
	if c.Random != nil {
		e.sessions = &sessions{random: c.Random, commonNonce: c.Nonce}
		c.NIC.Connect, c.NIC.Stale = e.sessions.connect, e.sessions.sessionStale
	}
	if e.ep, err = transport.New(c.NIC, (*events)(e)); err != nil {
		return nil, err
	}
	if e.sessions != nil {
		e.sessions.fillConfig(e.ep, &c.NIC)
	}
	e.addr = c.NIC.Fabric.HostAddr4(c.NIC.Host)
	if e.ipv6 {
		e.addr = c.NIC.Fabric.HostAddr6(c.NIC.Host)
	}
	e.labelSpan = c.NIC.Fabric.LabelSpan()
	e.byLabel, e.toHost = make([]uint64, e.labelSpan), make([]uint64, c.NIC.Fabric.Hosts())
	return e, nil
}

// MaxFrame returns the size in bytes of the longest frame.
func (e *Engine) MaxFrame() int { return transport.MaxHeader + e.mtu + 3 + frame.ICRCSize }

// Stats returns the counts so far.
func (e *Engine) Stats() Stats {
	s := e.stats
	quenches := s.Quenches
	s.Stats = e.ep.Stats()
	s.Quenches = quenches
	return s
}

// LabelBytes returns the bytes of data frames sent so far: by path label, and of those whose label names no path. The
// slice belongs to the engine.
func (e *Engine) LabelBytes() (byLabel []uint64, other uint64) { return e.byLabel, e.unlabelledBytes }

// TakeSent returns the bytes of payload sent to each host since the last call, retransmissions included.
func (e *Engine) TakeSent() []uint64 {
	sent := slices.Clone(e.toHost)
	clear(e.toHost)
	return sent
}

// Message is an RDMA WRITE that [Engine.Write] sends on a queue pair of its own.
type Message struct {
	QP   transport.QP
	ID   uint64 // of the message that this WRITE is a part of; parts are sent side by side
	Dst  fabric.NodeID
	Data []byte // the payload; the engine uses it until the queue pair is done. Empty for a probe.
	// From, if not nil, supplies the payload in place of Data; it has Bytes bytes.
	From  Source
	Bytes int64
	Label fabric.Label
	Start fabric.Time
	// Key and Address are where the WRITE goes: the key of a memory region of the receiver, and an address in it.
	Key      uint32
	Address  uint64
	Balanced bool   // Config.Balancer chooses the label of each data packet; as in [transport.Message]
	Once     bool   // every packet is sent only once; as in [transport.Message]
	Share    uint16 // number of the owner, for turn-taking; as in [transport.Message]
}

// Source supplies the payload of a message that is not in this process's memory.
type Source interface {
	// Read fills b with the payload from byte off on. If it returns an error, the engine closes the queue pair and
	// reports nothing to its [Handler].
	Read(b []byte, off int64) error
}

// inMemory is the bytes of [Message].Data.
type inMemory []byte

func (m inMemory) Read(b []byte, off int64) error {
	copy(b, m[off:])
	return nil
}

// Write opens a queue pair that sends an RDMA WRITE into the receiver's memory.
func (e *Engine) Write(now fabric.Time, m Message) error {
	if m.From == nil {
		m.From, m.Bytes = inMemory(m.Data), int64(len(m.Data))
	}
	err := e.ep.Open(now, transport.Message{
		QP: m.QP, ID: m.ID, RKey: m.Key, Address: m.Address, Dst: m.Dst, Bytes: m.Bytes,
		Label: m.Label, Start: m.Start, Balanced: m.Balanced, Once: m.Once, Share: m.Share,
	})
	if err == nil {
		e.sources[m.QP] = outgoingPacket{m.From, m.Dst}
	}
	return err
}

// Close ends a queue pair whose message is no longer needed. An unknown queue pair is ignored.
func (e *Engine) Close(qp transport.QP) {
	if e.ep.Close(qp) == nil {
		delete(e.sources, qp)
	}
}

// Relabel moves an open queue pair to another path; see [transport.Endpoint.Relabel].
func (e *Engine) Relabel(qp transport.QP, l fabric.Label) error { return e.ep.Relabel(qp, l) }

// Resend makes an open queue pair retransmit its packets in flight; see
// [transport.Endpoint.Resend].
func (e *Engine) Resend(qp transport.QP) error { return e.ep.Resend(qp) }

// Restart makes an open queue pair continue as a new one; see [transport.Endpoint.Restart].
func (e *Engine) Restart(qp transport.QP) error { return e.ep.Restart(qp) }

// Ask sends a path probe; see [transport.Endpoint.Ask].
func (e *Engine) Ask(dst fabric.NodeID, l fabric.Label, question uint32) error {
	return e.ep.Ask(dst, l, question)
}

// Hold makes an open queue pair send nothing before a time; see
// [transport.Endpoint.Hold].
func (e *Engine) Hold(qp transport.QP, until fabric.Time) error { return e.ep.Hold(qp, until) }

// Register lets other hosts write to buf under a key. The error wraps [ErrRegion].
func (e *Engine) Register(key uint32, buf []byte) error {
	if _, taken := e.regions[key]; taken {
		return fmt.Errorf("%w: key %#x is in use", ErrRegion, key)
	}
	e.regions[key] = buf
	return nil
}

// Deregister ends what [Engine.Register] began: later WRITEs with the key are refused. An unknown key is ignored.
func (e *Engine) Deregister(key uint32) { delete(e.regions, key) }

// Connected reports whether packets to a host can be sent at once; otherwise they wait until the host has answered and
// there is a session.
func (e *Engine) Connected(dst fabric.NodeID) bool { return e.ep.Connected(dst) }

// NextWake returns when to call [Engine.Next] again if no other call comes before, as [transport.Endpoint.NextWake]
// does.
func (e *Engine) NextWake() (at fabric.Time, ok bool) {
	at, ok = e.ep.NextWake()
	switch s := e.sessions; {
	case s == nil:
	case len(s.out) > 0:
		return 0, true
	case s.next != never && (!ok || s.next < at):
		return s.next, true
	}
	return at, ok
}

// Sent describes a frame that [Engine.Next] wrote.
type Sent struct {
	Len     int
	Control bool // ACK, NAK or CNP
	QP      transport.QP
}

// Next writes the frame to send now into buf, which holds [Engine.MaxFrame] bytes. ok is false if there is nothing to
// send now; ask again at [Engine.NextWake].
func (e *Engine) Next(now fabric.Time, buf []byte) (s Sent, ok bool) {
	if e.sessions != nil {
		e.sessions.repeatUnanswered(now)
		if n, ok := e.sessions.nextFrame(buf); ok {
			e.stats.FramesOut++
			e.stats.BytesOut += uint64(n)
			return Sent{Len: n, Control: true}, true
		}
	}
	var f transport.Frame
	var raw frame.Frame
	for {
		if f, ok = e.ep.Next(now, buf); !ok {
			return Sent{}, false
		}
		var err error
		if raw, err = frame.Parse(buf[:f.Len+f.Tail]); err != nil {
			panic(fmt.Sprintf("endpoint: the endpoint's own frame: %v", err)) // a test would have seen it
		}
		payload := raw.Payload()
		clear(buf[f.Len+len(payload) : f.Len+f.Tail])
		if len(payload) == 0 {
			break
		}
		o := e.sources[f.QP]
		if o.from.Read(payload, int64(f.Packet)*int64(e.mtu)) == nil {
			e.toHost[o.dst] += uint64(len(payload))
			break
		}
		e.Close(f.QP)
	}
	n := f.Len + f.Tail
	raw.SetICRC()
	e.stats.FramesOut++
	e.stats.BytesOut += uint64(n)
	if !f.Control {
		if l, ok := e.labelOf(&raw); ok {
			e.byLabel[l] += uint64(n)
		} else {
			e.unlabelledBytes += uint64(n)
		}
	}
	return Sent{Len: n, Control: f.Control, QP: f.QP}, true
}

func (e *Engine) labelOf(f *frame.Frame) (fabric.Label, bool) {
	l, ok := frame.LabelOfSourcePort(f.SourcePort())
	if e.flow {
		l, ok = frame.LabelOfFlowLabel(f.FlowLabel())
	}
	return l, ok && l < e.labelSpan
}

// Receive processes an Ethernet frame from the wire. The engine may change its bytes during the call, and does not keep
// them.
func (e *Engine) Receive(now fabric.Time, raw []byte) {
	f, err := frame.Parse(raw)
	switch {
	case errors.Is(err, frame.ErrMalformed):
		e.stats.BadFrame++
		return
	case err != nil:
		e.receiveOther(now, raw)
		return
	case f.Destination() != e.addr:
		e.stats.NotForUs++
		return
	}
	if err := f.VerifyICRC(); err != nil {
		e.stats.BadICRC++
		return
	}
	e.stats.FramesIn++
	e.stats.BytesIn += uint64(f.Len())
	if e.sessions != nil && e.sessions.takeFrame(now, &f) {
		return
	}
	e.raw = f
	head := f.HeaderLen()
	if f.BTH().Opcode() == frame.CNP {
		// Its reserved bytes are header to the endpoint.
		head = f.Len() - frame.ICRCSize
	}
	e.ep.Receive(now, raw[:head], f.Len()-head)
}

// receiveOther takes a frame that is not RoCEv2: a quench, or nothing of ours.
func (e *Engine) receiveOther(now fabric.Time, raw []byte) {
	payload, src, dst, ok := quenchPayload(raw, e.ipv6)
	if notice, all := frame.NoticePayload(raw); all {
		payload, src, dst, ok = notice, netip.IPv4Unspecified(), e.addr, true
	}
	switch {
	case !ok:
		e.ep.Receive(now, nil, 0) // counts it as foreign
	case dst != e.addr:
		e.stats.NotForUs++
	default:
		q, err := frame.ParseQuench(payload, src)
		if err != nil {
			e.stats.BadQuench++
			return
		}
		e.stats.Quenches++
		e.handler.Quench(now, q)
	}
}

// place copies the payload of the frame in hand to where it belongs.
func (e *Engine) place(now fabric.Time, p *transport.Placement) transport.Placing {
	payload := e.raw.Payload()
	if len(payload) != p.Payload {
		return transport.Refused
	}
	region, ok := e.regions[p.RKey]
	if !ok && e.placeForeign != nil {
		e.last = *p
		return e.placeForeign(now, p, payload)
	}
	end := p.Address + uint64(p.Length)
	if !ok || end < p.Address || end > uint64(len(region)) {
		e.stats.NoRegion++
		return transport.Refused
	}
	copy(region[p.Address+uint64(p.Offset):], payload)
	e.last = *p
	return transport.Placed
}

// quenchPayload finds the payload of a source quench in a frame whose headers
// agree with each other. Its UDP checksum is not looked at: switches send none.
func quenchPayload(b []byte, ipv6 bool) (payload []byte, src, dst netip.Addr, ok bool) {
	const ether, udp = 14, 8
	ip := 20
	if ipv6 {
		ip = 40
	}
	if len(b) < ether+ip+udp+frame.QuenchSize {
		return nil, src, dst, false
	}
	h, n := b[ether:], 0
	if ipv6 {
		if binary.BigEndian.Uint16(b[12:]) != 0x86dd || h[0]>>4 != 6 || h[6] != 17 {
			return nil, src, dst, false
		}
		n = int(binary.BigEndian.Uint16(h[4:]))
		src, dst = netip.AddrFrom16([16]byte(h[8:])), netip.AddrFrom16([16]byte(h[24:]))
	} else {
		if binary.BigEndian.Uint16(b[12:]) != 0x0800 || h[0] != 0x45 || h[9] != 17 || binary.BigEndian.Uint16(h[6:])&0x3fff != 0 {
			return nil, src, dst, false
		}
		n = int(binary.BigEndian.Uint16(h[2:])) - ip
		src, dst = netip.AddrFrom4([4]byte(h[12:])), netip.AddrFrom4([4]byte(h[16:]))
	}
	u := h[ip:]
	if binary.BigEndian.Uint16(u[2:]) != frame.QuenchPort || n < udp || n > len(u) || int(binary.BigEndian.Uint16(u[4:])) != n {
		return nil, src, dst, false
	}
	return u[udp:n], src, dst, !src.IsUnspecified() // only notices come from nowhere
}
