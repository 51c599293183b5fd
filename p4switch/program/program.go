package program

import (
	"fmt"
	"math/big"
	"slices"
	"sync"
)

// Program is a compiled P4 program. It is immutable, and safe for concurrent use by any number of switches.
type Program struct {
	Code    []Inst
	Calls   []Call
	Ingress uint32 // places in Code where the pipelines' code starts
	Egress  uint32

	Headers     []Header
	Extractions []Extraction // how each header is copied from and to packets, by header
	Emits       [][]EmitStep // how each header is appended to a hash's input, by header
	Unions      []Union
	Stacks      []Stack
	UnionStacks []UnionStack

	Slots                int
	PHVLo, MetaHi, PHVHi uint32
	Args                 uint32
	Constants            []Constant
	Standard             StandardSlots

	Parser       Parser
	Errors       ParseErrors
	Deparser     []DeparseStep
	DeparsePC    uint32
	Checksums    []Checksum
	Verifies     bool // some checksum is verified on arrival
	Updates      bool // some checksum is updated over other bytes than its header's
	Calculations []Calculation
	FieldLists   map[uint64][]Ref
	DigestByID   map[uint64]int
	DigestFields [][]Ref
	ValueSetUses []ValueSetUse
	RoundRobins  int

	Actions   []Action
	Tables    []Table
	Profiles  []Profile
	Counters  []CounterInfo
	Meters    []MeterInfo
	Registers []RegisterInfo
	ValueSets []ValueSetInfo
	Digests   []DigestInfo

	derived *derivedTables

	tableIndex, profileIndex, counterIndex, meterIndex, registerIndex, vsetIndex map[string]int
}

func (c *compiler) finishProgram(p *Program) {
	p.Code, p.Calls = c.code, c.calls
	p.Headers, p.Unions, p.Stacks, p.UnionStacks = c.headers, c.unions, c.stacks, c.unionStacks
	p.Standard = c.std.slots(c)
	p.Slots, p.PHVLo, p.MetaHi, p.PHVHi, p.Args = int(c.slots), c.phvLo, c.metaHi, c.phvHi, c.args
	p.Constants = c.constList
	p.Parser, p.Errors, p.DeparsePC = c.parser, c.err, c.deparsePC
	p.Checksums, p.Calculations, p.FieldLists = c.checks, c.calcs, c.fieldLists
	p.DigestByID, p.DigestFields, p.ValueSetUses, p.RoundRobins = c.digestByID, c.digestSteps, c.vsetUses, c.roundRobins
	p.Actions, p.Tables, p.Profiles = c.actions, c.tables, c.profiles
	p.Counters, p.Meters, p.Registers, p.ValueSets, p.Digests = c.counters, c.meters, c.registers, c.vsets, c.digests
	p.tableIndex, p.profileIndex, p.counterIndex = c.tableIndex, c.profileByName, c.counterByName
	p.meterIndex, p.registerIndex, p.vsetIndex = c.meterByName, c.registerByName, c.vsetByName
	for i := range p.Tables {
		t := &p.Tables[i]
		for k, a := range t.Info.Actions {
			x := TableAction{PC: p.Actions[a.ID].PC, Words: int32(p.Actions[a.ID].Words)}
			if t.nextHit != nil {
				x.Hit, x.Miss = t.nextHit[k], t.nextDef[k]
			}
			t.Actions = append(t.Actions, x)
		}
		t.Local = make([]int32, len(p.Actions))
		for k := range t.Local {
			t.Local[k] = -1
		}
		for id, k := range t.IndexOf {
			t.Local[id] = int32(k)
		}
		for k, m := range t.masks {
			if m == nil {
				continue
			}
			if t.KeyMask == nil {
				t.KeyMask = make([]uint64, t.Words)
				for j := range t.Key {
					if t.masks[j] == nil {
						t.Key[j].packInto(t.KeyMask, big.NewInt(-1))
					}
				}
			}
			t.Key[k].packInto(t.KeyMask, m)
		}
	}
	for i := range p.Checksums {
		p.Verifies = p.Verifies || p.Checksums[i].Verify
		p.Updates = p.Updates || p.Checksums[i].Update && !p.Checksums[i].Bytes
	}
	for i := range p.Headers {
		h := &p.Headers[i]
		p.Extractions = append(p.Extractions, c.newExtraction(i))
		var steps []EmitStep
		for k := range h.Type.Fields {
			st := c.emitOf(Ref{h, &h.Type.Fields[k]})
			st.Guard = SlotOne
			steps = append(steps, st)
		}
		p.Emits = append(p.Emits, steps)
	}
	for _, id := range c.deparse {
		e := &p.Extractions[id]
		d := DeparseStep{ID: id, Valid: e.Valid, Raw: e.Raw, Dirty: e.Dirty, Bytes: e.Bytes, Patches: e.Patches}
		if p.Headers[id].Meta {
			d.Valid = SlotOne
		}
		for i := range p.Checksums {
			if k := &p.Checksums[i]; k.Bytes && k.Field.h.index == id {
				d.Sum = k
			}
		}
		p.Deparser = append(p.Deparser, d)
	}
}

