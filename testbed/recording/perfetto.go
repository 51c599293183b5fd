package recording

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Names of tracks. Read recognises counters by them.
const (
	queueTrack    = "queue "
	peakTrack     = "longest queue "
	useTrack      = "use "
	rateTrack     = "rate "
	inFlightTrack = "in flight "
	allowedTrack  = "allowed rate "
	aboutCategory = "about"
)

// sequenceID is the trace's only sequence of packets.
const sequenceID = 1

// runPID is the process for events without node; a node's is firstPID plus its number.
const (
	runPID   = 1
	firstPID = 2
)

// Write writes the recording as a Perfetto trace, which https://ui.perfetto.dev, trace_processor and [Read] read.
// Times are whole nanoseconds.
//
// A node is a process. A host's threads are its phases, lanes of messages and of queue pairs, its receipts and its
// agent's; a switch's threads are its ports. Arrows lead from a piece to the receipt of its message, and from a cut
// to the quench, push or flip that answers it.
func (r *Recording) Write(w io.Writer) error {
	t := &traceWriter{r: r, f: r.Fabric, w: bufio.NewWriterSize(w, 1<<18), nextUUID: 1,
		process: map[fabric.NodeID]uint64{}, thread: map[threadKey]uint64{}}
	t.writeDescription()
	t.slices()
	t.instants()
	t.counters()
	t.flush()
	if t.err != nil {
		return t.err
	}
	return t.w.Flush()
}

type threadKey struct {
	node fabric.NodeID
	name string
}

type timedEvent struct {
	at    fabric.Time
	event *trackEvent
}

type traceWriter struct {
	r        *Recording
	f        *fabric.Fabric
	w        *bufio.Writer
	buf      []byte
	err      error
	nextUUID uint64
	process  map[fabric.NodeID]uint64
	thread   map[threadKey]uint64
	events   []timedEvent // in the order of each track; flush sorts all by time
	lanes    map[laneKey]uint64
	flows    uint64
}

// laneKey is a piece's queue pair, by which instants find their track.
type laneKey struct {
	node fabric.NodeID
	qp   uint64
}

func (t *traceWriter) packet(p tracePacket) {
	if t.err != nil {
		return
	}
	t.buf = p.append(t.buf[:0])
	var head [1 + binary.MaxVarintLen64]byte
	h := protowire.AppendTag(head[:0], 1, protowire.BytesType)
	h = protowire.AppendVarint(h, uint64(len(t.buf)))
	if _, t.err = t.w.Write(h); t.err == nil {
		_, t.err = t.w.Write(t.buf)
	}
}

func (t *traceWriter) uuid() uint64 {
	t.nextUUID++
	return t.nextUUID
}

func pidOf(n fabric.NodeID) int32 {
	if n < 0 {
		return runPID
	}
	return firstPID + int32(n)
}

// processOf returns the track of a node; for -1 that of the run.
func (t *traceWriter) processOf(n fabric.NodeID) uint64 {
	if id, ok := t.process[n]; ok {
		return id
	}
	name := "run"
	if n >= 0 {
		name = t.f.Name(n)
	}
	id := t.uuid()
	t.process[n] = id
	t.packet(tracePacket{track: &trackDescriptor{uuid: id, kind: trackProcess, pid: pidOf(n), name: name}})
	return id
}

// threadOf returns the track of a thread of a node.
func (t *traceWriter) threadOf(n fabric.NodeID, name string) uint64 {
	key := threadKey{n, name}
	if id, ok := t.thread[key]; ok {
		return id
	}
	t.processOf(n)
	id := t.uuid()
	t.thread[key] = id
	// A thread with its process's number would be the main thread.
	tid := int32(id) + firstPID + int32(t.f.Nodes())
	t.packet(tracePacket{track: &trackDescriptor{uuid: id, kind: trackThread, pid: pidOf(n), tid: tid, name: name}})
	return id
}

func (t *traceWriter) counterOf(parent uint64, name string, unit uint64, unitName string) uint64 {
	id := t.uuid()
	t.packet(tracePacket{track: &trackDescriptor{uuid: id, parent: parent, kind: trackCounter, name: name, unit: unit,
		unitName: unitName}})
	return id
}

// portOf returns the track of the port that sends in a direction.
func (t *traceWriter) portOf(d sim.LinkDir) uint64 {
	from, to := DirectionEnds(t.f, d)
	return t.threadOf(from.Node, fmt.Sprintf("port %d to %s", from.Port, t.f.Name(to.Node)))
}

func (t *traceWriter) event(at fabric.Time, e *trackEvent) {
	t.events = append(t.events, timedEvent{at, e})
}

