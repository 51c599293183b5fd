package recording

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ethereal-fabric/ethereal/internal/wirefields"
)

// The messages of trace.proto, as far as they are used, with its field numbers.

// tracePacket has at most one of the two messages.
type tracePacket struct {
	at    uint64 // ns
	first bool   // earlier packets of the sequence do not count
	track *trackDescriptor
	event *trackEvent
}

// trackDescriptor describes a process, a thread or a counter.
type trackDescriptor struct {
	uuid, parent uint64
	kind         protowire.Number // trackProcess, trackThread or trackCounter
	pid, tid     int32
	name         string
	unit         uint64
	unitName     string
}

const (
	trackProcess protowire.Number = 3
	trackThread  protowire.Number = 4
	trackCounter protowire.Number = 8
)

// Units of counters.
const (
	unitNone  = 0
	unitBytes = 3
)

type eventType uint64

const (
	sliceBegin eventType = 1 + iota
	sliceEnd
	instantEvent
	counterEvent
)

type trackEvent struct {
	kind       eventType
	track      uint64
	categories []string
	name       string
	notes      []note
	flows      []uint64 // arrows that begin
	ends       []uint64 // arrows that end
	value      float64  // of a counter
	whole      bool     // it is an integer
}

// note is a DebugAnnotation: a value by name.
type note struct {
	name   string
	field  protowire.Number // noteUnsigned, noteSigned or noteText
	number uint64
	text   string
}

const (
	noteUnsigned protowire.Number = 3
	noteSigned   protowire.Number = 4
	noteText     protowire.Number = 6
)

func text(name, value string) note { return note{name: name, field: noteText, text: value} }

func number(name string, value int64) note {
	return note{name: name, field: noteSigned, number: uint64(value)}
}

func unsigned(name string, value uint64) note {
	return note{name: name, field: noteUnsigned, number: value}
}

func (n note) signed() int64 {
	if n.field != noteSigned {
		return 0
	}
	return int64(n.number)
}

func (n note) unsigned() uint64 {
	if n.field != noteUnsigned {
		return 0
	}
	return n.number
}

// message is a message being written.
type message []byte

func (m *message) varint(f protowire.Number, v uint64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, f, protowire.VarintType), v)
}

func (m *message) fixed(f protowire.Number, v uint64) {
	*m = protowire.AppendFixed64(protowire.AppendTag(*m, f, protowire.Fixed64Type), v)
}

func (m *message) text(f protowire.Number, s string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, f, protowire.BytesType), s)
}

func (m *message) message(f protowire.Number, b message) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, f, protowire.BytesType), b)
}

func (p *tracePacket) append(m message) message {
	if p.event != nil {
		m.varint(8, p.at)
	}
	m.varint(10, sequenceID)
	if p.event != nil {
		m.message(11, p.event.append(nil))
	}
	if p.first {
		m.varint(13, 1)
	}
	if p.track != nil {
		m.message(60, p.track.append(nil))
	}
	return m
}

func (d *trackDescriptor) append(m message) message {
	m.varint(1, d.uuid)
	var is message
	switch d.kind {
	case trackProcess:
		is.varint(1, uint64(d.pid))
		is.text(6, d.name)
	case trackThread:
		is.varint(1, uint64(d.pid))
		is.varint(2, uint64(d.tid))
		is.text(5, d.name)
	case trackCounter:
		m.text(2, d.name)
		m.varint(5, d.parent)
		is.varint(3, d.unit)
		if d.unitName != "" {
			is.text(6, d.unitName)
		}
	}
	m.message(d.kind, is)
	return m
}

func (e *trackEvent) append(m message) message {
	for _, n := range e.notes {
		var a message
		if n.field == noteText {
			a.text(n.field, n.text)
		} else {
			a.varint(n.field, n.number)
		}
		a.text(10, n.name)
		m.message(4, a)
	}
	m.varint(9, uint64(e.kind))
	m.varint(11, e.track)
	for _, c := range e.categories {
		m.text(22, c)
	}
	if e.kind == sliceBegin || e.kind == instantEvent {
		m.text(23, e.name)
	}
	switch {
	case e.kind == counterEvent && e.whole:
		m.varint(30, uint64(int64(e.value)))
	case e.kind == counterEvent:
		m.fixed(44, math.Float64bits(e.value))
	}
	for _, id := range e.flows {
		m.fixed(47, id)
	}
	for _, id := range e.ends {
		m.fixed(48, id)
	}
	return m
}

// Types at the end of tags, for tags as constants.
const (
	varint = uint64(protowire.VarintType)
	fixed  = uint64(protowire.Fixed64Type)
	length = uint64(protowire.BytesType)
)

func parsePacket(b []byte) (p tracePacket, err error) {
	return p, wirefields.Each(b, func(f protowire.Number, typ protowire.Type, v uint64, sub []byte) error {
		switch protowire.EncodeTag(f, typ) {
		case 8<<3 | varint:
			p.at = v
		case 11<<3 | length:
			p.event = &trackEvent{}
			return p.event.parse(sub)
		case 60<<3 | length:
			p.track = &trackDescriptor{}
			return p.track.parse(sub)
		}
		return nil
	})
}

func (d *trackDescriptor) parse(b []byte) error {
	return wirefields.Each(b, func(f protowire.Number, typ protowire.Type, v uint64, sub []byte) error {
		switch protowire.EncodeTag(f, typ) {
		case 1<<3 | varint:
			d.uuid = v
		case 2<<3 | length:
			d.name = string(sub)
		case 3<<3 | length, 4<<3 | length, 8<<3 | length:
			d.kind = f
			return wirefields.Each(sub, func(f protowire.Number, typ protowire.Type, v uint64, text []byte) error {
				switch {
				case d.kind == trackCounter:
				case f == 1 && typ == protowire.VarintType:
					d.pid = int32(v)
				case f == 5 && d.kind == trackThread && typ == protowire.BytesType:
					d.name = string(text)
				}
				return nil
			})
		}
		return nil
	})
}

func (e *trackEvent) parse(b []byte) error {
	return wirefields.Each(b, func(f protowire.Number, typ protowire.Type, v uint64, sub []byte) error {
		switch protowire.EncodeTag(f, typ) {
		case 4<<3 | length:
			e.notes = append(e.notes, note{})
			return e.notes[len(e.notes)-1].parse(sub)
		case 9<<3 | varint:
			e.kind = eventType(v)
		case 11<<3 | varint:
			e.track = v
		case 22<<3 | length:
			e.categories = append(e.categories, string(sub))
		case 30<<3 | varint:
			e.value = float64(int64(v))
		case 44<<3 | fixed:
			e.value = math.Float64frombits(v)
		}
		return nil
	})
}

func (n *note) parse(b []byte) error {
	return wirefields.Each(b, func(f protowire.Number, typ protowire.Type, v uint64, text []byte) error {
		switch protowire.EncodeTag(f, typ) {
		case 3<<3 | varint, 4<<3 | varint:
			n.field, n.number = f, v
		case 6<<3 | length:
			n.field, n.text = f, string(text)
		case 10<<3 | length:
			n.name = string(text)
		}
		return nil
	})
}
