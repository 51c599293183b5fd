package recording

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Options limits what is recorded. The zero value records everything, up to the defaults.
type Options struct {
	From, Until fabric.Time // the recorded window is From..Until; Until 0: to the end
	Hosts       []fabric.NodeID
	Every       fabric.Time // interval between two readings of the counters; 0: see [DefaultEvery]
	Most        int         // largest number of slices and instants; 0: [DefaultMost]
}

// DefaultMost is the default for [Options].Most.
const DefaultMost = 4_000_000

// readingsDirs is the number of directions that are by default read every microsecond.
const readingsDirs = 512

// DefaultEvery returns the default interval between readings of counters: a microsecond in a fabric of up to 512
// directions of links (for example 64 hosts in a fat-tree), in larger fabrics proportionally longer.
func DefaultEvery(f *fabric.Fabric) fabric.Time {
	return fabric.Microsecond * fabric.Time((2*f.Links()+readingsDirs-1)/readingsDirs)
}

// Recorder records the events of a run. A nil Recorder records nothing.
type Recorder struct {
	options Options
	hosts   []bool // recorded hosts; nil: all
	f       *fabric.Fabric

	mu    sync.Mutex // protects what Happened adds
	r     Recording
	exact bool // the world itself reports flips, quenches and time-outs

	messages map[uint64]int32 // open slices
	pieces   map[qpKey]int32
	phases   map[fabric.NodeID]int32

	cause   map[fabric.NodeID]int32 // instant that a host's present actions answer
	changes map[fabric.LinkID]int32 // the last instant at which a link was cut or restored

	impaired      map[fabric.LinkID]bool // links that lose packets, or are slow
	dirs          []dirState             // by direction
	markedPackets map[packetKey]struct{} // marked packets in flight
	last          int32                  // the last instant that Happened added; -1: it was left out
	acked         []uint64               // by host: bytes, at the last reading
	drops         []openCount            // by switch
}

type qpKey struct {
	host fabric.NodeID
	qp   uint64
}

// openCount is an instant that still counts until the next reading: its index plus 1; 0: none.
type openCount int32

type dirState struct {
	mark, drop, lost openCount
	used             fabric.Time // total sending time, up to the last reading
	area             float64     // of its queue, byte*ps
}

// New returns a recorder of a run on a fabric.
func New(f *fabric.Fabric, o Options) *Recorder {
	if o.Every <= 0 {
		o.Every = DefaultEvery(f)
	}
	if o.Most <= 0 {
		o.Most = DefaultMost
	}
	if o.Until <= 0 {
		o.Until = fabric.Never
	}
	r := &Recorder{
		options: o, f: f, r: Recording{Fabric: f, Every: o.Every},
		messages: map[uint64]int32{}, pieces: map[qpKey]int32{}, phases: map[fabric.NodeID]int32{},
		cause: map[fabric.NodeID]int32{}, changes: map[fabric.LinkID]int32{}, impaired: map[fabric.LinkID]bool{}, markedPackets: map[packetKey]struct{}{},
		dirs: make([]dirState, 2*f.Links()), drops: make([]openCount, f.Nodes()), acked: make([]uint64, f.Hosts()),
	}
	if len(o.Hosts) > 0 {
		r.hosts = make([]bool, f.Hosts())
		for _, h := range o.Hosts {
			r.hosts[h] = true
		}
	}
	return r
}

// records reports whether events at a host are recorded now.
func (r *Recorder) records(now fabric.Time, host fabric.NodeID) bool {
	return now < r.options.Until && (r.hosts == nil || host < 0 || int(host) >= len(r.hosts) || r.hosts[host])
}

// hasRoom reports whether there is room for one more slice or instant.
func (r *Recorder) hasRoom() bool {
	if len(r.r.Slices)+len(r.r.Instants) < r.options.Most {
		return true
	}
	r.r.Left++
	return false
}

// beginSlice adds a slice and returns its index; -1: it is not recorded.
func (r *Recorder) beginSlice(s Slice) int32 {
	if !r.records(s.Begin, s.Node) || !r.hasRoom() {
		return -1
	}
	s.Open = true
	r.r.Slices = append(r.r.Slices, s)
	return int32(len(r.r.Slices) - 1)
}

func (r *Recorder) endSlice(now fabric.Time, at int32) {
	if at >= 0 {
		r.r.Slices[at].End, r.r.Slices[at].Open = now, false
	}
}

// addInstant adds an instant and returns its index; -1: it is not recorded.
func (r *Recorder) addInstant(i Instant) int32 {
	if i.At < r.options.From || !r.records(i.At, i.Node) || !r.hasRoom() {
		return -1
	}
	i.Count = max(1, i.Count)
	r.r.Instants = append(r.r.Instants, i)
	return int32(len(r.r.Instants) - 1)
}

