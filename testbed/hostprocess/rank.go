package hostprocess

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/usid"
	"github.com/ethereal-fabric/ethereal/roce/soft"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/balance"
	"github.com/ethereal-fabric/ethereal/testbed/host"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Config sets up a [Rank].
type Config struct {
	Fabric *fabric.Fabric
	Host   fabric.NodeID
	// Origin is the zero of the rank's clock, in ns of CLOCK_MONOTONIC.
	Origin int64
	// Notify is called with each event, in the shell's goroutine. It must not block.
	Notify func(hostproto.Event)
	// Report is called with the paths that timed out though no link on them was known to be dead, and with the time in
	// ns of CLOCK_MONOTONIC, in the shell's goroutine. It must not block, nor keep the slice. May be nil.
	Report func(failed []hostagent.Failed, at int64)
	// Flipped receives moved queue pairs, in the shell's goroutine. It must not block. May be nil.
	Flipped func(...hostagent.Flip)
	// EventLog receives the host's event log, see package host; may be nil.
	EventLog io.Writer
	Log      *slog.Logger
	// Payload is the number of payload bytes of a full packet if the settings do not say it; 0: 1024.
	Payload int
	// Random returns numbers that other hosts cannot guess: queue pairs' numbers and first PSNs follow from them. nil:
	// the system's.
	Random func() uint64
}

// Rank is one host of a collective, with its endpoint and agent. See the package comment.
type Rank struct {
	cfg    Config
	notify func(hostproto.Event)
	set    host.Settings
	engine *soft.Engine
	wrap   *usid.Encapsulator // nil: labels need no outer header
	core   *host.Core
	events *host.Log // nil: none

	answers map[uint64]answer                // of controllers' open probes, by the core's number
	asked   uint64                           // the last of these numbers
	flipped map[transport.QP]hostproto.Event // flips whose first packet has not left yet
	sending map[uint64]*outboundMessage
	regions map[uint32]*writeRegion
	last    *statepb.Update // the last reported state of links

	job    *collective.Job
	jobKey uint32
	jobAt  fabric.Time              // its start, if due
	due    bool                     // it has a start time, and has not begun
	dests  map[int]map[uint64]int64 // of the job's messages: destination, ID -> place

	posted, sent, received uint64

	device Device // for other programs' queue pairs; nil: none
}

// outboundMessage is a message being sent.
type outboundMessage struct {
	id   uint64
	dst  fabric.NodeID
	data []byte
	key  uint32
	base int64 // its place in the receiver's region
	job  bool
}

var (
	_ soft.Driven  = (*Rank)(nil)
	_ soft.Handler = (*Rank)(nil)
)

// New returns a host with default settings.
func New(c Config) (*Rank, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Random == nil {
		c.Random = randomSecret
	}
	r := &Rank{cfg: c, notify: c.Notify}
	if r.notify == nil {
		r.notify = func(hostproto.Event) {}
	}
	if c.EventLog != nil {
		r.events = host.NewLog(c.EventLog)
	}
	return r, r.Configure(0, host.Settings{})
}

// randomSecret returns a random number from the system.
func randomSecret() uint64 {
	var b [8]byte
	rand.Read(b[:]) //nolint:errcheck // it never fails
	return binary.NativeEndian.Uint64(b[:])
}

func orDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// inSoftware sets defaults for hosts and switches in software: times in which a process may wait for a processor,
// and loss ratios of their queues.
func inSoftware(s *host.Settings) {
	orDefault(&s.Scheme, balance.Ethereal)
	orDefault(&s.Payload, 1024)
	orDefault(&s.AckEvery, 16) // an ACK costs as much as a packet of data
	orDefault(&s.RTO, 50*fabric.Millisecond)
	orDefault(&s.MostRTO, 40*s.RTO)
	orDefault(&s.Control, transport.NoControl)
	orDefault(&s.LeastTrip, s.RTO/5) // after two of these the last packet is requested again
	// Processes wait for a processor for a shorter time, unless answers show otherwise.
	orDefault(&s.AskWait, max(s.RTO, 2*fabric.Second))
	orDefault(&s.Slow.After, s.RTO)
	orDefault(&s.Slow.Memory, s.RTO)
	orDefault(&s.TimeoutGrace, s.RTO/4) // some trips
	orDefault(&s.Calm, s.RTO)           // slower queues cause time-outs
	orDefault(&s.ProbeEvery, s.RTO)
	orDefault(&s.Losses.Healthy, 1e-4)
	orDefault(&s.Losses.Lossy, 1e-2)
}

