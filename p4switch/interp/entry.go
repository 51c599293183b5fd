package interp

import (
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// Handle names an entry of one table for as long as the entry lives; handles
// are not used again.
type Handle uint64

// DefaultEntry is the handle of a table's default entry, where the direct counter or meter of an entry is named.
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

// TargetKind says how an entry names what to do.
type TargetKind uint8

const (
	// ByAction means that the entry carries the action.
	ByAction TargetKind = iota
	// ByMember means that a member of the table's action profile does.
	ByMember
	// ByGroup means that the selector picks a member of a group.
	ByGroup
)

// Target is what an entry does on a hit.
type Target struct {
	Kind   TargetKind
	Call   ActionCall // ByAction
	Member MemberID   // ByMember
	Group  GroupID    // ByGroup
}

// Entry is a table entry.
type Entry struct {
	Match         []program.FieldMatch
	Priority      int32 // larger wins; 0 where the table has no ternary, range or optional field
	Target        Target
	IdleTimeoutNs int64 // 0: none
	Const         bool  // came with the program; set by reads only
}

// MeterConfig holds a meter's two rates. Rates are per second and bursts are
// amounts, of packets or bytes as [program.MeterInfo.Packets] says.
type MeterConfig struct {
	CIR, CBurst int64
	PIR, PBurst int64
}

// Replica is one copy that a multicast group or clone session makes.
type Replica struct {
	Port     uint32
	Instance uint16 // egress_rid
}

// CloneSession says where clones go.
type CloneSession struct {
	Replicas []Replica
	Truncate int   // bytes that a clone keeps at most; 0: all
	Class    uint8 // queue of the clones
}

// DigestRecord is one digest message. It and its slices are valid during the
// callback only.
type DigestRecord struct {
	Digest program.DigestID
	Fields [][]byte // ceil(width/8) bytes each; nil: of an invalid header
	Now    int64    // ns
}

// LogKind distinguishes the sources of log records.
type LogKind uint8

const (
	// LogMessage comes from the program's log_msg.
	LogMessage LogKind = iota
	// LogAssert is a failed assert; BMv2 would abort, here the packet is dropped.
	LogAssert
	// LogAssume is a failed assume; treated as LogAssert.
	LogAssume
)

// LogRecord is one log line.
type LogRecord struct {
	Kind LogKind
	Text string
	Now  int64 // ns
}