// Begin marks the start of a run whose world reports every message, flip, quench and time-out.
func (r *Recorder) Begin() {
	if r == nil {
		return
	}
	r.exact = true
	r.beginSlice(Slice{Kind: Collective, Node: -1, Dst: -1})
}

// Posted records that a host has a message to send.
func (r *Recorder) Posted(now fabric.Time, host fabric.NodeID, message uint64, dst fabric.NodeID, bytes int64) {
	if r == nil {
		return
	}
	id := collective.ID(message)
	phase := uint64(id.Job())<<32 | uint64(id.Step())
	if at, ok := r.phases[host]; !ok || at >= 0 && r.r.Slices[at].ID != phase {
		if ok {
			r.endSlice(now, at)
		}
		r.phases[host] = r.beginSlice(Slice{Kind: Phase, Begin: now, Node: host, ID: phase, Dst: -1})
	}
	if at := r.beginSlice(Slice{Kind: Message, Begin: now, Node: host, ID: message, Dst: dst, Bytes: bytes}); at >= 0 {
		r.messages[message] = at
	}
}

// Received records that a message has arrived whole.
func (r *Recorder) Received(now fabric.Time, message uint64) {
	if r == nil {
		return
	}
	if at, ok := r.messages[message]; ok {
		r.r.Slices[at].Received = now
	}
}

// Sent records that all of a message is acknowledged.
func (r *Recorder) Sent(now fabric.Time, message uint64) {
	if r == nil {
		return
	}
	if at, ok := r.messages[message]; ok {
		r.endSlice(now, at)
		delete(r.messages, message)
	}
}

// Finished records that a host's rank is done.
func (r *Recorder) Finished(now fabric.Time, host fabric.NodeID) {
	if r == nil {
		return
	}
	if at, ok := r.phases[host]; ok && at >= 0 && r.r.Slices[at].Open {
		r.endSlice(now, at)
	}
}

// Opened records that a queue pair was opened for a piece, or for a probe if it has no bytes.
func (r *Recorder) Opened(now fabric.Time, host fabric.NodeID, m transport.Message) {
	if r == nil {
		return
	}
	s := Slice{Kind: Piece, Begin: max(now, m.Start), Node: host, ID: uint64(m.QP), Message: m.ID, Dst: m.Dst, Bytes: m.Bytes}
	if m.Bytes == 0 {
		s.Kind = Probe
	}
	if !m.Balanced {
		s.Label, s.Path = m.Label, pathOf(r.f, host, m.Dst, m.Label)
	}
	if at := r.beginSlice(s); at >= 0 {
		r.pieces[qpKey{host, uint64(m.QP)}] = at
	}
}

// Closed records that a queue pair has ended.
func (r *Recorder) Closed(now fabric.Time, host fabric.NodeID, qp uint64) {
	if r == nil {
		return
	}
	if at, ok := r.pieces[qpKey{host, qp}]; ok {
		r.endSlice(max(now, r.r.Slices[at].Begin), at)
		delete(r.pieces, qpKey{host, qp})
	}
}

// Flipped records that a host moved a queue pair.
func (r *Recorder) Flipped(now fabric.Time, host fabric.NodeID, f hostagent.Flip) {
	if r == nil {
		return
	}
	at, open := r.pieces[qpKey{host, uint64(f.QP)}]
	cause := r.causeOf(host)
	if cause < 0 && open { // the host had no notification
		src, dst := r.r.Slices[at].Node, r.r.Slices[at].Dst
		cause = max(r.changeOn(pathOf(r.f, src, dst, f.From)), r.changeOn(pathOf(r.f, src, dst, f.To)))
	}
	r.addInstant(Instant{
		At: now, Kind: report.KindFlip, Node: host, Dir: -1, QP: uint64(f.QP), Cause: cause,
		Text: fmt.Sprintf("from path %d to %d: %v", f.From, f.To, f.Reason),
	})
	if open && f.Reason != hostagent.Return {
		s := &r.r.Slices[at]
		s.Label, s.Path = f.To, pathOf(r.f, host, s.Dst, f.To) // its last path
	}
}

// changeOn returns the latest change of a link on a path, or -1.
func (r *Recorder) changeOn(path []fabric.NodeID) int32 {
	latest := int32(-1)
	for link, c := range r.changes {
		l := r.f.Link(link)
		for i := 1; i < len(path); i++ {
			if a, b := path[i-1], path[i]; l.A.Node == a && l.B.Node == b || l.A.Node == b && l.B.Node == a {
				latest = max(latest, c)
			}
		}
	}
	return latest
}