// Configure restarts the endpoint and the load balancer with other settings. Everything in progress is dropped. After
// an error nothing has changed.
func (r *Rank) Configure(now fabric.Time, s host.Settings) error {
	orDefault(&s.Payload, r.cfg.Payload)
	inSoftware(&s)
	coreConfig := s.Core(r.cfg.Fabric, r.cfg.Host)
	coreConfig.Log = r.events
	if r.device != nil {
		coreConfig.Whole = max(maxWholeFlow, 2*int64(s.Payload))
	}
	core, err := host.New(coreConfig)
	if err != nil {
		return err
	}
	c := s.Endpoint(core)
	engine, err := soft.New(soft.Config{NIC: c, Place: r.placeForDevice(), Random: r.cfg.Random, Nonce: s.Nonce}, r)
	if err != nil {
		return err
	}
	var wrap *usid.Encapsulator
	if s.USID {
		if wrap, err = usid.New(r.cfg.Fabric, r.cfg.Host); err != nil {
			return err
		}
	}
	r.forgetJobs()
	r.set, r.core, r.engine, r.wrap = s, core, engine, wrap
	core.Attach((*coreEffects)(r), (*coreEffects)(r))
	r.posted, r.sent, r.received = 0, 0, 0
	if r.device != nil {
		r.device.Reset(now)
	}
	// A controller's reports also apply to the new agent.
	if !s.NoUpdates && r.last != nil {
		core.Update(now, r.last)
	}
	return nil
}

// forgetJobs forgets jobs, messages and probes.
func (r *Rank) forgetJobs() {
	for _, n := range slices.Sorted(maps.Keys(r.answers)) { // their results are unknown
		r.answers[n](host.ProbeResult{})
	}
	r.job, r.due, r.answers = nil, false, map[uint64]answer{}
	r.flipped, r.sending = map[transport.QP]hostproto.Event{}, map[uint64]*outboundMessage{}
	r.regions = map[uint32]*writeRegion{}
}

// Prepare prepares a job: it allocates memory for the job's messages to this host.
func (r *Rank) Prepare(j hostproto.Job) error {
	job, err := collective.New(j.Spec)
	if err != nil {
		return err
	}
	if j.Spec.Ranks > r.cfg.Fabric.Hosts() {
		return fmt.Errorf("host: %d ranks on %d hosts", j.Spec.Ranks, r.cfg.Fabric.Hosts())
	}
	if r.job != nil && !r.job.Done(int(r.cfg.Host)) {
		return fmt.Errorf("host: a job is under way; forget it first")
	}
	slots, total, err := layoutSlots(job, int(r.cfg.Host))
	if err != nil {
		return err
	}
	if err := r.register(j.Key, &writeRegion{buf: make([]byte, total), slots: slots}); err != nil {
		return err
	}
	r.job, r.jobKey, r.due, r.dests = job, j.Key, false, map[int]map[uint64]int64{}
	return nil
}

// Start sets the start time of the job that Prepare took.
func (r *Rank) Start(at int64) error {
	if r.job == nil {
		return fmt.Errorf("host: no job is prepared")
	}
	r.jobAt, r.due = r.fromMonotonic(at), true
	return nil
}

func (r *Rank) register(key uint32, g *writeRegion) error {
	if old := r.regions[key]; old != nil {
		r.engine.Deregister(key)
	}
	if err := r.engine.Register(key, g.buf); err != nil {
		return err
	}
	r.regions[key] = g
	return nil
}

// fromMonotonic and stamp convert between CLOCK_MONOTONIC and the rank's clock.
func (r *Rank) fromMonotonic(ns int64) fabric.Time {
	return fabric.Time(ns-r.cfg.Origin) * fabric.Nanosecond
}
func (r *Rank) toMonotonic(t fabric.Time) int64 { return r.cfg.Origin + int64(t/fabric.Nanosecond) }

