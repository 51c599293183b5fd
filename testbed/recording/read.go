package recording

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/bounded"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// ErrTrace is wrapped by every error about a trace's content.
var ErrTrace = errors.New("no trace of ethereal run --trace")

// Limits of traces.
const (
	maxPacket   = 64 << 20 // bytes of one packet: the result is in one
	maxReadings = 256 << 20
)

// traceLimits bound a trace's content. A recording has at most a tenth of them.
type traceLimits struct {
	packets  int
	unpacked int64 // bytes, of a trace packed by gzip
}

const (
	maxPackets  = 1 << 25
	maxUnpacked = 2 << 30
)

// IsTrace reports whether a file that begins with these bytes is a trace, packed by gzip or not.
func IsTrace(head []byte) bool {
	return len(head) > 1 && (head[0] == 0x0A || head[0] == 0x1F && head[1] == 0x8B)
}

// Read reads a trace that [Recording.Write] wrote, also one packed by gzip, until ctx ends. It refuses more than
// 2^25 packets, and more than 2 GiB once unpacked.
func Read(ctx context.Context, from io.Reader) (*Recording, error) {
	return read(ctx, from, traceLimits{maxPackets, maxUnpacked})
}

func read(ctx context.Context, from io.Reader, most traceLimits) (*Recording, error) {
	in := bufio.NewReaderSize(from, 1<<18)
	if head, err := in.Peek(2); err == nil && head[0] == 0x1F && head[1] == 0x8B {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrTrace, err)
		}
		in = bufio.NewReaderSize(bounded.Reader(ctx, unpacked, most.unpacked), 1<<18)
	}
	t := &traceReader{tracks: map[uint64]*track{}}
	for n := 0; ; n++ {
		p, err := readPacket(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && n == most.packets {
			err = fmt.Errorf("%w: more than %d packets", bounded.ErrTooLong, n)
		}
		if err == nil {
			err = t.packet(p)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("%w: packet %d: %w", ErrTrace, n, err)
		}
	}
	if t.r.Fabric == nil {
		return nil, fmt.Errorf("%w: it does not say of which fabric it is", ErrTrace)
	}
	if err := t.end(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTrace, err)
	}
	return &t.r, nil
}

func readPacket(in *bufio.Reader) (p tracePacket, err error) {
	tag, err := in.ReadByte()
	if err != nil {
		return p, err
	}
	if tag != 0x0A {
		return p, fmt.Errorf("byte %#x where a packet should begin", tag)
	}
	size, err := binary.ReadUvarint(in)
	if err != nil || size > maxPacket {
		return p, fmt.Errorf("a packet of %d bytes: %w", size, noEOF(err))
	}
	var body bytes.Buffer // grows with the existing data, whatever size says
	if _, err := io.CopyN(&body, in, int64(size)); err != nil {
		return p, noEOF(err)
	}
	return parsePacket(body.Bytes())
}