// derivedTables is data derived from a program once, and shared by all its switches.
type derivedTables struct {
	once   sync.Once
	shared any

	mu     sync.Mutex
	opened map[string]*Program
}

// Shared returns the result of derive, which is called only once per program: for data that depend on the program
// alone, so that its switches share them.
func (p *Program) Shared(derive func() any) any {
	p.derived.once.Do(func() { p.derived.shared = derive() })
	return p.derived.shared
}

// Opened returns a copy of the program in which entries can be added to some tables, and their initial entries changed.
// sizes has these tables with their largest number of entries. BMv2's JSON does not say so; P4Info does.
func (p *Program) Opened(sizes map[TableID]int) *Program {
	if len(sizes) == 0 {
		return p
	}
	p.derived.mu.Lock()
	defer p.derived.mu.Unlock()
	key := fmt.Sprint(sizes) // in the order of the keys
	if q := p.derived.opened[key]; q != nil {
		return q
	}
	q := *p
	q.derived = &derivedTables{}
	q.Tables = slices.Clone(p.Tables)
	for id, size := range sizes {
		info := &q.Tables[id].Info
		info.ConstEntries, info.Size = false, max(size, len(q.Tables[id].Consts))
	}
	if p.derived.opened == nil {
		p.derived.opened = map[string]*Program{}
	}
	p.derived.opened[key] = &q
	return &q
}

// TableByName finds a table by its fully-qualified P4 name.
func (p *Program) TableByName(name string) (TableID, bool) {
	i, ok := p.tableIndex[name]
	return TableID(i), ok
}

// ActionByName finds an action among those that the table lists.
func (p *Program) ActionByName(t TableID, name string) (ActionID, bool) {
	if t < 0 || int(t) >= len(p.Tables) {
		return 0, false
	}
	for _, a := range p.Tables[t].Info.Actions {
		if a.Name == name {
			return a.ID, true
		}
	}
	return 0, false
}

// ProfileByName finds an action profile.
func (p *Program) ProfileByName(name string) (ProfileID, bool) {
	i, ok := p.profileIndex[name]
	return ProfileID(i), ok
}

// CounterByName finds an indirect counter.
func (p *Program) CounterByName(name string) (CounterID, bool) {
	i, ok := p.counterIndex[name]
	return CounterID(i), ok
}

// MeterByName finds a meter, direct or indirect.
func (p *Program) MeterByName(name string) (MeterID, bool) {
	i, ok := p.meterIndex[name]
	return MeterID(i), ok
}

// RegisterByName finds a register.
func (p *Program) RegisterByName(name string) (RegisterID, bool) {
	i, ok := p.registerIndex[name]
	return RegisterID(i), ok
}

// ValueSetByName finds a parser value set.
func (p *Program) ValueSetByName(name string) (ValueSetID, bool) {
	i, ok := p.vsetIndex[name]
	return ValueSetID(i), ok
}

// DigestByName finds a digest.
func (p *Program) DigestByName(name string) (DigestID, bool) {
	for i := range p.Digests {
		if p.Digests[i].Name == name {
			return DigestID(i), true
		}
	}
	return 0, false
}
