package interp

import (
	"math/big"
	"slices"
)

// Program is a compiled P4 program. It is immutable: any number of switches
// and goroutines may share it.
type Program struct {
	code    []inst
	calls   []call
	ingress uint32 // program counters
	egress  uint32

	headers     []header
	extracts    []extraction // by header
	emits       [][]emitStep // by header
	unions      []union
	stacks      []stack
	unionStacks []unionStack

	slots                int
	phvLo, metaHi, phvHi uint32
	args                 uint32
	consts               []constSlot
	std                  standardSlots

	parser     parser
	errs       parseErrors
	deparse    []deparseStep
	deparsePC  uint32
	checks     []checksum
	verifies   bool // some checksum is verified
	updates    bool // some is updated otherwise than over its header's bytes
	calcs      []calc
	fieldLists map[uint64][]ref
	digestByID map[uint64]int
	digestRefs [][]ref
	vsetUses   []vsetUse
	rrs        int

	actions   []action
	tables    []table
	profiles  []profile
	counters  []CounterInfo
	meters    []MeterInfo
	registers []RegisterInfo
	vsets     []ValueSetInfo
	digests   []DigestInfo

	tableIndex, profileIndex, counterIndex, meterIndex, registerIndex, vsetIndex map[string]int
}

func (c *compiler) finish(p *Program) {
	p.code, p.calls = c.code, c.calls
	p.headers, p.unions, p.stacks, p.unionStacks = c.headers, c.unions, c.stacks, c.unionStacks
	p.std = c.std.slots(c)
	p.slots, p.phvLo, p.metaHi, p.phvHi, p.args = int(c.slots), c.phvLo, c.metaHi, c.phvHi, c.args
	p.consts = c.constList
	p.parser, p.errs, p.deparsePC = c.parser, c.err, c.deparsePC
	p.checks, p.calcs, p.fieldLists = c.checks, c.calcs, c.fieldLists
	p.digestByID, p.digestRefs, p.vsetUses, p.rrs = c.digestByID, c.digestSteps, c.vsetUses, c.roundRobins
	p.actions, p.tables, p.profiles = c.actions, c.tables, c.profiles
	p.counters, p.meters, p.registers, p.vsets, p.digests = c.counters, c.meters, c.registers, c.vsets, c.digests
	p.tableIndex, p.profileIndex, p.counterIndex = c.tableIndex, c.profileByName, c.counterByName
	p.meterIndex, p.registerIndex, p.vsetIndex = c.meterByName, c.registerByName, c.vsetByName
	for i := range p.tables {
		t := &p.tables[i]
		for k, a := range t.info.Actions {
			x := tableAction{pc: p.actions[a.ID].pc, words: int32(p.actions[a.ID].words)}
			if t.nextHit != nil {
				x.hit, x.def = t.nextHit[k], t.nextDef[k]
			}
			t.acts = append(t.acts, x)
		}
		t.local = make([]int32, len(p.actions))
		for k := range t.local {
			t.local[k] = -1
		}
		for id, k := range t.byID {
			t.local[id] = int32(k)
		}
		for k, m := range t.masks {
			if m == nil {
				continue
			}
			if t.big == nil {
				t.big = make([]uint64, t.words)
				for j := range t.key {
					if t.masks[j] == nil {
						t.key[j].place(t.big, big.NewInt(-1))
					}
				}
			}
			t.key[k].place(t.big, m)
		}
	}
	for i := range p.tables {
		if t := &p.tables[i]; len(t.consts) > 0 {
			ts := &tableState{}
			ts.build(t)
			t.template = ts
		}
	}
	for i := range p.checks {
		p.verifies = p.verifies || p.checks[i].verify
		p.updates = p.updates || p.checks[i].update && !p.checks[i].bytes
	}
	for i := range p.headers {
		h := &p.headers[i]
		p.extracts = append(p.extracts, c.newExtraction(i))
		var steps []emitStep
		for k := range h.typ.fields {
			st := c.emitOf(ref{h, &h.typ.fields[k]})
			st.guard = slotOne
			steps = append(steps, st)
		}
		p.emits = append(p.emits, steps)
	}
	for _, id := range c.deparse {
		e := &p.extracts[id]
		d := deparseStep{id: id, valid: e.valid, raw: e.raw, dirty: e.dirty, bytes: e.bytes, patches: e.patches}
		if p.headers[id].meta {
			d.valid = slotOne
		}
		for i := range p.checks {
			if k := &p.checks[i]; k.bytes && k.field.h.index == id {
				d.sum = k
			}
		}
		p.deparse = append(p.deparse, d)
	}
}

// Tables describes the tables, indexed by TableID. The result is shared: do
// not change it.
func (p *Program) Tables() []TableInfo {
	out := make([]TableInfo, len(p.tables))
	for i := range p.tables {
		out[i] = p.tables[i].info
	}
	return out
}

// Actions describes all actions, indexed by ActionID.
func (p *Program) Actions() []ActionInfo {
	out := make([]ActionInfo, len(p.actions))
	for i := range p.actions {
		out[i] = p.actions[i].info
	}
	return out
}

// Profiles describes the action profiles, indexed by ProfileID.
func (p *Program) Profiles() []ProfileInfo {
	out := make([]ProfileInfo, len(p.profiles))
	for i := range p.profiles {
		out[i] = p.profiles[i].info
	}
	return out
}

// Counters describes the indirect counters, indexed by CounterID.
func (p *Program) Counters() []CounterInfo { return slices.Clone(p.counters) }

// Meters describes the meters, direct ones too, indexed by MeterID.
func (p *Program) Meters() []MeterInfo { return slices.Clone(p.meters) }

// Registers describes the registers, indexed by RegisterID.
func (p *Program) Registers() []RegisterInfo { return slices.Clone(p.registers) }

// ValueSets describes the parser value sets, indexed by ValueSetID.
func (p *Program) ValueSets() []ValueSetInfo { return slices.Clone(p.vsets) }

// Digests describes the digests, indexed by DigestID.
func (p *Program) Digests() []DigestInfo { return slices.Clone(p.digests) }

// TableByName finds a table by its fully-qualified P4 name.
func (p *Program) TableByName(name string) (TableID, bool) {
	i, ok := p.tableIndex[name]
	return TableID(i), ok
}

// ActionByName finds an action among those that the table lists.
func (p *Program) ActionByName(t TableID, name string) (ActionID, bool) {
	if t < 0 || int(t) >= len(p.tables) {
		return 0, false
	}
	for _, a := range p.tables[t].info.Actions {
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
	for i := range p.digests {
		if p.digests[i].Name == name {
			return DigestID(i), true
		}
	}
	return 0, false
}
