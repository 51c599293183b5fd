//go:build linux

package device

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/loglimit"
	"github.com/ethereal-fabric/ethereal/roce/device/cm"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/soft"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// Host is the interface of the host process, which has the RoCEv2 endpoint and the agent, to a [NIC].
type Host interface {
	// PostFlow has the agent split a flow of that many bytes into pieces. The agent opens a queue pair for each piece,
	// and calls [NIC.Open] for it.
	PostFlow(now fabric.Time, flow uint64, dst fabric.NodeID, bytes int64)
	// CloseFlow closes a queue pair that PostFlow opened.
	CloseFlow(now fabric.Time, qp transport.QP)
	// Connected reports whether bytes to a host can be sent now; otherwise the host has not answered yet.
	Connected(dst fabric.NodeID) bool
}

// Config sets up a [NIC].
type Config struct {
	Fabric  *fabric.Fabric
	Host    fabric.NodeID
	Payload int // bytes of payload in a full packet
	// Interface is the network interface whose link state the RDMA port shows; "": the port is always active.
	Interface string
	Log       *slog.Logger
}

// NIC is a host's RDMA device in software: the queue pairs and registered memory of its programs. It is not safe for
// concurrent use.
type NIC struct {
	cfg  Config
	host Host
	addr uint32 // IPv4
	down bool   // the port is

	clients map[*client]struct{}
	qps     map[uint32]*queuePair
	regions map[uint32]*memoryRegion
	windows map[uint32]*memoryWindow // by index
	flows   map[uint64]*flow
	lastID  uint64
	// lastHandle is the number of the newest object of any program.
	lastHandle uint32
	pools      sharePools
	accessed   accessResult
	postponed  []*piece // see postpone
	pieces     map[transport.QP]*piece
	grams      map[gramKey][]byte // datagrams of which the end is missing

	dirty     []*queuePair // see touch
	waiting   map[*queuePair]struct{}
	checkAt   fabric.Time                // when queue pairs are checked next
	checked   fabric.Time                // when they were checked last; never: not since one waits
	local     []*flow                    // to this host itself
	copied    []byte                     // of them, a part at a time
	sending   []*flow                    // datagrams, some of which have arrived meanwhile
	lingering map[*outStream]fabric.Time // answers of queue pairs that are gone, and until when they are sent
	stages    []*stagedBytes             // free ones

	manager       *cm.Manager
	truncationLog *loglimit.Limiter // of what other hosts send
	refusalLog    *loglimit.Limiter // of programs that are refused
}

// maxStages bounds what is kept of streams out of turn: 256 MiB.
const maxStages = 256

// checkInterval is the period of checks of queue pairs that wait for the other side.
const checkInterval = 10 * fabric.Millisecond

const never = fabric.Time(1<<63 - 1)

// New returns a NIC without programs. Call [NIC.Serve] next.
func New(c Config, h Host) *NIC {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	a := c.Fabric.HostAddr4(c.Host).As4()
	n := &NIC{
		cfg: c, host: h, addr: uint32(a[0])<<24 | uint32(a[1])<<16 | uint32(a[2])<<8 | uint32(a[3]),
		clients: map[*client]struct{}{}, qps: map[uint32]*queuePair{}, regions: map[uint32]*memoryRegion{}, windows: map[uint32]*memoryWindow{}, flows: map[uint64]*flow{},
		copied: make([]byte, 64<<10), pieces: map[transport.QP]*piece{}, grams: map[gramKey][]byte{}, waiting: map[*queuePair]struct{}{},
		lingering: map[*outStream]fabric.Time{}, pools: newPools(), truncationLog: loglimit.New(c.Log, time.Second),
		refusalLog: loglimit.New(c.Log, time.Second),
	}
	n.accessed.wake = -1
	n.manager = cm.New(cm.Config{Fabric: c.Fabric, Host: c.Host, GUID: n.guid(), MTU: mtu(c.Payload), Send: n.sendMessage})
	return n
}

