package hostprocess

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/rocev2"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/balance"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/hostproto"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/soft"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Config says which host a [Rank] is.
type Config struct {
	Fabric *fabric.Fabric
	Host   fabric.NodeID
	// Origin is when the rank's clock was 0, in ns of CLOCK_MONOTONIC.
	Origin int64
	// Tell takes what happens, in the shell's goroutine. It must not block.
	Tell func(hostproto.Event)
	// Report takes the paths that timed out though nothing on them was known to be
	// dead, at a time in ns of CLOCK_MONOTONIC, in the shell's goroutine. It must
	// not block, nor keep the slice. Nil: nobody.
	Report func(failed []hostagent.Failed, at int64)
	Log    *slog.Logger
}

// Rank is one host; see the package comment.
type Rank struct {
	cfg    Config
	tell   func(hostproto.Event)
	set    hostproto.Settings
	engine *soft.Engine
	scheme balance.Host
	// perPacket is the scheme if it labels every packet, else nil.
	perPacket balance.PacketHost

	batch      []hostagent.Flow
	closeAt    fabric.Time // of the batching window; 0: none is open
	qps        map[endpoint.QP]*outbound
	probes     map[endpoint.QP]bool
	asked      []*asked // probes of controllers, by when they end
	answers    map[endpoint.QP]*asked
	nextAsked  endpoint.QP
	flipped    map[endpoint.QP]hostproto.Event // flips whose first packet is still to come
	sending    map[uint64]*outbound
	regions    map[uint32]*region
	assembling map[sendKey]*assembly
	last       *statepb.Update // the state of links as last told

	job    *collective.Job
	jobKey uint32
	jobAt  fabric.Time              // when it begins, if due
	due    bool                     // it has been told when to begin, and has not begun
	dests  map[int]map[uint64]int64 // of the job's messages: destination, ID -> place

	posted, sent, received uint64
	qpsPeak                int
}

// outbound is a message under way.
type outbound struct {
	id   uint64
	dst  fabric.NodeID
	data []byte
	key  uint32
	base int64 // its place in the receiver's region
	open int   // pieces not acknowledged
	job  bool
}

var (
	_ soft.Driven       = (*Rank)(nil)
	_ soft.Handler      = (*Rank)(nil)
	_ endpoint.Balancer = (*Rank)(nil)
)

// New returns a host with default settings.
func New(c Config) (*Rank, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	r := &Rank{cfg: c, tell: c.Tell}
	if r.tell == nil {
		r.tell = func(hostproto.Event) {}
	}
	return r, r.Configure(0, hostproto.Settings{})
}

func orDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// Configure starts the endpoint and the balancer anew. What was under way is
// forgotten. On an error all is as it was.
func (r *Rank) Configure(now fabric.Time, s hostproto.Settings) error {
	orDefault(&s.Scheme, balance.Ethereal)
	orDefault(&s.Payload, 1024)
	orDefault(&s.RTO, 50e6)
	orDefault(&s.Control, endpoint.NoControl.String())
	f := r.cfg.Fabric
	ns := func(n int64) fabric.Time { return fabric.Time(n) * fabric.Nanosecond }
	spec, err := balance.Find(s.Scheme)
	if err != nil {
		return err
	}
	balancer, err := spec.New(s.Params, balance.Config{
		Config: hostagent.Config{
			Fabric: f, Host: r.cfg.Host, Seed: s.Seed, FailedPathMemory: ns(s.FailedMemory), StartJitter: ns(s.StartJitter),
			TimeoutGrace: ns(s.TimeoutGrace), QuenchBurst: s.QuenchBurst, QuenchInterval: ns(s.QuenchSpacing),
		},
		MTU: s.Payload,
	})
	if err != nil {
		return err
	}
	congestion := slices.Index(endpoint.ControlNames(), s.Control)
	if congestion < 0 {
		return fmt.Errorf("rank: congestion control %q is unknown; use one of %v", s.Control, endpoint.ControlNames())
	}
	c := endpoint.Config{
		Fabric: f, Host: r.cfg.Host, IPv6: s.IPv6, FlowLabel: s.FlowLabel, MTU: s.Payload, LineRate: fabric.Rate(s.RateBits),
		RTO: ns(s.RTO), AckEvery: s.AckEvery, NoNudge: s.NoNudge, Control: endpoint.Control(congestion), CNPInterval: ns(s.MarkInterval),
		AckLabel: balancer.AckLabel, InitialPSN: initialPSN(s.Nonce), PKey: partition(s.Nonce),
	}
	perPacket, _ := balancer.(balance.PacketHost)
	if perPacket != nil {
		c.Balancer = r
	}
	engine, err := soft.New(soft.Config{NIC: c, MaxSend: maxAssembly}, r)
	if err != nil {
		return err
	}
	r.set, r.scheme, r.perPacket, r.engine = s, balancer, perPacket, engine
	r.regions = map[uint32]*region{}
	r.forget()
	r.posted, r.sent, r.received, r.qpsPeak = 0, 0, 0, 0
	// What a controller has said holds for the new agent, too.
	if !s.NoUpdates && r.last != nil {
		r.scheme.Update(now, r.last)
	}
	return nil
}

