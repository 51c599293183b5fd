package program

import (
	"encoding/json"
	"errors"
	"fmt"
)

// compiler turns the JSON into a Program.
type compiler struct {
	j jProgram

	types            map[string]*HeaderType
	headers          []Header
	headerByName     map[string]int
	usage            []headerUse
	unions           []Union
	unionByName      map[string]int
	unionCopy        bool // the primitive may be a part of the assignment of a union
	stacks           []Stack
	stackByName      map[string]int
	unionStacks      []UnionStack
	unionStackByName map[string]int
	aliases          map[string][2]string
	std              standardFields

	slots                uint32
	phvLo, metaHi, phvHi uint32
	args                 uint32
	consts               map[uint64]uint32
	constList            []Constant
	tempFree             map[int][]uint32
	tempUsed             []tempBlock

	code    []Inst
	barrier int
	depth   int
	params  []ArgSlots
	calls   []Call

	actions        []Action
	actionByID     map[int]int
	tables         []Table
	tableIndex     map[string]int
	profiles       []Profile
	profileByName  map[string]int
	counters       []CounterInfo
	counterByName  map[string]int
	meters         []MeterInfo
	meterByName    map[string]int
	meterTarget    []Place
	registers      []RegisterInfo
	registerByName map[string]int
	vsets          []ValueSetInfo
	vsetByName     map[string]int
	vsetUses       []ValueSetUse
	calcs          []Calculation
	calcByName     map[string]int
	calcUses       map[int]int // how many primitives, selectors and checksums run each
	digests        []DigestInfo
	digestSteps    [][]Ref
	digestByID     map[uint64]int
	fieldLists     map[uint64][]Ref
	errors         map[string]uint64
	err            ParseErrors
	parser         Parser
	checks         []Checksum
	deparse        []int // header ids in order
	deparsePC      uint32
	roundRobins    int
}

// standardFields are those that simple_switch reads and writes itself. A
// field that the program does not have has a nil header.
type standardFields struct {
	ingressPort, packetLength, instanceType, egressSpec, egressPort Ref
	ingressTS, egressTS, mcast, rid, priority                       Ref
	enqTS, enqDepth, deqDelta, deqDepth, qid                        Ref
	parserError, checksumError                                      Ref
}

// ErrUnsupported is wrapped by the error of [Load] for a construct that this package does not execute.
var ErrUnsupported = errors.New("unsupported construct")

// Load compiles the BMv2 JSON that p4c writes for v1model. The program is immutable and can be shared by many switches.
// The error names the construct that is wrong, missing or not executed ([ErrUnsupported]), and where it is.
func Load(data []byte) (*Program, error) {
	c := &compiler{
		consts: map[uint64]uint32{}, tempFree: map[int][]uint32{},
		tableIndex: map[string]int{}, profileByName: map[string]int{}, calcByName: map[string]int{}, calcUses: map[int]int{},
		fieldLists: map[uint64][]Ref{}, digestByID: map[uint64]int{},
	}
	if err := json.Unmarshal(unindented(data), &c.j); err != nil {
		return nil, fmt.Errorf("program: JSON: %w", err)
	}
	if m := c.j.Meta; m != nil && len(m.Version) == 2 && m.Version[0] != 2 {
		return nil, fmt.Errorf("program: JSON has format version %d.%d; version 2 is needed", m.Version[0], m.Version[1])
	}
	for _, x := range c.j.ExternInstances {
		return nil, fmt.Errorf("program: %w: extern instance %q of type %q", ErrUnsupported, x.Name, x.Type)
	}
	c.slots = 2
	c.constList = []Constant{{SlotOne, 1}}
	c.emitInst(Inst{Op: OpHalt}) // so that 0 means no code
	p := &Program{derived: &derivedTables{}}
	for _, step := range []func() error{
		c.layoutTypes, c.layoutHeaders, c.standardLayout, c.compileArrays, c.compileCalcs, c.compileFieldLists,
		c.compileActions, c.compileParsers, c.compileTables,
		func() (err error) { p.Ingress, err = c.compilePipeline("ingress"); return err },
		func() (err error) { p.Egress, err = c.compilePipeline("egress"); return err },
		c.compileDeparser, c.compileChecksums,
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("program: %w", err)
		}
	}
	if c.slots > maxSlots {
		return nil, fmt.Errorf("program: %w: a program of more than %d words of state per packet", ErrUnsupported, maxSlots)
	}
	c.finishProgram(p)
	return p, nil
}

func (c *compiler) standardLayout() error {
	c.aliases = map[string][2]string{}
	for _, a := range c.j.FieldAliases {
		var from string
		var to [2]string
		if len(a) != 2 || unmarshal(a[0], &from) != nil || unmarshal(a[1], &to) != nil {
			return fmt.Errorf("field_aliases: an alias is [name, [header, field]]")
		}
		if _, err := c.fieldRef(to[0], to[1]); err != nil {
			return fmt.Errorf("field_aliases: %q: %w", from, err)
		}
		c.aliases[from] = to
	}
	s := &c.std
	for _, f := range []struct {
		at       *Ref
		h, f     string
		required bool
	}{
		{&s.ingressPort, "standard_metadata", "ingress_port", true},
		{&s.packetLength, "standard_metadata", "packet_length", true},
		{&s.instanceType, "standard_metadata", "instance_type", true},
		{&s.egressSpec, "standard_metadata", "egress_spec", true},
		{&s.egressPort, "standard_metadata", "egress_port", true},
		{&s.parserError, "standard_metadata", "parser_error", false},
		{&s.checksumError, "standard_metadata", "checksum_error", false},
		{&s.ingressTS, "intrinsic_metadata", "ingress_global_timestamp", false},
		{&s.egressTS, "intrinsic_metadata", "egress_global_timestamp", false},
		{&s.mcast, "intrinsic_metadata", "mcast_grp", false},
		{&s.rid, "intrinsic_metadata", "egress_rid", false},
		{&s.priority, "intrinsic_metadata", "priority", false},
		{&s.enqTS, "queueing_metadata", "enq_timestamp", false},
		{&s.enqDepth, "queueing_metadata", "enq_qdepth", false},
		{&s.deqDelta, "queueing_metadata", "deq_timedelta", false},
		{&s.deqDepth, "queueing_metadata", "deq_qdepth", false},
		{&s.qid, "queueing_metadata", "qid", false},
	} {
		r, ok := c.standardField(f.h+"."+f.f, f.h, f.f)
		switch {
		case ok && r.Field.Words != 1:
			return fmt.Errorf("%s.%s is %d bits wide; at most 64 are possible", f.h, f.f, r.Field.Width)
		case ok:
			*f.at = r
		case f.required:
			return fmt.Errorf("the program lacks %s.%s, which simple_switch requires (is it a v1model program?)", f.h, f.f)
		}
	}
	return nil
}

