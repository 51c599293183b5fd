package bmv2

import (
	"encoding/json"
	"fmt"
	"math/big"
)

// compiler turns the JSON into a Program.
type compiler struct {
	j jProgram

	types            map[string]*headerType
	headers          []header
	headerByName     map[string]int
	usage            []headerUse
	unions           []union
	unionByName      map[string]int
	stacks           []stack
	stackByName      map[string]int
	unionStacks      []unionStack
	unionStackByName map[string]int
	aliases          map[string][2]string
	std              standardFields

	slots                uint32
	phvLo, metaHi, phvHi uint32
	args                 uint32
	consts               map[uint64]uint32
	constList            []constSlot
	tempFree             map[int][]uint32
	tempUsed             []tempBlock

	code    []inst
	barrier int
	depth   int
	params  []param
	calls   []call

	actions        []action
	actionByID     map[int]int
	tables         []table
	tableIndex     map[string]int
	profiles       []profile
	profileByName  map[string]int
	counters       []CounterInfo
	counterByName  map[string]int
	meters         []MeterInfo
	meterByName    map[string]int
	meterTarget    []lvalue
	registers      []RegisterInfo
	registerByName map[string]int
	vsets          []ValueSetInfo
	vsetByName     map[string]int
	vsetUses       []vsetUse
	calcs          []calc
	calcByName     map[string]int
	calcUses       map[int]int // how many primitives, selectors and checksums run each
	digests        []DigestInfo
	digestSteps    [][]ref
	digestByID     map[uint64]int
	fieldLists     map[uint64][]ref
	errors         map[string]uint64
	err            parseErrors
	parser         parser
	checks         []checksum
	deparse        []int // header ids in order
	deparsePC      uint32
	roundRobins    int
}

// standardFields are those that simple_switch reads and writes itself. A
// field that the program does not have has a nil header.
type standardFields struct {
	ingressPort, packetLength, instanceType, egressSpec, egressPort ref
	ingressTS, egressTS, mcast, rid, priority                       ref
	enqTS, enqDepth, deqDelta, deqDepth, qid                        ref
	parserError, checksumError                                      ref
}

