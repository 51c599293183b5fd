package bmv2

import (
	"errors"
	"iter"
)

var errNotYet = errors.New("bmv2: under construction")

type pkt struct{}

// Program is a compiled P4 program: immutable, shared by many switches.
type Program struct{}

// Load compiles BMv2 JSON. Errors name the construct and where it is.
func Load(json []byte) (*Program, error) { return nil, errNotYet }

func (p *Program) Tables() []TableInfo                                  { return nil }
func (p *Program) Actions() []ActionInfo                                { return nil }
func (p *Program) Profiles() []ProfileInfo                              { return nil }
func (p *Program) Counters() []CounterInfo                              { return nil }
func (p *Program) Meters() []MeterInfo                                  { return nil }
func (p *Program) Registers() []RegisterInfo                            { return nil }
func (p *Program) ValueSets() []ValueSetInfo                            { return nil }
func (p *Program) Digests() []DigestInfo                                { return nil }
func (p *Program) TableByName(name string) (TableID, bool)              { return 0, false }
func (p *Program) ActionByName(t TableID, name string) (ActionID, bool) { return 0, false }
func (p *Program) ProfileByName(name string) (ProfileID, bool)          { return 0, false }
func (p *Program) CounterByName(name string) (CounterID, bool)          { return 0, false }
func (p *Program) MeterByName(name string) (MeterID, bool)              { return 0, false }
func (p *Program) RegisterByName(name string) (RegisterID, bool)        { return 0, false }
func (p *Program) ValueSetByName(name string) (ValueSetID, bool)        { return 0, false }
func (p *Program) DigestByName(name string) (DigestID, bool)            { return 0, false }

// Config sets up one switch.
type Config struct {
	Seed          uint64             // of random and of nothing else
	QueuesPerPort int                // default 1
	DropPort      uint32             // default 511
	MaxPasses     int                // resubmits plus recirculations of one packet; default 256
	Digest        func(DigestRecord) // nil: digests are discarded
	Log           func(LogRecord)    // nil: log_msg is discarded
}

// Switch is the state of one switch.
type Switch struct{}

func NewSwitch(p *Program, cfg Config) *Switch { return &Switch{} }

func (s *Switch) Program() *Program { return nil }

func (s *Switch) Ingress(in Input, out *Batch)                                  {}
func (s *Switch) Resume(p *Packet, now int64, out *Batch)                       {}
func (s *Switch) Egress(p *Packet, q QueueState, out *Batch) (o Output, k bool) { return }
func (s *Switch) Free(p *Packet)                                                {}
func (s *Switch) Process(in Input, emit func(Output))                           {}
func (s *Switch) Drops() DropCounts                                             { return DropCounts{} }

func (s *Switch) Insert(t TableID, e Entry) (Handle, error)                         { return 0, errNotYet }
func (s *Switch) Modify(t TableID, h Handle, target Target) error                   { return errNotYet }
func (s *Switch) Delete(t TableID, h Handle) error                                  { return errNotYet }
func (s *Switch) Find(t TableID, match []FieldMatch, priority int32) (Handle, bool) { return 0, false }
func (s *Switch) Entry(t TableID, h Handle) (Entry, error)                          { return Entry{}, errNotYet }
func (s *Switch) Entries(t TableID) iter.Seq2[Handle, Entry]                        { return nil }
func (s *Switch) Len(t TableID) int                                                 { return 0 }
func (s *Switch) SetDefault(t TableID, target Target) error                         { return errNotYet }
func (s *Switch) ResetDefault(t TableID) error                                      { return errNotYet }
func (s *Switch) Default(t TableID) (Target, bool)                                  { return Target{}, false }

// SetIdleTimeout changes an entry's idle timeout.
func (s *Switch) SetIdleTimeout(t TableID, h Handle, ns int64) error { return errNotYet }

// LastHit returns when (ns since the switch started) a packet last hit the entry, or when it was inserted.
func (s *Switch) LastHit(t TableID, h Handle) (int64, error) { return 0, errNotYet }