func (r *Recorder) causeOf(host fabric.NodeID) int32 {
	if c, ok := r.cause[host]; ok {
		return c
	}
	return -1
}

// Quenched records that a host accepted a quench, and is about to act on it.
func (r *Recorder) Quenched(now fabric.Time, host fabric.NodeID, q frame.Quench) {
	if r == nil {
		return
	}
	cause, text := int32(-1), fmt.Sprintf("%s port %d", r.f.Name(q.Switch), q.Port)
	if link, ok := r.f.LinkAt(q.Switch, q.Port); ok {
		text += " " + r.f.LinkName(link)
		if c, cut := r.changes[link]; cut {
			cause = c
		}
	}
	if q.Notice {
		text += ", a notice"
	}
	r.cause[host] = r.addInstant(Instant{At: now, Kind: report.KindQuench, Node: host, Dir: -1, Cause: cause, Text: text})
}

// TimedOut records that a host's retransmission timer expired, and that it is about to act on it.
func (r *Recorder) TimedOut(now fabric.Time, host fabric.NodeID, qp uint64) {
	if r == nil {
		return
	}
	r.cause[host] = r.addInstant(Instant{At: now, Kind: report.KindTimeout, Node: host, Dir: -1, QP: qp, Cause: -1})
}

// Notified records that a host received the controller's update, and is about to act on it.
func (r *Recorder) Notified(now fabric.Time, host fabric.NodeID) {
	if r == nil {
		return
	}
	cause := int32(-1)
	for _, c := range r.changes {
		cause = max(cause, c)
	}
	r.cause[host] = r.addInstant(Instant{At: now, Kind: report.KindPush, Node: host, Dir: -1, Cause: cause})
}

// ReactionEnded records that a host has finished its reaction to a notification: its next actions have other causes.
func (r *Recorder) ReactionEnded(host fabric.NodeID) {
	if r != nil {
		delete(r.cause, host)
	}
}

// Happened records an event that a world reports. Any goroutine may call it.
func (r *Recorder) Happened(e report.Event) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i := Instant{At: e.At(), Kind: e.Kind, Node: -1, Dir: -1, Cause: -1, Text: e.Text}
	if r.exact {
		switch i.Kind {
		case report.KindFlip, report.KindQuench, report.KindTimeout, report.KindPush:
			return // each is recorded
		}
	}
	if n, err := r.f.NodeByName(e.Where); err == nil {
		i.Node = n
	} else if link, err := r.f.LinkByName(e.Where); err == nil {
		if i.Kind == report.KindCut || i.Kind == report.KindRestore {
			r.linkChanged(i, link)
			return
		}
		i.Node, i.Dir = r.f.Link(link).A.Node, sim.Upward(link)
		if c, ok := r.changes[link]; ok {
			i.Cause = c
		}
	} else if e.Where != "" {
		i.Text = e.Where + ": " + e.Text
	}
	r.last = r.addInstant(i)
}

// linkChanged records a change of a link, one instant for each direction concerned, unless the network reports it.
func (r *Recorder) linkChanged(i Instant, link fabric.LinkID) {
	impairs := strings.HasPrefix(i.Text, "loses ") || strings.HasPrefix(i.Text, "degraded ")
	if impairs {
		i.Kind = Impair
	} else if r.exact && (i.Kind == report.KindCut || !r.impaired[link]) {
		return // the network reports cuts and restorations
	}
	r.impaired[link] = impairs
	names := func(name string) bool {
		return strings.HasSuffix(i.Text, name+"ward only") || strings.HasSuffix(i.Text, " "+name)
	}
	l := r.f.Link(link)
	if !names("down") {
		i.Node, i.Dir = l.A.Node, sim.Upward(link)
		r.last = r.addInstant(i)
	}
	if !names("up") {
		i.Node, i.Dir = l.B.Node, sim.Downward(link)
		r.last = r.addInstant(i)
	}
	r.changes[link] = r.last
}

// End closes the recording at the end of its run.
func (r *Recorder) End(result *report.Result) *Recording {
	if !r.exact {
		r.fillResult(result)
	}
	end := fabric.Time(result.EndTime * float64(fabric.Microsecond))
	bare := *result
	bare.Links, bare.FlipRecords, bare.Timeline = nil, nil, nil
	r.r.Result = &bare
	for i := range r.r.Slices {
		s := &r.r.Slices[i]
		if s.Open && s.Kind == Collective && result.Finished {
			s.Open = false
			s.End = end
		}
		if s.Open {
			s.End = max(s.Begin, min(end, r.options.Until))
		}
	}
	r.r.Slices = slices.DeleteFunc(r.r.Slices, func(s Slice) bool { return s.End < r.options.From })
	r.r.sortAll()
	return &r.r
}
