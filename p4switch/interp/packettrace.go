package interp

// Tracer records what each packet does in the pipelines. Switches that share one must belong to one goroutine. They
// then do not use [Traces].
type Tracer struct {
	// Done is called with a packet's record when the packet was sent or dropped. The record belongs to Done.
	Done func(*PacketTrace)
	last uint64
}

// PacketTrace is what one packet, or one copy, did in a switch, step by step.
type PacketTrace struct {
	ID     uint64 // from 1, in the order of arrival
	CopyOf uint64 // ID of the packet of which this is a clone or replica; 0: of none
	Port   uint32 // ingress port of the packet
	Now    int64  // ns since the switch started, at its arrival or copy
	Events []TraceEvent
	Sent   *Transmitted // the packet as it left; nil: it did not leave
	Copied bool         // multicast: only its copies went on
	Drop   DropReason   // why it was dropped, if it was neither sent nor copied
}

// Transmitted is a packet as it left the switch.
type Transmitted struct {
	Port   uint32
	Length int // bytes on the wire
}

// TraceEventKind is the kind of a [TraceEvent].
type TraceEventKind uint8

// The kinds of events.
const (
	StageEnter  TraceEventKind = iota // Name: parser, ingress, egress or deparser
	StageExit                         // the packet leaves a stage; Name as for StageEnter
	ParserState                       // Name: the parser state that was entered
	ParserError                       // Code: the number that the program gives the error
	TableLookup                       // Name: the table; Hit; Action: the action executed, "" if none
	Again                             // Name: resubmit or recirculate; the packet starts again
	Truncated                         // the record is full; further steps are missing
)

// maxTraceEvents bounds the events of one trace: a packet may circulate for ever.
const maxTraceEvents = 4096

// TraceEvent is one step of a packet.
type TraceEvent struct {
	Kind   TraceEventKind
	Name   string
	Action string
	Hit    bool
	Code   uint64
}

// begin gives a packet its trace; from is what it is a copy of, or nil.
func (t *Tracer) begin(p, from *Packet, now int64) {
	if t == nil {
		return
	}
	t.last++
	p.trace = &PacketTrace{ID: t.last, Port: p.IngressPort, Now: now}
	if from != nil && from.trace != nil {
		p.trace.CopyOf = from.trace.ID
	}
}

// end hands out the trace of a packet that was sent, or dropped if sent is nil.
func (t *Tracer) end(p *Packet, why DropReason, sent *Transmitted) {
	if trace := p.trace; trace != nil {
		p.trace, trace.Drop, trace.Sent = nil, why, sent
		t.Done(trace)
	}
}

func (p *Packet) addTraceEvent(kind TraceEventKind, name string) {
	if p.trace != nil {
		p.trace.add(TraceEvent{Kind: kind, Name: name})
	}
}

func (t *PacketTrace) add(e TraceEvent) {
	if len(t.Events) == maxTraceEvents {
		e = TraceEvent{Kind: Truncated}
	}
	if len(t.Events) <= maxTraceEvents {
		t.Events = append(t.Events, e)
	}
}

// noteLookup records what a table makes of a packet: the entry hit, or -1. enter adds the action of a member.
func (s *Switch) noteLookup(p *Packet, ts *tableState, hit int32) {
	e := TraceEvent{Kind: TableLookup, Name: ts.t.Info.Name, Hit: hit >= 0}
	action := func(kind TargetKind, target int32) {
		if kind == ByAction {
			e.Action = s.p.Actions[ts.t.Info.Actions[target].ID].Info.Name
		}
	}
	if hit >= 0 {
		action(ts.entries[hit].kind, ts.entries[hit].target)
	} else if ts.def.set {
		action(ts.def.kind, ts.def.target)
	}
	p.trace.add(e)
}