func noEOF(err error) error {
	switch {
	case err == nil:
		return errors.New("too large")
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// track is the content of a track descriptor.
type track struct {
	node  fabric.NodeID
	pid   int32
	name  string
	open  int32 // the open slice; -1: none
	steps []counterStep
}

type counterStep struct {
	at fabric.Time
	v  float64
}

type traceReader struct {
	r        Recording
	tracks   map[uint64]*track
	counters []*track
}

func (t *traceReader) packet(p tracePacket) error {
	if p.track != nil {
		return t.descriptor(p.track)
	}
	e := p.event
	if e == nil {
		return nil
	}
	if p.at > uint64(fabric.Never/fabric.Nanosecond) {
		return fmt.Errorf("a time of %d ns", p.at)
	}
	at := fabric.Time(p.at) * fabric.Nanosecond
	if len(e.categories) == 1 && e.categories[0] == aboutCategory {
		return t.readDescription(e)
	}
	tr := t.tracks[e.track]
	if tr == nil {
		return fmt.Errorf("an event of track %d, which nothing describes", e.track)
	}
	if t.r.Fabric == nil {
		return errors.New("an event before the fabric is described")
	}
	switch e.kind {
	case sliceBegin:
		return t.begin(at, tr, e)
	case sliceEnd:
		if tr.open < 0 {
			return fmt.Errorf("the end of a slice that did not begin, on track %q", tr.name)
		}
		t.r.Slices[tr.open].End = at
		tr.open = -1
	case instantEvent:
		return t.instant(at, tr, e)
	case counterEvent:
		tr.steps = append(tr.steps, counterStep{at, e.value})
	}
	return nil
}

func (t *traceReader) descriptor(d *trackDescriptor) error {
	tr := &track{node: -1, open: -1, name: d.name, pid: d.pid}
	if d.kind == trackCounter {
		t.counters = append(t.counters, tr)
	}
	tr.node = fabric.NodeID(tr.pid - firstPID)
	if tr.pid <= runPID {
		tr.node = -1
	}
	if t.r.Fabric != nil && int(tr.node) >= t.r.Fabric.Nodes() {
		return fmt.Errorf("process %d: the fabric has %d nodes", tr.pid, t.r.Fabric.Nodes())
	}
	t.tracks[d.uuid] = tr
	return nil
}

// notes returns the annotations of an event by name.
func notes(e *trackEvent) map[string]note {
	m := make(map[string]note, len(e.notes))
	for _, n := range e.notes {
		m[n.name] = n
	}
	return m
}

func (t *traceReader) readDescription(e *trackEvent) error {
	m := notes(e)
	if a, ok := m["readings_ns"]; ok {
		last := fabric.Time(-1)
		for text := range strings.FieldsSeq(a.text) {
			ns, err := strconv.ParseInt(text, 10, 64)
			at := fabric.Time(ns) * fabric.Nanosecond
			if err != nil || at <= last || ns > int64(fabric.Never/fabric.Nanosecond) {
				return fmt.Errorf("%q as the time of a reading", text)
			}
			last = at
			t.r.Readings = append(t.r.Readings, at)
		}
		return nil
	}
	if t.r.Fabric != nil {
		return errors.New("the fabric is described twice")
	}
	var spec fabric.Spec
	err := json.Unmarshal([]byte(m["fabric"].text), &spec)
	if err == nil {
		t.r.Fabric, err = fabric.New(spec)
	}
	if err != nil {
		return fmt.Errorf("the fabric: %w", err)
	}
	t.r.Every, t.r.Left = fabric.Time(m["every_ps"].signed()), m["left_out"].signed()
	if a, ok := m["result"]; ok {
		t.r.Result = &report.Result{}
		if err := json.Unmarshal([]byte(a.text), t.r.Result); err != nil {
			return fmt.Errorf("the result: %w", err)
		}
	}
	return nil
}

func (t *traceReader) begin(at fabric.Time, tr *track, e *trackEvent) error {
	if tr.open >= 0 {
		return fmt.Errorf("a slice begins within another on track %q", tr.name)
	}
	if len(e.categories) != 1 {
		return errors.New("a slice of no category")
	}
	m := notes(e)
	s := Slice{
		Kind: SliceKind(e.categories[0]), Begin: at, Node: tr.node, Dst: -1, ID: m["id"].unsigned(), Message: m["message"].unsigned(),
		Bytes: m["bytes"].signed(), Label: fabric.Label(m["label"].signed()), Received: fabric.Time(m["received_ps"].signed()), Open: m["open"].name != "",
	}
	if s.Kind == Piece || s.Kind == Probe {
		s.ID = m["queue_pair"].unsigned()
	}
	var err error
	if a, ok := m["to"]; ok {
		if s.Dst, err = t.r.Fabric.NodeByName(a.text); err != nil {
			return err
		}
	}
	if a, ok := m["path"]; ok {
		if s.Path, err = parsePath(t.r.Fabric, a.text); err != nil {
			return err
		}
	}
	tr.open = int32(len(t.r.Slices))
	t.r.Slices = append(t.r.Slices, s)
	return nil
}

func (t *traceReader) instant(at fabric.Time, tr *track, e *trackEvent) error {
	if len(e.categories) != 1 {
		return errors.New("an instant of no category")
	}
	kind := report.Kind(e.categories[0])
	if kind == "receipt" {
		return nil // its message contains it
	}
	m := notes(e)
	i := Instant{At: at, Kind: kind, Node: -1, Dir: -1, Count: m["count"].signed(), QP: m["queue_pair"].unsigned(), Cause: -1, Text: m["text"].text}
	var err error
	if a, ok := m["node"]; ok {
		if i.Node, err = t.r.Fabric.NodeByName(a.text); err != nil {
			return err
		}
	}
	if a, ok := m["direction"]; ok {
		if i.Dir, err = DirByName(t.r.Fabric, a.text); err != nil {
			return err
		}
	}
	if a, ok := m["answers"]; ok {
		if c := a.signed(); c >= 0 && c < int64(len(t.r.Instants)) {
			i.Cause = int32(c)
		}
	}
	t.r.Instants = append(t.r.Instants, i)
	return nil
}

// end fills in the readings from the counters' tracks.
func (t *traceReader) end() error {
	f, k := t.r.Fabric, len(t.r.Readings)
	if k == 0 || len(t.counters) == 0 {
		return nil
	}
	if k*(2*f.Links()+f.Hosts()) > maxReadings {
		return fmt.Errorf("%d readings of %d links", k, f.Links())
	}
	t.r.Links = make([]LinkReading, k*2*f.Links())
	t.r.Hosts = make([]HostReading, k*f.Hosts())
	for _, tr := range t.counters {
		set, after, err := t.counter(tr.name)
		if err != nil {
			return err
		}
		for i, s := range tr.steps {
			// A value holds from its reading to the next written one.
			from := t.readingOf(s.at, after)
			until := k
			if i+1 < len(tr.steps) {
				until = t.readingOf(tr.steps[i+1].at, after)
			}
			for at := from; at < until; at++ {
				set(at, s.v)
			}
		}
	}
	return nil
}

// readingOf returns the reading of a counter's value from its time in the trace: at the reading, or at the previous
// one.
func (t *traceReader) readingOf(at fabric.Time, after bool) int {
	i := sort.Search(len(t.r.Readings), func(i int) bool { return t.r.Readings[i] >= at })
	if !after && i < len(t.r.Readings) && t.r.Readings[i] == at {
		i++
	}
	return i
}

// counter returns the function that stores a counter's values, and whether their time is that of the reading
// itself.
func (t *traceReader) counter(name string) (set func(k int, v float64), after bool, err error) {
	for _, c := range []struct {
		prefix string
		set    func(l *LinkReading, v float64)
	}{
		{useTrack, func(l *LinkReading, v float64) { l.Use = uint16(v*(useUnit/100) + 0.5) }},
		{queueTrack, func(l *LinkReading, v float64) { l.Queue = int32(v) }},
		{peakTrack, func(l *LinkReading, v float64) { l.Peak = int32(v) }},
	} {
		if rest, ok := strings.CutPrefix(name, c.prefix); ok {
			d, err := DirByName(t.r.Fabric, rest)
			return func(k int, v float64) { c.set(t.link(k, d), v) }, false, err
		}
	}
	for _, c := range []struct {
		prefix string
		after  bool
		set    func(h *HostReading, v float64)
	}{
		{rateTrack, false, func(h *HostReading, v float64) { h.Rate = float32(v) }},
		{inFlightTrack, true, func(h *HostReading, v float64) { h.InFlight = int64(v) }},
		{allowedTrack, true, func(h *HostReading, v float64) { h.Allowed = float32(v) }},
	} {
		if rest, ok := strings.CutPrefix(name, c.prefix); ok {
			n, err := t.r.Fabric.NodeByName(rest)
			if err == nil && int(n) >= t.r.Fabric.Hosts() {
				err = fmt.Errorf("%s is no host", rest)
			}
			return func(k int, v float64) { c.set(&t.r.Hosts[k*t.r.Fabric.Hosts()+int(n)], v) }, c.after, err
		}
	}
	return nil, false, fmt.Errorf("the counter %q is unknown", name)
}

func (t *traceReader) link(k int, d sim.LinkDir) *LinkReading {
	return &t.r.Links[k*2*t.r.Fabric.Links()+int(d)]
}