// Reset fails all queue pairs with IBV_WC_RETRY_EXC_ERR, because the host's endpoint has restarted.
func (n *NIC) Reset(now fabric.Time) {
	lost := n.sending
	n.local, n.sending = nil, nil
	for _, f := range lost {
		if n.flows[f.id] == f {
			n.flowLost(now, f)
		}
	}
	clear(n.flows)
	for c := range n.clients {
		c.accesses.kept = 0
	}
	clear(n.pieces)
	clear(n.lingering)
	for _, q := range n.qps {
		q.failWith(now, retryExcErr)
	}
}

// Open describes the piece of a flow that a new queue pair of the endpoint carries, bytes from offset off on: where its
// data are, the receiver's key and address, and the program whose share of the link it uses. ok is false if the flow is
// no longer needed.
func (n *NIC) Open(qp transport.QP, id uint64, off, bytes int64) (m soft.Message, ok bool) {
	f := n.flows[id]
	if f == nil {
		return m, false
	}
	p := &piece{qp: qp, f: f, off: off, n: bytes}
	n.pieces[qp] = p
	m = soft.Message{From: p, Key: f.s.key, Address: f.span.at + uint64(off)}
	if f.s.q != nil {
		m.Share = f.s.q.c.share
	}
	return m, true
}

// shareOf returns the share of a process: one for all its connections, from 1 on. Where the process is not known, pid
// 0, each connection has its own.
func (n *NIC) shareOf(pid int32) uint16 {
	var used [maxClients + 2]bool
	for c := range n.clients {
		if pid != 0 && c.pid == pid {
			return c.share
		}
		used[c.share] = true
	}
	share := uint16(1)
	for used[share] {
		share++
	}
	return share
}

// Acked processes the endpoint's report that payload bytes of a queue pair are acknowledged.
func (n *NIC) Acked(now fabric.Time, qp transport.QP) {
	if p := n.pieces[qp]; p != nil {
		p.f.s.lastAckedAt = now
	}
}

// Done processes the endpoint's report that all bytes of a queue pair are acknowledged.
func (n *NIC) Done(now fabric.Time, qp transport.QP) {
	p := n.pieces[qp]
	if p == nil {
		return
	}
	delete(n.pieces, qp)
	n.flowArrived(now, p.f, p.n)
}

// flowArrived records that bytes of a flow are acknowledged.
func (n *NIC) flowArrived(now fabric.Time, f *flow, bytes int64) {
	if f.left -= bytes; f.left == 0 {
		if f.gram != nil && n.flows[f.id] == f {
			f.gram.over(now, true)
		}
		n.dropFlow(f)
	}
	if f.probe {
		f.s.probing = false
	}
	if f.of != nil {
		f.of.left -= bytes
		if f.of.left == 0 {
			n.dropFlow(f.of)
		}
	}
	f.s.retryWait = 0
	f.s.acknowledge(now)
	n.touchQueuePair(f.s.q)
}

// repostStream sends refused bytes again, in as few pieces as possible.
func (n *NIC) repostStream(now fabric.Time, s *outStream) {
	again := s.refused
	s.refused = nil
	slices.SortFunc(again, func(a, b repeatedRequest) int { return int(int64(a.span.at-s.base) - int64(b.span.at-s.base)) })
	for i := 0; i < len(again); {
		r := again[i]
		for i++; i < len(again) && again[i].of == r.of && again[i].span.at == r.span.at+uint64(r.span.n); i++ {
			r.span.n += again[i].span.n
		}
		n.postFlow(now, &flow{s: s, span: r.span, left: r.span.n, of: r.of})
	}
}

// Refused processes a NAK: the receiver has no such queue pair, or the queue pair is not ready or has no room. The NIC
// posts the bytes again after a pause. After an invalid request it fails the queue pair instead.
func (n *NIC) Refused(now fabric.Time, qp transport.QP, s frame.Syndrome) {
	p := n.pieces[qp]
	if p == nil {
		return
	}
	delete(n.pieces, qp)
	switch s {
	case frame.NAKRemoteOperation:
		p.f.s.lastAckedAt = now
	case frame.NAKInvalidRequest:
		n.pieceEnded(now, p)
		return
	}
	n.pieceRefused(now, p)
}