// partition returns the partition of a nonce: packets of an endpoint that was are
// then not taken for its successor's. It has full membership's bit, and is not the
// default one.
func partition(nonce uint64) uint16 { return 0x8000 | uint16(nonce>>20)%0x7fff }

// initialPSN returns how first sequence numbers follow from the ends of a queue
// pair and its number, another way for each nonce.
func initialPSN(nonce uint64) func(src, dst fabric.NodeID, qpn uint32) uint32 {
	return func(src, dst fabric.NodeID, qpn uint32) uint32 {
		h := nonce ^ uint64(src)<<44 ^ uint64(dst)<<24 ^ uint64(qpn)
		for range 2 { // splitmix64's finalizer
			h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
			h = (h ^ h>>27) * 0x94d049bb133111eb
		}
		return uint32(h>>40) & rocev2.Mask24
	}
}

// forget forgets jobs and messages.
func (r *Rank) forget() {
	for key := range r.regions {
		r.engine.Deregister(key)
	}
	r.batch, r.closeAt, r.job, r.due = nil, 0, nil, false
	for _, a := range r.asked { // nobody knows what became of it
		a.done(&statepb.ProbeResult{Id: a.id})
	}
	r.asked, r.answers = nil, map[endpoint.QP]*asked{}
	r.qps, r.probes, r.flipped = map[endpoint.QP]*outbound{}, map[endpoint.QP]bool{}, map[endpoint.QP]hostproto.Event{}
	r.sending, r.regions, r.assembling = map[uint64]*outbound{}, map[uint32]*region{}, map[sendKey]*assembly{}
}

// Prepare gets ready for a job: memory for what it will send here.
func (r *Rank) Prepare(j hostproto.Job) error {
	job, err := collective.New(j.Spec)
	if err != nil {
		return err
	}
	if j.Spec.Ranks > r.cfg.Fabric.Hosts() {
		return fmt.Errorf("rank: %d ranks on %d hosts", j.Spec.Ranks, r.cfg.Fabric.Hosts())
	}
	if r.job != nil && !r.job.Done(int(r.cfg.Host)) {
		return fmt.Errorf("rank: a job is under way; forget it first")
	}
	if !r.set.Send {
		slots, total, err := layout(job, int(r.cfg.Host))
		if err != nil {
			return err
		}
		if err := r.register(j.Key, &region{buf: make([]byte, total), slots: slots}); err != nil {
			return err
		}
	}
	r.job, r.jobKey, r.due, r.dests = job, j.Key, false, map[int]map[uint64]int64{}
	return nil
}

// Start says when the job that Prepare took begins.
func (r *Rank) Start(at int64) error {
	if r.job == nil {
		return fmt.Errorf("rank: no job is prepared")
	}
	r.jobAt, r.due = r.time(at), true
	return nil
}

func (r *Rank) register(key uint32, g *region) error {
	if old := r.regions[key]; old != nil {
		r.engine.Deregister(key)
	}
	if err := r.engine.Register(key, g.buf); err != nil {
		return err
	}
	r.regions[key] = g
	return nil
}