// flush writes the events in order of time; simultaneous events in the order in which they were made.
func (t *traceWriter) flush() {
	slices.SortStableFunc(t.events, func(a, b timedEvent) int {
		return cmp.Compare(a.at/fabric.Nanosecond, b.at/fabric.Nanosecond)
	})
	for _, e := range t.events {
		t.packet(tracePacket{at: uint64(e.at / fabric.Nanosecond), event: e.event})
	}
}

// writeDescription writes the recording's description.
func (t *traceWriter) writeDescription() {
	spec, err := json.Marshal(t.f.Spec())
	if err != nil {
		t.err = err
		return
	}
	notes := []note{text("fabric", string(spec)), number("every_ps", int64(t.r.Every)),
		number("left_out", t.r.Left)}
	name := "run"
	if t.r.Result != nil {
		result, err := json.Marshal(t.r.Result)
		if err != nil {
			t.err = err
			return
		}
		notes = append(notes, text("result", string(result)))
		name = t.r.Result.String()
	}
	t.packet(tracePacket{first: true, event: &trackEvent{kind: instantEvent, track: t.processOf(-1),
		categories: []string{aboutCategory}, name: name, notes: notes}})
}

// laneTable assigns each slice of a kind at a node to the first free lane.
type laneTable map[threadKey][]fabric.Time

func (l laneTable) assignLane(node fabric.NodeID, kind string, begin, end fabric.Time) string {
	key := threadKey{node, kind}
	for i, until := range l[key] {
		// In whole nanoseconds, as written.
		if until/fabric.Nanosecond <= begin/fabric.Nanosecond {
			l[key][i] = end
			return kind + " " + strconv.Itoa(i)
		}
	}
	l[key] = append(l[key], end)
	return kind + " " + strconv.Itoa(len(l[key])-1)
}

// laneName returns the name of a kind's lanes.
func laneName(k SliceKind) string {
	switch k {
	case Message:
		return "messages"
	case Piece, Probe:
		return "queue pairs"
	case Phase:
		return "phases"
	}
	return string(k)
}

// slices writes the slices, and the arrows from pieces to receipts.
func (t *traceWriter) slices() {
	t.lanes = map[laneKey]uint64{}
	free := laneTable{}
	arrows := map[uint64][]uint64{} // by message
	for i := range t.r.Slices {
		s := &t.r.Slices[i]
		track := t.threadOf(s.Node, free.assignLane(s.Node, laneName(s.Kind), s.Begin, s.End))
		e := &trackEvent{kind: sliceBegin, track: track, categories: []string{string(s.Kind)}}
		switch s.Kind {
		case Collective:
			e.name = t.collectiveName()
		case Phase:
			e.name = "phase " + strconv.FormatUint(s.ID&0xFFFFFFFF, 10)
			e.notes = append(e.notes, unsigned("id", s.ID))
		case Message:
			e.name = "to " + t.f.Name(s.Dst)
			e.notes = append(e.notes, unsigned("id", s.ID),
				number("phase", int64(collective.ID(s.ID).Step())), number("received_ps", int64(s.Received)))
		case Piece, Probe:
			t.lanes[laneKey{s.Node, s.ID}] = track
			e.name = "to " + t.f.Name(s.Dst)
			e.notes = append(e.notes, unsigned("queue_pair", s.ID), unsigned("message", s.Message))
			if s.Path != nil {
				e.name += fmt.Sprintf(" by %d", s.Label)
				e.notes = append(e.notes, number("label", int64(s.Label)),
					text("path", PathText(t.f, s.Path)))
			}
			if s.Kind == Piece {
				t.flows++
				e.flows = append(e.flows, t.flows)
				arrows[s.Message] = append(arrows[s.Message], t.flows)
			}
		}
		if s.Dst >= 0 {
			e.notes = append(e.notes, text("to", t.f.Name(s.Dst)), number("bytes", s.Bytes))
		}
		if s.Open {
			e.notes = append(e.notes, text("open", "it had not ended when the recording did"))
		}
		t.event(s.Begin, e)
		t.event(max(s.Begin, s.End), &trackEvent{kind: sliceEnd, track: track})
	}
	for i := range t.r.Slices {
		if s := &t.r.Slices[i]; s.Kind == Message && s.Received > 0 {
			track := t.threadOf(s.Dst, "receipts")
			t.event(s.Received, &trackEvent{kind: instantEvent, track: track, categories: []string{"receipt"},
				name: "from " + t.f.Name(s.Node), ends: arrows[s.ID],
				notes: []note{unsigned("message", s.ID), number("bytes", s.Bytes)}})
		}
	}
}