// maxCells bounds the arrays of a program; they are allocated as they are used.
const maxCells = 1 << 28

func (c *compiler) compileArrays() error {
	index := func(n int) map[string]int { return make(map[string]int, n) }
	c.registerByName, c.counterByName, c.meterByName, c.vsetByName = index(len(c.j.RegisterArrays)), index(len(c.j.CounterArrays)), index(len(c.j.MeterArrays)), index(len(c.j.ParseVsets))
	for _, r := range c.j.RegisterArrays {
		if r.Size < 0 || r.Size > maxCells || r.Bitwidth < 1 || r.Bitwidth > MaxFieldWidth {
			return fmt.Errorf("register array %q: %d cells of %d bits; at most %d of 1 to %d are possible", r.Name, r.Size, r.Bitwidth, maxCells, MaxFieldWidth)
		}
		c.registerByName[r.Name] = len(c.registers)
		c.registers = append(c.registers, RegisterInfo{r.Name, r.Size, r.Bitwidth})
	}
	for _, r := range c.j.CounterArrays {
		if r.IsDirect {
			continue
		}
		if r.Size < 0 || r.Size > maxCells {
			return fmt.Errorf("counter array %q: %d cells; at most %d are possible", r.Name, r.Size, maxCells)
		}
		c.counterByName[r.Name] = len(c.counters)
		c.counters = append(c.counters, CounterInfo{r.Name, r.Size})
	}
	for _, m := range c.j.MeterArrays {
		if m.Size < 0 || m.Size > maxCells || m.RateCount != 2 || (m.Type != "bytes" && m.Type != "packets") {
			return fmt.Errorf("%w: meter array %q: %d cells, type %q, %d rates; at most %d cells of bytes or packets with 2 rates are executed", ErrUnsupported, m.Name, m.Size, m.Type, m.RateCount, maxCells)
		}
		var to Place
		if m.IsDirect {
			if len(m.ResultTarget) != 2 {
				return fmt.Errorf("direct meter %q: result_target is not [header, field]", m.Name)
			}
			r, err := c.fieldRef(m.ResultTarget[0], m.ResultTarget[1])
			if err != nil {
				return fmt.Errorf("direct meter %q: %w", m.Name, err)
			}
			c.writtenOutside(r.h, r.Field)
			to = Place{Field: r.Field, Slot: r.Slot(), h: r.h}
		}
		c.meterByName[m.Name] = len(c.meters)
		c.meters = append(c.meters, MeterInfo{Name: m.Name, Size: m.Size, Packets: m.Type == "packets", Table: -1})
		c.meterTarget = append(c.meterTarget, to)
	}
	for _, v := range c.j.ParseVsets {
		c.vsetByName[v.Name] = len(c.vsets)
		c.vsets = append(c.vsets, ValueSetInfo{Name: v.Name})
	}
	return nil
}

// compileFieldLists compiles digests and the field lists that clones and the like preserve.
func (c *compiler) compileFieldLists() error {
	refs := func(l *jFieldList) ([]Ref, error) {
		var out []Ref
		for i := range l.Elements {
			e := &l.Elements[i]
			if e.Type == "hexstr" {
				continue // constants in field lists have nowhere to go
			}
			if e.Type != "field" {
				return nil, fmt.Errorf("%w: list %q: element of type %q", ErrUnsupported, l.Name, e.Type)
			}
			s, err := e.strs(2)
			if err != nil {
				return nil, err
			}
			r, err := c.fieldRef(s[0], s[1])
			if err != nil {
				return nil, fmt.Errorf("list %q: %w", l.Name, err)
			}
			out = append(out, r)
		}
		return out, nil
	}
	for i := range c.j.FieldLists {
		l := &c.j.FieldLists[i]
		r, err := refs(l)
		if err != nil {
			return fmt.Errorf("field_lists: %w", err)
		}
		for _, x := range r {
			c.writtenOutside(x.h, x.Field)
		}
		c.fieldLists[uint64(l.ID)] = r
	}
	for i := range c.j.LearnLists {
		l := &c.j.LearnLists[i]
		r, err := refs(l)
		if err != nil {
			return fmt.Errorf("learn_lists: %w", err)
		}
		d := DigestInfo{Name: l.Name}
		for _, f := range r {
			d.Widths = append(d.Widths, f.Field.Width)
		}
		c.digestByID[uint64(l.ID)] = len(c.digests)
		c.digests = append(c.digests, d)
		c.digestSteps = append(c.digestSteps, r)
	}
	return nil
}