// time and stamp convert between CLOCK_MONOTONIC and the rank's clock.
func (r *Rank) time(ns int64) fabric.Time { return fabric.Time(ns-r.cfg.Origin) * fabric.Nanosecond }
func (r *Rank) stamp(t fabric.Time) int64 { return r.cfg.Origin + int64(t/fabric.Nanosecond) }

// Expect makes room for messages that are to come by WRITE.
func (r *Rank) Expect(in []hostproto.Inbound) error {
	for _, m := range in {
		if m.Bytes < 1 || m.Bytes > maxAssembly {
			return fmt.Errorf("rank: message %#x of %d bytes; use 1 to %d", m.ID, m.Bytes, maxAssembly)
		}
		g := &region{buf: make([]byte, m.Bytes), slots: []slot{{id: m.ID, bytes: m.Bytes, left: m.Bytes}}, once: true}
		if err := r.register(m.Key, g); err != nil {
			return err
		}
	}
	return nil
}

// Post sends messages, as one batch.
func (r *Rank) Post(now fabric.Time, out []hostproto.Outbound) error {
	for _, m := range out {
		if r.sending[m.ID] != nil {
			return fmt.Errorf("rank: message %#x is under way already", m.ID)
		}
		if m.Bytes < 1 || m.Bytes > maxAssembly || m.Dst < 0 || m.Dst >= r.cfg.Fabric.Hosts() || m.Dst == int(r.cfg.Host) {
			return fmt.Errorf("rank: message %#x of %d bytes to host %d cannot be sent", m.ID, m.Bytes, m.Dst)
		}
	}
	for _, m := range out {
		r.post(now, &outbound{id: m.ID, dst: fabric.NodeID(m.Dst), key: m.Key}, m.Bytes)
	}
	r.act(now)
	return nil
}

// post takes a message into the batching window.
func (r *Rank) post(now fabric.Time, o *outbound, bytes int64) {
	o.data = make([]byte, bytes)
	fill(o.data, r.set.Seed^r.posted<<40, o.id)
	r.sending[o.id] = o
	r.posted++
	r.tell(hostproto.Event{
		Kind: hostproto.Posted, At: r.stamp(now), ID: o.id, Peer: int(o.dst), Bytes: bytes, CRC: checksum(o.data),
	})
	r.batch = append(r.batch, hostagent.Flow{ID: o.id, Dst: o.dst, Bytes: bytes})
	if r.closeAt == 0 {
		r.closeAt = max(1, now+fabric.Time(r.set.BatchWindow)*fabric.Nanosecond)
	}
}

// postJob takes a send of the collective.
func (r *Rank) postJob(now fabric.Time, s collective.Send) {
	o := &outbound{id: uint64(s.ID), dst: fabric.NodeID(s.Dst), key: r.jobKey, job: true}
	if !r.set.Send {
		places := r.dests[s.Dst]
		if places == nil {
			slots, _, err := layout(r.job, s.Dst)
			if err != nil {
				r.fault(now, err)
				return
			}
			places = make(map[uint64]int64, len(slots))
			for _, x := range slots {
				places[x.id] = x.start
			}
			r.dests[s.Dst] = places
		}
		o.base = places[o.id]
	}
	r.post(now, o, s.Bytes)
}

// fault tells of something that must not be.
func (r *Rank) fault(now fabric.Time, err error) {
	r.cfg.Log.Error("fault", "err", err)
	r.tell(hostproto.Event{Kind: hostproto.Fault, At: r.stamp(now), Text: err.Error()})
}