func (t *traceWriter) collectiveName() string {
	if t.r.Result == nil {
		return "collective"
	}
	return t.r.Result.Collective + " of " + fabric.Bytes(t.r.Result.Bytes).String() + ", " + t.r.Result.Scheme
}

// trackOf returns the track of an instant.
func (t *traceWriter) trackOf(i *Instant) uint64 {
	if i.QP != 0 {
		if track, ok := t.lanes[laneKey{i.Node, i.QP}]; ok {
			return track
		}
	}
	switch {
	case i.Dir >= 0:
		return t.portOf(i.Dir)
	case i.Node >= 0 && int(i.Node) < t.f.Hosts():
		return t.threadOf(i.Node, "agent")
	case i.Node >= 0:
		return t.threadOf(i.Node, "switch")
	}
	return t.threadOf(-1, "events")
}

// instants writes the instants, with an arrow from each to its answers.
func (t *traceWriter) instants() {
	events := make([]*trackEvent, len(t.r.Instants))
	for n := range t.r.Instants {
		i := &t.r.Instants[n]
		track := t.trackOf(i)
		name := string(i.Kind)
		if i.Count > 1 {
			name += " x" + strconv.FormatInt(i.Count, 10)
		}
		e := &trackEvent{kind: instantEvent, track: track, categories: []string{string(i.Kind)}, name: name,
			notes: []note{number("count", i.Count)}}
		if i.Node >= 0 {
			e.notes = append(e.notes, text("node", t.f.Name(i.Node)))
		}
		if i.Dir >= 0 {
			e.notes = append(e.notes, text("direction", DirName(t.f, i.Dir)))
		}
		if i.QP != 0 {
			e.notes = append(e.notes, unsigned("queue_pair", i.QP))
		}
		if i.Text != "" {
			e.notes = append(e.notes, text("text", i.Text))
		}
		if i.Cause >= 0 {
			t.flows++
			events[i.Cause].flows = append(events[i.Cause].flows, t.flows)
			e.ends = append(e.ends, t.flows)
			e.notes = append(e.notes, number("answers", int64(i.Cause)))
		}
		events[n] = e
		t.event(i.At, e)
	}
}

// counters writes the counters' values, where they changed.
func (t *traceWriter) counters() {
	f, r := t.f, t.r
	starts := func(k int) fabric.Time { // of a reading's span
		if k == 0 {
			return max(0, r.Readings[0]-r.Every)
		}
		return r.Readings[k-1]
	}
	write := func(parent func() uint64, name string, unit uint64, unitName string, after bool,
		value func(k int) float64) {
		track, last := uint64(0), 0.0
		for k := range r.Readings {
			v := value(k)
			if v == last {
				continue
			}
			if last = v; track == 0 {
				track = t.counterOf(parent(), name, unit, unitName)
			}
			at := starts(k)
			if after {
				at = r.Readings[k]
			}
			t.event(at, &trackEvent{kind: counterEvent, track: track, value: v, whole: unitName == ""})
		}
	}
	for d := range sim.LinkDir(2 * f.Links()) {
		port, name := func() uint64 { return t.portOf(d) }, DirName(f, d)
		write(port, useTrack+name, unitNone, "%", false, func(k int) float64 {
			return float64(r.Link(k,
				d).Use) / (useUnit / 100)
		})
		write(port, queueTrack+name, unitBytes, "", false, func(k int) float64 { return float64(r.Link(k, d).Queue) })
		write(port, peakTrack+name, unitBytes, "", false, func(k int) float64 { return float64(r.Link(k, d).Peak) })
	}
	for h := range fabric.NodeID(f.Hosts()) {
		if len(r.Hosts) == 0 {
			break
		}
		host, name := func() uint64 { return t.processOf(h) }, f.Name(h)
		write(host, rateTrack+name, unitNone, "Gb/s", false, func(k int) float64 { return float64(r.Host(k, h).Rate) })
		write(host, inFlightTrack+name, unitBytes, "", true, func(k int) float64 { return float64(r.Host(k, h).InFlight) })
		write(host, allowedTrack+name, unitNone, "Gb/s", true, func(k int) float64 { return float64(r.Host(k, h).Allowed) })
	}
	// So that the times of the readings can be read back.
	if len(r.Readings) > 0 {
		times := make([]byte, 0, 4*len(r.Readings))
		for _, at := range r.Readings {
			times = strconv.AppendInt(append(times, ' '), int64(at/fabric.Nanosecond), 10)
		}
		t.event(0, &trackEvent{kind: instantEvent, track: t.processOf(-1), categories: []string{aboutCategory},
			name: "readings", notes: []note{text("readings_ns", string(times))}})
	}
}