// pieceEnded processes the failure of the peer's queue pair: requests fail at once, since no time-out would help.
func (n *NIC) pieceEnded(now fabric.Time, p *piece) {
	if q := p.f.s.q; q != nil && p.f.s == &q.requests && !p.f.probe {
		q.failWith(now, remOpErr)
		return
	}
	n.pieceRefused(now, p)
}

// What was refused is tried again after refuseMinWait, then after twice as long, up to
// refuseMaxWait, until something is taken.
const (
	refuseMinWait = 5 * fabric.Millisecond
	refuseMaxWait = 80 * fabric.Millisecond
)

func (n *NIC) pieceRefused(now fabric.Time, p *piece) {
	f, s := p.f, p.f.s
	switch {
	case f.gram != nil:
		if n.flows[f.id] == f {
			n.flowLost(now, f) // as datagrams are
		}
		return
	case s.q == nil: // neither side has the queue pair any more
		n.closeStream(now, s)
		return
	}
	r := repeatedRequest{byteSpan{f.span.at + uint64(p.off), p.n}, f}
	switch {
	case f.probe:
		s.probing = false
		return
	case f.of != nil:
		r.of = f.of
		if f.left -= p.n; f.left == 0 {
			n.dropFlow(f)
		}
	}
	if len(s.refused) == 0 {
		s.retryWait = min(max(2*s.retryWait, refuseMinWait), refuseMaxWait)
	}
	s.refused = append(s.refused, r)
	s.againAt = now + s.retryWait
	n.waitForSession(s.q)
}

// touchQueuePair schedules work on a queue pair, for this or the next Tick.
func (n *NIC) touchQueuePair(q *queuePair) {
	if q != nil && !q.touched {
		q.touched = true
		n.dirty = append(n.dirty, q)
	}
}

// waitForSession makes Tick check a queue pair every checkInterval.
func (n *NIC) waitForSession(q *queuePair) {
	if q == nil {
		return
	}
	if len(n.waiting) == 0 {
		n.checkAt, n.checked = 0, never
	}
	n.waiting[q] = struct{}{}
}

// sendStream passes a stream's bytes to the agent, up to its window.
func (n *NIC) sendStream(now fabric.Time, s *outStream) {
	for s.sent != s.next && s.sent-s.base < mapWindow {
		if s.base == s.sent {
			s.lastAckedAt = now
		}
		k := min(s.next-s.sent, maxFlow, mapWindow-(s.sent-s.base))
		f := &flow{s: s, span: byteSpan{s.sent, int64(k)}, left: int64(k)}
		s.sent += k
		s.flows = append(s.flows, f)
		n.postFlow(now, f)
	}
	if s.q != nil && s.waitsForAcks() {
		n.waitForSession(s.q)
	}
}

func (n *NIC) postFlow(now fabric.Time, f *flow) {
	n.lastID++
	f.id = n.lastID
	n.flows[f.id] = f
	if c, places := f.payloadPlaces(); c != nil && c.readsByThread(now, places) {
		c.fetchPayload(f)
		return
	}
	n.openPieces(now, f)
}

// openPieces hands a flow to the agent.
func (n *NIC) openPieces(now fabric.Time, f *flow) {
	if f.s.dst == n.cfg.Host {
		n.local = append(n.local, f)
		return
	}
	n.host.PostFlow(now, f.id, f.s.dst, f.span.n)
}

// closeStream removes a stream's flows and closes their queue pairs.
func (n *NIC) closeStream(now fabric.Time, s *outStream) {
	for qp, p := range n.pieces {
		if p.f.s == s {
			delete(n.pieces, qp)
			n.host.CloseFlow(now, qp)
		}
	}
	for _, f := range n.flows {
		if f.s == s {
			n.dropFlow(f)
		}
	}
	delete(n.lingering, s)
	s.segs, s.flows, s.refused, s.probing = nil, nil, nil, false
	s.base, s.sent = s.next, s.next
}