// Expect allocates memory for the given messages, which other hosts will write.
func (r *Rank) Expect(in []hostproto.Inbound) error {
	for _, m := range in {
		if m.Bytes < 1 || m.Bytes > maxMessage {
			return fmt.Errorf("host: message %#x of %d bytes; use 1 to %d", m.ID, m.Bytes, maxMessage)
		}
		g := &writeRegion{buf: make([]byte, m.Bytes), slots: []messageSlot{{id: m.ID, bytes: m.Bytes, left: m.Bytes}}, once: true}
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
			return fmt.Errorf("host: message %#x is under way already", m.ID)
		}
		if m.Bytes < 1 || m.Bytes > maxMessage || m.Dst < 0 || m.Dst >= r.cfg.Fabric.Hosts() || m.Dst == int(r.cfg.Host) {
			return fmt.Errorf("host: message %#x of %d bytes to host %d cannot be sent", m.ID, m.Bytes, m.Dst)
		}
	}
	for _, m := range out {
		r.post(now, &outboundMessage{id: m.ID, dst: fabric.NodeID(m.Dst), key: m.Key}, m.Bytes)
	}
	return nil
}

// post adds a message to the batching window.
func (r *Rank) post(now fabric.Time, o *outboundMessage, bytes int64) {
	o.data = make([]byte, bytes)
	fillMessage(o.data, r.set.Seed^r.posted<<40, o.id)
	r.sending[o.id] = o
	r.posted++
	r.notify(hostproto.Event{
		Kind: hostproto.Posted, At: r.toMonotonic(now), ID: o.id, Peer: int(o.dst), Bytes: bytes, CRC: checksum(o.data),
	})
	r.core.Post(now, hostagent.Flow{ID: o.id, Dst: o.dst, Bytes: bytes})
}

// postJob posts a send of the collective.
func (r *Rank) postJob(now fabric.Time, s collective.Send) {
	o := &outboundMessage{id: uint64(s.ID), dst: fabric.NodeID(s.Dst), key: r.jobKey, job: true}
	places := r.dests[s.Dst]
	if places == nil {
		slots, _, err := layoutSlots(r.job, s.Dst)
		if err != nil {
			r.reportViolation(now, err)
			return
		}
		places = make(map[uint64]int64, len(slots))
		for _, x := range slots {
			places[x.id] = x.start
		}
		r.dests[s.Dst] = places
	}
	o.base = places[o.id]
	r.post(now, o, s.Bytes)
}

// reportViolation reports a violation.
func (r *Rank) reportViolation(now fabric.Time, err error) {
	r.cfg.Log.Error("fault", "err", err)
	r.notify(hostproto.Event{Kind: hostproto.Fault, At: r.toMonotonic(now), Text: err.Error()})
}

// Next writes the frame to send now into buf, for [soft.Driven].
func (r *Rank) Next(now fabric.Time, buf []byte) (int, bool) {
	s, ok := r.engine.Next(now, buf)
	if ok && !s.Control && len(r.flipped) > 0 {
		if ev, is := r.flipped[s.QP]; is {
			delete(r.flipped, s.QP)
			ev.First = r.toMonotonic(now)
			r.notify(ev)
		}
	}
	if ok && r.wrap != nil {
		return r.wrap.Wrap(buf, s.Len, s.Len), true
	}
	return s.Len, ok
}

// Receive processes a received Ethernet frame, for [soft.Driven].
func (r *Rank) Receive(now fabric.Time, frame []byte) {
	if r.wrap != nil {
		frame = usid.Unwrap(frame)
	}
	r.engine.Receive(now, frame)
	r.core.Received(now)
}

// MaxFrame returns the size in bytes of the longest frame, for [soft.Driven].
func (r *Rank) MaxFrame() int { return r.engine.MaxFrame() + usid.HeaderSize }

// LineRate returns the highest rate at which to send, frame overheads included; 0: no limit, for [soft.Driven].
func (r *Rank) LineRate() fabric.Rate { return r.set.Rate }

// Tick processes expired timers, for [soft.Driven].
func (r *Rank) Tick(now fabric.Time) {
	if r.due && now >= r.jobAt {
		r.due = false
		r.job.StartRank(int(r.cfg.Host), func(s collective.Send) { r.postJob(now, s) })
	}
	if r.device != nil {
		r.device.Tick(now)
	}
	if at, ok := r.core.Deadline(); ok && now >= at {
		r.core.Tick(now)
	}
}

// Wake returns when to call Next or Tick if nothing else happens, for [soft.Driven].
func (r *Rank) Wake() (fabric.Time, bool) {
	at, ok := r.engine.NextWake()
	earlier := func(t fabric.Time, is bool) {
		if is && (!ok || t < at) {
			at, ok = t, true
		}
	}
	earlier(r.jobAt, r.due)
	earlier(r.core.Deadline())
	if r.device != nil {
		earlier(r.device.Wake())
	}
	return at, ok
}
