package interp

import (
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// Handle identifies an entry of one table while the entry exists. Handles are not reused.
type Handle uint64

// DefaultEntry is the handle of a table's default entry, for its direct counter and meter.
const DefaultEntry Handle = 0

// MemberID names a member of an action profile.
type MemberID uint32

// GroupID names a group of an action profile.
type GroupID uint32

// ActionCall is an action with its arguments, in the order of
// [program.ActionInfo.Params].
type ActionCall struct {
	Action program.ActionID
	Args   [][]byte
}

// TargetKind is how a table entry refers to its action.
type TargetKind uint8

const (
	// ByAction means that the entry names an action.
	ByAction TargetKind = iota
	// ByMember means that the entry names a member of the table's action profile, which names the action.
	ByMember
	// ByGroup means that the entry names a group of the action profile, from which the selector picks a member per
	// packet.
	ByGroup
)

// Target is the action that a table executes on a hit of an entry: directly, or by a member or group.
type Target struct {
	Kind   TargetKind
	Call   ActionCall // the action, if Kind is ByAction
	Member MemberID   // the member, if Kind is ByMember
	Group  GroupID    // the group, if Kind is ByGroup
}

// Entry is a table entry.
type Entry struct {
	Match         []program.FieldMatch
	Priority      int32 // larger wins; 0 where the table has no ternary, range or optional field
	Target        Target
	IdleTimeoutNs int64 // ns without a packet until it is reported; 0: never
	Const         bool  // defined by the P4 program; set by reads only
}

// MeterConfig is the two rates of a meter. Rates are per second, bursts are amounts: of packets or bytes, as
// [program.MeterInfo].Packets says.
type MeterConfig struct {
	CIR, CBurst int64
	PIR, PBurst int64
}

// Replica is one copy that a multicast group or clone session makes.
type Replica struct {
	Port     uint32
	Instance uint16 // value of egress_rid in the copy
}

// CloneSession is the copies that a clone (mirror) session makes, and where they go.
type CloneSession struct {
	Replicas []Replica
	Truncate int   // bytes that a clone keeps at most; 0: all
	Class    uint8 // priority queue of the clones
}

// DigestRecord is one digest message from the data plane. It and its slices are valid during the callback only.
type DigestRecord struct {
	Digest program.DigestID
	Fields [][]byte // ceil(width/8) bytes each; nil: of an invalid header
	Now    int64    // ns since the switch started
}

// LogKind is the P4 construct that made a log record: log_msg, assert or assume.
type LogKind uint8

const (
	// LogMessage comes from the program's log_msg.
	LogMessage LogKind = iota
	// LogAssert is a failed assert of the program. The packet is dropped; BMv2 would abort.
	LogAssert
	// LogAssume is a failed assume; treated as LogAssert.
	LogAssume
)

// LogRecord is a message of the P4 program: from log_msg, or of a failed assert or assume.
type LogRecord struct {
	Kind LogKind
	Text string
	Now  int64 // ns since the switch started
}