// carryLocalFlows does the endpoint's work for flows to this host itself.
func (n *NIC) carryLocalFlows(now fabric.Time) {
	if len(n.local) == 0 {
		return
	}
	local, b := n.local, n.copied
	n.local = nil
	for _, f := range local {
		if n.flows[f.id] != f {
			continue
		}
		if c, _ := f.payloadPlaces(); c != nil && f.data == nil && c.accessesInGoroutines() {
			c.fetchPayload(f)
			continue
		}
		p := &piece{f: f}
		for p.off < f.span.n {
			k := min(int64(len(b)), f.span.n-p.off)
			at := transport.Placement{
				Src: n.cfg.Host, QPN: uint32(f.id), RKey: f.s.key, Address: f.span.at, Length: f.span.n, Offset: p.off, Payload: int(k),
				Last: p.off+k == f.span.n,
			}
			if p.Read(b[:k], 0) != nil {
				n.touchQueuePair(f.s.q)
				break
			}
			if placed := n.Place(now, &at, b[:k]); placed != transport.Placed {
				p.n = f.span.n - p.off
				if placed == transport.Invalid {
					n.pieceEnded(now, p)
				} else {
					n.pieceRefused(now, p)
				}
				break
			}
			p.off += k
		}
		if p.off > 0 {
			n.flowArrived(now, f, p.off)
		}
	}
}

// Tick processes requests that programs have posted, and expired timers.
func (n *NIC) Tick(now fabric.Time) {
	n.continueEndedAccesses(now)
	n.repostForGoroutines(now)
	for c := range n.clients {
		c.lookAtRings(n)
	}
	n.manager.Tick(now)
	for len(n.dirty)+len(n.local) > 0 {
		dirty := n.dirty
		n.dirty = nil
		for _, q := range dirty {
			q.touched = false
			q.processRequests(now)
		}
		n.carryLocalFlows(now)
	}
	if len(n.waiting)+len(n.sending)+len(n.lingering) > 0 && now >= n.checkAt {
		n.subtractMissedTime(now, now-checkInterval-n.checked)
		n.checkAt, n.checked = now+checkInterval, now
		n.forgetDatagrams(now)
		for s, until := range n.lingering {
			if s.base == s.next || now >= until {
				n.closeStream(now, s)
			}
		}
		for q := range n.waiting {
			if !q.checkRequests(now) {
				delete(n.waiting, q)
			}
		}
	}
}

// subtractMissedTime subtracts, from the peer's silence, the time in which this process was not scheduled: answers may
// have arrived meanwhile. An RNIC is never descheduled.
func (n *NIC) subtractMissedTime(now, missed fabric.Time) {
	if missed <= 0 {
		return
	}
	for q := range n.waiting {
		for _, s := range []*outStream{&q.requests, &q.responses} {
			s.lastAckedAt = min(s.lastAckedAt+missed, now)
		}
		if q.rnrAt != 0 {
			q.rnrAt += missed
		}
	}
}

// Wake returns the time of the next [NIC.Tick]; ok is false if no timer runs. A program's next request wakes the driver
// through [Driver.Watch].
func (n *NIC) Wake() (at fabric.Time, ok bool) {
	for c := range n.clients {
		if c.doorbellRung() {
			return 0, true
		}
	}
	if len(n.dirty)+len(n.local)+len(n.postponed) > 0 || n.accessed.any.Load() {
		return 0, true
	}
	if at, ok = n.manager.Wake(); len(n.waiting)+len(n.sending)+len(n.lingering) == 0 {
		return at, ok
	}
	if !ok || n.checkAt < at {
		at = n.checkAt
	}
	return at, true
}

// newNumber draws a number that is not in use.
func newNumber[T any](used map[uint32]T, mask uint32) uint32 {
	for {
		if x := rand.Uint32() & mask; x > 1 && x != mask {
			if _, is := used[x]; !is {
				return x
			}
		}
	}
}
