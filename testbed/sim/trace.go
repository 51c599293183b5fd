package sim

import (
	"bufio"
	"io"
	"strconv"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Record is one event of the event log.
type Record struct {
	At     fabric.Time
	Kind   RecordKind
	Node   fabric.NodeID // where it happened; -1: nowhere in particular
	Dir    LinkDir       // -1: not at a link
	Reason DropReason    // why the packet was dropped, for a drop
	Class  uint8
	// Length, Payload (bytes) and Header are the packet's. Header is valid during the call; of a packet dropped before
	// egress it is as it arrived.
	Length, Payload int
	Header          []byte
	Text            string // the text of a note
}

// Tracer receives the events of a run. Trace must not call the network.
type Tracer interface {
	Trace(Record)
}

// Tracers passes each event to several tracers.
type Tracers []Tracer

// Trace receives one event of the run, for [Tracer].
func (t Tracers) Trace(r Record) {
	for _, tracer := range t {
		tracer.Trace(r)
	}
}

// JSONL is a [Tracer] that writes events as lines of JSON. Create it with [NewJSONL].
type JSONL struct {
	w    *bufio.Writer
	fab  *fabric.Fabric
	line []byte
	err  error
}

// NewJSONL returns a tracer that writes to w one object per record: at_ps and
// event, and where they apply node, link ("tor0>agg1"), reason, class, length,
// payload and text.
func NewJSONL(w io.Writer, f *fabric.Fabric) *JSONL {
	return &JSONL{w: bufio.NewWriterSize(w, 1<<16), fab: f}
}

// Trace receives one event of the run, for [Tracer].
func (j *JSONL) Trace(r Record) {
	if j.err != nil {
		return
	}
	b := append(j.line[:0], `{"at_ps":`...)
	b = strconv.AppendInt(b, int64(r.At), 10)
	b = append(b, `,"event":"`...)
	b = append(b, r.Kind.String()...)
	b = append(b, '"')
	if r.Node >= 0 {
		b = append(b, `,"node":"`...)
		b = append(b, j.fab.Name(r.Node)...)
		b = append(b, '"')
	}
	if r.Dir >= 0 {
		l := j.fab.Link(r.Dir.Link())
		from, to := l.A.Node, l.B.Node
		if !r.Dir.Up() {
			from, to = to, from
		}
		b = append(b, `,"link":"`...)
		b = append(b, j.fab.Name(from)...)
		b = append(b, '>')
		b = append(b, j.fab.Name(to)...)
		b = append(b, '"')
	}
	if r.Kind == RecordDrop {
		b = append(b, `,"reason":"`...)
		b = append(b, r.Reason.String()...)
		b = append(b, '"')
	}
	if r.Length > 0 {
		b = append(b, `,"class":`...)
		b = strconv.AppendUint(b, uint64(r.Class), 10)
		b = append(b, `,"length":`...)
		b = strconv.AppendInt(b, int64(r.Length), 10)
		b = append(b, `,"payload":`...)
		b = strconv.AppendInt(b, int64(r.Payload), 10)
	}
	if r.Text != "" {
		b = append(b, `,"text":`...)
		b = appendJSONString(b, r.Text)
	}
	j.line = append(b, '}', '\n')
	_, j.err = j.w.Write(j.line)
}

// Flush writes buffered lines and returns the first error of writing.
func (j *JSONL) Flush() error {
	if err := j.w.Flush(); j.err == nil {
		j.err = err
	}
	return j.err
}

// appendJSONString quotes s; bytes that are not UTF-8 become U+FFFD.
func appendJSONString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			b = append(b, string(r)...)
		}
	}
	return append(b, '"')
}