// Idle yields the entries whose idle timeout has passed at now, with the time since their last hit.
func (s *Switch) Idle(t TableID, now int64) iter.Seq2[Handle, int64] { return nil }

func (s *Switch) AddMember(pr ProfileID, c ActionCall) (MemberID, error)     { return 0, errNotYet }
func (s *Switch) ModifyMember(pr ProfileID, m MemberID, c ActionCall) error  { return errNotYet }
func (s *Switch) DeleteMember(pr ProfileID, m MemberID) error                { return errNotYet }
func (s *Switch) Member(pr ProfileID, m MemberID) (ActionCall, error)        { return ActionCall{}, errNotYet }
func (s *Switch) Members(pr ProfileID) iter.Seq2[MemberID, ActionCall]       { return nil }
func (s *Switch) CreateGroup(pr ProfileID) (GroupID, error)                  { return 0, errNotYet }
func (s *Switch) SetGroup(pr ProfileID, g GroupID, members []MemberID) error { return errNotYet }
func (s *Switch) DeleteGroup(pr ProfileID, g GroupID) error                  { return errNotYet }
func (s *Switch) Group(pr ProfileID, g GroupID) ([]MemberID, error)          { return nil, errNotYet }
func (s *Switch) Groups(pr ProfileID) iter.Seq2[GroupID, []MemberID]         { return nil }
func (s *Switch) SetMemberLive(pr ProfileID, m MemberID, live bool) error    { return errNotYet }
func (s *Switch) MemberLive(pr ProfileID, m MemberID) (bool, error)          { return false, errNotYet }
func (s *Switch) Counter(id CounterID, index int) (packets, bytes uint64, err error) {
	return 0, 0, errNotYet
}
func (s *Switch) SetCounter(id CounterID, index int, packets, bytes uint64) error { return errNotYet }
func (s *Switch) DirectCounter(t TableID, h Handle) (packets, bytes uint64, err error) {
	return 0, 0, errNotYet
}
func (s *Switch) SetDirectCounter(t TableID, h Handle, packets, bytes uint64) error { return errNotYet }
func (s *Switch) SetMeter(id MeterID, index int, c MeterConfig) error               { return errNotYet }
func (s *Switch) ClearMeter(id MeterID, index int) error                            { return errNotYet }
func (s *Switch) Meter(id MeterID, index int) (c MeterConfig, set bool, err error) {
	return c, false, errNotYet
}
func (s *Switch) SetDirectMeter(t TableID, h Handle, c MeterConfig) error { return errNotYet }
func (s *Switch) ClearDirectMeter(t TableID, h Handle) error              { return errNotYet }
func (s *Switch) DirectMeter(t TableID, h Handle) (c MeterConfig, set bool, err error) {
	return c, false, errNotYet
}
func (s *Switch) Register(id RegisterID, index int) ([]byte, error)        { return nil, errNotYet }
func (s *Switch) SetRegister(id RegisterID, index int, value []byte) error { return errNotYet }
func (s *Switch) SetCloneSession(id uint32, c CloneSession) error          { return errNotYet }
func (s *Switch) DeleteCloneSession(id uint32) error                       { return errNotYet }
func (s *Switch) CloneSession(id uint32) (CloneSession, error)             { return CloneSession{}, errNotYet }
func (s *Switch) CloneSessions() iter.Seq2[uint32, CloneSession]           { return nil }
func (s *Switch) SetMulticastGroup(id uint32, replicas []Replica) error    { return errNotYet }
func (s *Switch) DeleteMulticastGroup(id uint32) error                     { return errNotYet }
func (s *Switch) MulticastGroup(id uint32) ([]Replica, error)              { return nil, errNotYet }
func (s *Switch) MulticastGroups() iter.Seq2[uint32, []Replica]            { return nil }
func (s *Switch) SetValueSet(id ValueSetID, members [][]FieldMatch) error  { return errNotYet }
func (s *Switch) ValueSet(id ValueSetID) ([][]FieldMatch, error)           { return nil, errNotYet }

// Begin, Commit and Rollback bracket a batch of control operations.
func (s *Switch) Begin()    {}
func (s *Switch) Commit()   {}
func (s *Switch) Rollback() {}