// Load compiles BMv2 JSON as p4c writes it for v1model. The program is
// immutable and may be shared by many switches. An error names the construct
// that is wrong, missing or (ErrUnsupported) not executed by this package,
// and where it is.
func Load(data []byte) (*Program, error) {
	c := &compiler{
		consts: map[uint64]uint32{}, tempFree: map[int][]uint32{},
		tableIndex: map[string]int{}, profileByName: map[string]int{}, calcByName: map[string]int{}, calcUses: map[int]int{},
		fieldLists: map[uint64][]ref{}, digestByID: map[uint64]int{},
	}
	if err := json.Unmarshal(data, &c.j); err != nil {
		return nil, fmt.Errorf("bmv2: program JSON: %w", err)
	}
	if m := c.j.Meta; m != nil && len(m.Version) == 2 && m.Version[0] != 2 {
		return nil, fmt.Errorf("bmv2: program JSON has format version %d.%d; version 2 is needed", m.Version[0], m.Version[1])
	}
	for _, x := range c.j.ExternInstances {
		return nil, fmt.Errorf("bmv2: %w: extern instance %q of type %q", ErrUnsupported, x.Name, x.Type)
	}
	c.slots = 2
	c.constList = []constSlot{{slotOne, 1}}
	c.emit(inst{op: opHalt}) // so that 0 means no code
	p := &Program{}
	for _, step := range []func() error{
		c.layoutTypes, c.layoutHeaders, c.standardLayout, c.arrays, c.compileCalcs, c.lists,
		c.compileActions, c.compileParsers, c.compileTables,
		func() (err error) { p.ingress, err = c.compilePipeline("ingress"); return err },
		func() (err error) { p.egress, err = c.compilePipeline("egress"); return err },
		c.compileDeparser, c.compileChecksums,
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("bmv2: %w", err)
		}
	}
	if c.slots > maxSlots {
		return nil, fmt.Errorf("bmv2: %w: a program of more than %d words of state per packet", ErrUnsupported, maxSlots)
	}
	c.finish(p)
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
		at       *ref
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
		r, ok := c.standard(f.h+"."+f.f, f.h, f.f)
		switch {
		case ok && r.f.words != 1:
			return fmt.Errorf("%s.%s is %d bits wide; at most 64 are possible", f.h, f.f, r.f.width)
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

func (c *compiler) arrays() error {
	index := func(n int) map[string]int { return make(map[string]int, n) }
	c.registerByName, c.counterByName, c.meterByName, c.vsetByName = index(len(c.j.RegisterArrays)), index(len(c.j.CounterArrays)), index(len(c.j.MeterArrays)), index(len(c.j.ParseVsets))
	for _, r := range c.j.RegisterArrays {
		if r.Size < 0 || r.Size > maxCells || r.Bitwidth < 1 || r.Bitwidth > maxFieldWidth {
			return fmt.Errorf("register array %q: %d cells of %d bits; at most %d of 1 to %d are possible", r.Name, r.Size, r.Bitwidth, maxCells, maxFieldWidth)
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
		var to lvalue
		if m.IsDirect {
			if len(m.ResultTarget) != 2 {
				return fmt.Errorf("direct meter %q: result_target is not [header, field]", m.Name)
			}
			r, err := c.fieldRef(m.ResultTarget[0], m.ResultTarget[1])
			if err != nil {
				return fmt.Errorf("direct meter %q: %w", m.Name, err)
			}
			c.writtenOutside(r.h, r.f)
			to = lvalue{f: r.f, slot: r.slot(), h: r.h}
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

// lists compiles digests and the field lists that clones and the like preserve.
func (c *compiler) lists() error {
	refs := func(l *jFieldList) ([]ref, error) {
		var out []ref
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
			c.writtenOutside(x.h, x.f)
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
			d.Widths = append(d.Widths, f.f.width)
		}
		c.digestByID[uint64(l.ID)] = len(c.digests)
		c.digests = append(c.digests, d)
		c.digestSteps = append(c.digestSteps, r)
	}
	return nil
}

// compileTables collects all tables and profiles, without their control flow.
func (c *compiler) compileTables() error {
	for i := range c.j.Pipelines {
		jp := &c.j.Pipelines[i]
		for k := range jp.Profiles {
			pr := &jp.Profiles[k]
			p := profile{info: ProfileInfo{Name: pr.Name, Size: pr.MaxSize, Selector: pr.Selector != nil}, calc: -1}
			if pr.Selector != nil {
				ca, err := c.calculation(pr.Selector.Algo, pr.Selector.Input)
				if err != nil {
					return fmt.Errorf("action profile %q: selector: %w", pr.Name, err)
				}
				p.calc = len(c.calcs)
				c.calcUses[p.calc]++
				c.calcs = append(c.calcs, ca)
			}
			if _, dup := c.profileByName[pr.Name]; dup {
				return fmt.Errorf("action profile %q is declared twice", pr.Name)
			}
			c.profileByName[pr.Name] = len(c.profiles)
			c.profiles = append(c.profiles, p)
		}
		for k := range jp.Tables {
			if err := c.compileTable(&jp.Tables[k]); err != nil {
				return fmt.Errorf("table %q: %w", jp.Tables[k].Name, err)
			}
		}
	}
	return nil
}

func (c *compiler) compileTable(jt *jTable) error {
	if _, dup := c.tableIndex[jt.Name]; dup {
		return fmt.Errorf("declared twice")
	}
	id := len(c.tables)
	t := table{lpm: -1, defAct: -1, byID: map[ActionID]int{}, timeout: jt.SupportTimeout}
	t.info = TableInfo{
		Name: jt.Name, Size: jt.MaxSize, Profile: -1, DirectMeter: -1, HasDirectCounter: jt.WithCounters,
		SupportsTimeout: jt.SupportTimeout, ConstEntries: len(jt.Entries) > 0,
	}
	if jt.MaxSize < 0 || jt.MaxSize > maxCells {
		return fmt.Errorf("max_size %d; at most %d is possible", jt.MaxSize, maxCells)
	}
	t.info.Hidden = len(jt.Key) == 0 && len(jt.ActionIDs) == 1 && jt.DefaultEntry != nil && jt.DefaultEntry.EntryConst
	if err := c.tableKey(jt, &t); err != nil {
		return err
	}
	if len(jt.ActionIDs) == 0 && len(jt.Actions) > 0 { // the old format names them only
		for _, n := range jt.Actions {
			for i := range c.actions {
				if c.actions[i].info.Name == n {
					jt.ActionIDs = append(jt.ActionIDs, c.j.Actions[i].ID)
					break
				}
			}
		}
		if len(jt.ActionIDs) != len(jt.Actions) {
			return fmt.Errorf("names actions that do not exist")
		}
	}
	for _, aid := range jt.ActionIDs {
		i, ok := c.actionByID[aid]
		if !ok {
			return fmt.Errorf("there is no action with id %d", aid)
		}
		t.byID[ActionID(i)] = len(t.info.Actions)
		t.info.Actions = append(t.info.Actions, c.actions[i].info)
		t.argMax = max(t.argMax, c.actions[i].words)
	}
	if jt.DirectMeters != nil && *jt.DirectMeters != "" {
		i, ok := c.meterByName[*jt.DirectMeters]
		if !ok || c.meterTarget[i].f == nil {
			return fmt.Errorf("there is no direct meter array %q", *jt.DirectMeters)
		}
		t.info.DirectMeter, t.meterTo = MeterID(i), c.meterTarget[i]
		c.meters[i].Table = TableID(id)
	}
	switch jt.Type {
	case "", "simple":
	case "indirect", "indirect_ws":
		if err := c.tableProfile(jt, &t, TableID(id)); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: table type %q", ErrUnsupported, jt.Type)
	}
	if d := jt.DefaultEntry; d != nil {
		i, args, err := c.entryAction(&t, d.ActionID, d.ActionData)
		if err != nil {
			return fmt.Errorf("default entry: %w", err)
		}
		t.defAct, t.defArgs = t.byID[i], args
		t.info.ConstDefault = d.EntryConst || d.ActionConst
	}
	if err := c.constEntries(jt, &t); err != nil {
		return err
	}
	c.tableIndex[jt.Name] = id
	c.tables = append(c.tables, t)
	return nil
}

func (c *compiler) tableKey(jt *jTable, t *table) error {
	t.kind = Exact
	for i := range jt.Key {
		k := &jt.Key[i]
		p := keyPiece{guard: slotOne, width: 1}
		kf := KeyField{Name: k.Name}
		switch k.MatchType {
		case "valid":
			var hn string
			if err := unmarshal(k.Target, &hn); err != nil {
				return fmt.Errorf("key field %d: %w", i, err)
			}
			h, ok := c.headerByName[hn]
			if !ok {
				return fmt.Errorf("key field %d: there is no header %q", i, hn)
			}
			p.slot = c.headers[h].validSlot()
			if c.headers[h].meta {
				p.slot = slotOne
			}
			if kf.Name == "" {
				kf.Name = hn
			}
		case "exact", "lpm", "ternary", "range":
			var s [2]string
			if err := unmarshal(k.Target, &s); err != nil {
				return fmt.Errorf("key field %d: %w", i, err)
			}
			r, err := c.fieldRef(s[0], s[1])
			if err != nil {
				return fmt.Errorf("key field %d: %w", i, err)
			}
			if r.f.varbit {
				return fmt.Errorf("%w: key field %d is a varbit", ErrUnsupported, i)
			}
			p.slot, p.guard, p.width = r.slot(), r.guard(), r.f.width
			if s[1] == "$valid$" {
				p.guard = slotOne
			}
			if kf.Name == "" {
				kf.Name = s[0] + "." + s[1]
			}
		default:
			return fmt.Errorf("%w: key field %d has match type %q", ErrUnsupported, i, k.MatchType)
		}
		switch k.MatchType {
		case "lpm":
			if t.lpm >= 0 {
				return fmt.Errorf("%w: two lpm fields", ErrUnsupported)
			}
			kf.Kind, t.lpm = LPM, i
			t.kind = max(t.kind, LPM)
		case "ternary":
			kf.Kind = Ternary
			t.kind = max(t.kind, Ternary)
		case "range":
			kf.Kind = Range
			t.ranges = append(t.ranges, i)
			t.kind = Range
		}
		kf.Width = p.width
		var mask *big.Int
		if k.Mask != nil {
			m, err := parseHex(*k.Mask)
			if err != nil {
				return fmt.Errorf("key field %q: mask: %w", kf.Name, err)
			}
			mask = m
		}
		t.masks = append(t.masks, mask)
		t.key = append(t.key, p)
		t.info.Key = append(t.info.Key, kf)
	}
	// The table says ternary also where only its lpm field is.
	if jt.MatchType == "ternary" && t.kind == LPM {
		t.kind = Ternary
	}
	t.words = pack(t.key)
	if t.words > maxKeyWords {
		return fmt.Errorf("%w: a key of more than %d bits", ErrUnsupported, maxKeyWords*64)
	}
	return nil
}

func (c *compiler) tableProfile(jt *jTable, t *table, id TableID) error {
	name := jt.ActionProfile
	if name == "" {
		name = jt.ActProfName
	}
	i, ok := c.profileByName[name]
	if !ok && jt.ActionProfile == "" && name != "" { // the old format declares it here
		p := profile{info: ProfileInfo{Name: name, Selector: jt.Selector != nil}, calc: -1}
		if jt.Selector != nil {
			ca, err := c.calculation(jt.Selector.Algo, jt.Selector.Input)
			if err != nil {
				return fmt.Errorf("selector: %w", err)
			}
			p.calc = len(c.calcs)
			c.calcUses[p.calc]++
			c.calcs = append(c.calcs, ca)
		}
		i, ok = len(c.profiles), true
		c.profileByName[name] = i
		c.profiles = append(c.profiles, p)
	}
	if !ok {
		return fmt.Errorf("there is no action profile %q", name)
	}
	p := &c.profiles[i]
	if jt.Type == "indirect_ws" && p.calc < 0 {
		return fmt.Errorf("action profile %q has no selector", name)
	}
	p.info.Tables = append(p.info.Tables, id)
	t.info.Profile, t.info.Selector = ProfileID(i), p.calc >= 0
	for _, a := range t.info.Actions {
		found := false
		for _, b := range p.acts {
			found = found || a.ID == b
		}
		if !found {
			p.acts = append(p.acts, a.ID)
		}
	}
	return nil
}

// entryAction resolves an action with its arguments as the JSON gives them.
func (c *compiler) entryAction(t *table, id int, data []string) (ActionID, []uint64, error) {
	i, ok := c.actionByID[id]
	if !ok {
		return 0, nil, fmt.Errorf("there is no action with id %d", id)
	}
	a := &c.actions[i]
	if _, ok := t.byID[ActionID(i)]; !ok {
		return 0, nil, fmt.Errorf("action %q is not one of the table's", a.info.Name)
	}
	if len(data) != len(a.params) {
		return 0, nil, fmt.Errorf("action %q has %d parameters, not %d", a.info.Name, len(a.params), len(data))
	}
	var args []uint64
	for k, s := range data {
		v, err := parseHex(s)
		if err != nil {
			return 0, nil, fmt.Errorf("action %q: %w", a.info.Name, err)
		}
		v.And(v, new(big.Int).Sub(pow2(a.params[k].width), bigOne))
		args = append(args, wordsOf(v, a.params[k].words)...)
	}
	return ActionID(i), args, nil
}

func (c *compiler) constEntries(jt *jTable, t *table) error {
	if len(jt.Entries) == 0 {
		return nil
	}
	if t.info.Profile >= 0 {
		return fmt.Errorf("%w: entries of a table with an action profile", ErrUnsupported)
	}
	t.info.Size = max(t.info.Size, len(jt.Entries))
	for i := range jt.Entries {
		je := &jt.Entries[i]
		if len(je.MatchKey) != len(t.key) {
			return fmt.Errorf("entry %d: %d match fields where the key has %d", i, len(je.MatchKey), len(t.key))
		}
		e := constEntry{}
		if t.kind == Ternary || t.kind == Range {
			// BMv2: the smallest number wins; here the largest.
			e.prio = int32(1<<31 - 1 - min(max(je.Priority, 0), 1<<31-2))
		}
		for k := range je.MatchKey {
			m, err := constMatch(&t.info.Key[k], je.MatchKey[k].MatchType, je.MatchKey[k].Key, je.MatchKey[k].Mask, je.MatchKey[k].PrefixLen, je.MatchKey[k].Start, je.MatchKey[k].End)
			if err != nil {
				return fmt.Errorf("entry %d: field %q: %w", i, t.info.Key[k].Name, err)
			}
			e.match = append(e.match, m)
		}
		var err error
		if e.act, e.args, err = c.entryAction(t, je.ActionEntry.ActionID, je.ActionEntry.ActionData); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		t.consts = append(t.consts, e)
	}
	return nil
}

func constMatch(kf *KeyField, kind string, key jRaw, mask string, plen int, start, end string) (FieldMatch, error) {
	hex := func(s string) ([]byte, error) {
		v, err := parseHex(s)
		if err != nil {
			return nil, err
		}
		if v.Sign() < 0 {
			return nil, fmt.Errorf("%q is negative", s)
		}
		return v.And(v, new(big.Int).Sub(pow2(kf.Width), bigOne)).FillBytes(make([]byte, (kf.Width+7)/8)), nil
	}
	str := func() ([]byte, error) {
		var s string
		if err := unmarshal(key, &s); err != nil {
			return nil, err
		}
		return hex(s)
	}
	var m FieldMatch
	var err error
	switch kind {
	case "valid":
		var b bool
		if err := unmarshal(key, &b); err != nil {
			return m, err
		}
		m.Value = []byte{0}
		if b {
			m.Value[0] = 1
		}
	case "exact":
		m.Value, err = str()
	case "lpm":
		m.PrefixLen = plen
		m.Value, err = str()
	case "ternary":
		if m.Value, err = str(); err == nil {
			m.Mask, err = hex(mask)
		}
	case "range":
		if m.Value, err = hex(start); err == nil {
			m.High, err = hex(end)
		}
	default:
		err = fmt.Errorf("%w: match type %q", ErrUnsupported, kind)
	}
	return m, err
}