// act does what the balancer asks for.
func (r *Rank) act(now fabric.Time) {
	ready := r.scheme.Ready()
	if len(ready.Failed) > 0 && r.cfg.Report != nil && !r.set.NoReports {
		r.cfg.Report(ready.Failed, r.stamp(now))
	}
	for _, p := range ready.Open {
		r.openPiece(now, p)
	}
	for _, f := range ready.Flip {
		err := error(nil)
		if f.Dead && !r.set.NoResend {
			err = r.engine.Resend(endpoint.QP(f.QP))
		}
		if err == nil {
			err = r.engine.Relabel(endpoint.QP(f.QP), f.To)
		}
		if err != nil {
			if r.qps[endpoint.QP(f.QP)] != nil { // else it was done before this could be
				r.fault(now, err)
			}
			continue
		}
		if old, ok := r.flipped[endpoint.QP(f.QP)]; ok {
			r.tell(old) // it never came to a packet
		}
		r.flipped[endpoint.QP(f.QP)] = hostproto.Event{
			Kind: hostproto.Flip, At: r.stamp(now), QP: uint32(f.QP), From: uint16(f.From), To: uint16(f.To), Reason: f.Reason.String(),
		}
	}
	r.qpsPeak = max(r.qpsPeak, len(r.qps))
}

// openPiece opens the queue pair of a piece.
func (r *Rank) openPiece(now fabric.Time, p hostagent.Piece) {
	qp := endpoint.QP(p.QP)
	m := soft.Message{QP: qp, ID: p.Flow, Dst: p.Dst, Label: p.Label, Start: p.Start, Balanced: r.perPacket != nil}
	if p.Bytes == 0 {
		r.probes[qp] = true
		if err := r.engine.Write(now, m); err != nil {
			r.fault(now, err)
		}
		return
	}
	o := r.sending[p.Flow]
	if o == nil {
		r.fault(now, fmt.Errorf("a piece of message %#x, which is not under way", p.Flow))
		return
	}
	open := r.engine.Write
	m.Data, m.Key, m.Address = o.data[p.Offset:p.Offset+p.Bytes], o.key, uint64(o.base+p.Offset)
	if r.set.Send {
		open = r.engine.Send
		framed := make([]byte, sendHeader+len(m.Data))
		putSendHeader(framed, o.id, int64(len(o.data)), p.Offset)
		copy(framed[sendHeader:], m.Data)
		m.Data = framed
	}
	if err := open(now, m); err != nil {
		r.fault(now, err)
		return
	}
	r.qps[qp] = o
	o.open++
}

// Next implements [soft.Driven].
func (r *Rank) Next(now fabric.Time, buf []byte) (int, bool) {
	s, ok := r.engine.Next(now, buf)
	if ok && !s.Control && len(r.flipped) > 0 {
		if ev, is := r.flipped[s.QP]; is {
			delete(r.flipped, s.QP)
			ev.First = r.stamp(now)
			r.tell(ev)
		}
	}
	return s.Len, ok
}

// Receive implements [soft.Driven].
func (r *Rank) Receive(now fabric.Time, frame []byte) {
	r.engine.Receive(now, frame)
	r.act(now) // the time that has passed may ask for something, too
}

// MaxFrame implements [soft.Driven].
func (r *Rank) MaxFrame() int { return r.engine.MaxFrame() }

// Tick implements [soft.Driven].
func (r *Rank) Tick(now fabric.Time) {
	if r.due && now >= r.jobAt {
		r.due = false
		r.job.StartRank(int(r.cfg.Host), func(s collective.Send) { r.postJob(now, s) })
	}
	if r.closeAt != 0 && now >= r.closeAt {
		r.closeAt = 0
		err := r.scheme.Post(now, r.batch)
		r.batch = r.batch[:0]
		if err != nil {
			r.fault(now, err)
		}
		r.act(now)
	}
	if at, ok := r.scheme.Deadline(); ok && now >= at {
		r.scheme.Tick(now)
		r.act(now)
	}
	r.endProbes(now)
}

// Wake implements [soft.Driven].
func (r *Rank) Wake() (fabric.Time, bool) {
	at, ok := r.engine.NextWake()
	earlier := func(t fabric.Time, is bool) {
		if is && (!ok || t < at) {
			at, ok = t, true
		}
	}
	earlier(r.jobAt, r.due)
	earlier(r.closeAt, r.closeAt != 0)
	earlier(r.scheme.Deadline())
	if len(r.asked) > 0 {
		earlier(r.asked[0].until, true)
	}
	return at, ok
}
