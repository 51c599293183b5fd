package p4runtime

import (
	"slices"
	"strings"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// maxWidth is the largest bit width accepted in a P4Info.
const maxWidth = 1 << 16

// binder builds a schema and remembers the ids that it has seen.
type binder struct {
	*schema
	seen map[uint32]string
}

// bind checks info and connects it with prog. The errors are INVALID_ARGUMENT: the two do not belong together, or
// info is not a valid P4Info. restricted makes annotations restrict writes.
func bind(info *p4config.P4Info, prog *program.Program, restricted bool) (*schema, error) {
	b := &binder{
		schema: &schema{
			info: info, prog: prog,
			tables: map[uint32]*tableSchema{}, actions: map[uint32]*actionSchema{},
			profiles: map[uint32]*profileSchema{}, counters: map[uint32]*counterSchema{},
			meters: map[uint32]*meterSchema{}, registers: map[uint32]*registerSchema{},
			valueSets: map[uint32]*valueSetSchema{}, digests: map[uint32]*digestSchema{},
			absent: map[uint32]string{}, nameTypes: map[string]*nameType{},
		},
		seen: map[uint32]string{},
	}
	for _, step := range []func() error{
		b.bindActions, b.bindProfiles, b.bindMeters, b.bindTables, b.bindCounters,
		b.bindRegisters, b.bindValueSets, b.bindDigests, b.bindHeaders,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if len(info.GetTables()) > 0 && len(b.tableList) == 0 && slices.ContainsFunc(prog.Tables, func(t program.Table) bool { return !t.Info.Hidden }) {
		return nil, missing("no table, not even", info.GetTables()[0].GetPreamble().GetName()+",")
	}
	b.portNames = b.portNamed()
	if restricted {
		if err := b.bindRestrictions(); err != nil {
			return nil, err
		}
	}
	return b.schema, nil
}

// object reads a preamble and refuses ids that are zero or in use.
func (b *binder) object(kind string, p *p4config.Preamble) (object, error) {
	o := object{id: p.GetId(), name: p.GetName()}
	if o.id == 0 || o.name == "" {
		return o, rpc.Invalidf("p4info: %s %q has id %d; both name and id must be set", kind, o.name, o.id)
	}
	what := kind + " " + o.name
	if other, ok := b.seen[o.id]; ok {
		return o, rpc.Invalidf("p4info: %s and %s have the same id %#x", other, what, o.id)
	}
	b.seen[o.id] = what
	for _, a := range p.GetAnnotations() {
		if rest, ok := strings.CutPrefix(a, "@p4runtime_role("); ok {
			o.role = strings.Trim(strings.TrimSuffix(rest, ")"), `"`)
		}
	}
	return o, nil
}

// width checks a bit width. A type that is translated to strings has none in the P4Info: its width is the
// program's, and maxWidth here.
func (b *binder) width(what string, bits int32, typeName *p4config.P4NamedType) (int, *nameType, error) {
	if name := typeName.GetName(); name != "" {
		tr := b.info.GetTypeInfo().GetNewTypes()[name].GetTranslatedType()
		if tr.GetSdnString() != nil {
			return maxWidth, b.nameType(name), nil
		}
		if w := tr.GetSdnBitwidth(); bits == 0 && w != 0 {
			bits = w
		}
	}
	if bits <= 0 || bits > maxWidth {
		return 0, nil, rpc.Invalidf("p4info: %s has bit width %d; it must be 1 to %d", what, bits, maxWidth)
	}
	return int(bits), nil, nil
}

// nameType is a type that the P4Info translates to strings.
func (s *schema) nameType(name string) *nameType {
	if s.nameTypes[name] == nil {
		s.nameTypes[name] = &nameType{name: name}
	}
	return s.nameTypes[name]
}

func missing(kind, name string) error {
	return rpc.Invalidf("p4info: %s %s is in the BMv2 JSON; the P4Info and the JSON must come from one run of the compiler", kind, name)
}

// unknown returns the error for an id without object of a kind. The compiler leaves objects that packets never
// reach out of the JSON, but P4Info lists them.
func (s *schema) unknown(kind string, id uint32) error {
	if name, ok := s.absent[id]; ok {
		return rpc.Errorf(codes.Unimplemented, "%s is not in the compiled program: packets never reach it", name)
	}
	return rpc.Invalidf("no %s has id %#x in the P4Info", kind, id)
}

func (b *binder) bindActions() error {
	for _, a := range b.info.GetActions() {
		o, err := b.object("action", a.GetPreamble())
		if err != nil {
			return err
		}
		as := &actionSchema{object: o, paramByID: map[uint32]int{}}
		for _, p := range a.GetParams() {
			w, named, err := b.width("action "+o.name+" parameter "+p.GetName(), p.GetBitwidth(), p.GetTypeName())
			if err != nil {
				return err
			}
			if _, dup := as.paramByID[p.GetId()]; dup || p.GetId() == 0 {
				return rpc.Invalidf("p4info: action %s: parameter id %d is zero or used twice", o.name, p.GetId())
			}
			as.paramByID[p.GetId()] = len(as.params)
			as.params = append(as.params, &paramSchema{id: p.GetId(), name: p.GetName(), width: w, named: named})
		}
		b.actions[o.id] = as
	}
	return nil
}

func (b *binder) bindProfiles() error {
	for _, p := range b.info.GetActionProfiles() {
		o, err := b.object("action profile", p.GetPreamble())
		if err != nil {
			return err
		}
		pid, ok := b.prog.ProfileByName(o.name)
		if !ok {
			b.absent[o.id] = "action profile " + o.name
			continue
		}
		ps := &profileSchema{
			object: o, index: len(b.profileList), pid: pid, selector: p.GetWithSelector(), size: p.GetSize(), maxGroupSize: p.GetMaxGroupSize(),
			sumOfMembers: p.GetSumOfMembers() != nil, maxMemberWeight: p.GetSumOfMembers().GetMaxMemberWeight(),
			weightsDisallowed: p.GetWeightsDisallowed(), actions: map[uint32]*actionRef{},
		}
		b.profiles[o.id] = ps
		b.profileList = append(b.profileList, ps)
	}
	return nil
}

func (b *binder) bindMeters() error {
	for _, m := range b.info.GetMeters() {
		o, err := b.object("meter", m.GetPreamble())
		if err != nil {
			return err
		}
		mid, ok := b.prog.MeterByName(o.name)
		if !ok {
			b.absent[o.id] = "meter " + o.name
			continue
		}
		ms := &meterSchema{array: array{o, b.prog.Meters[mid].Size}, mid: mid, kind: m.GetSpec().GetType()}
		b.meters[o.id] = ms
		b.meterList = append(b.meterList, ms)
	}
	return nil
}

func (b *binder) bindTables() error {
	directMeters := map[uint32]*meterSchema{}
	for _, m := range b.info.GetDirectMeters() {
		o, err := b.object("direct meter", m.GetPreamble())
		if err != nil {
			return err
		}
		directMeters[o.id] = &meterSchema{array: array{object: o}, kind: m.GetSpec().GetType()}
	}
	directCounters := map[uint32]bool{}
	for _, c := range b.info.GetDirectCounters() {
		o, err := b.object("direct counter", c.GetPreamble())
		if err != nil {
			return err
		}
		directCounters[o.id] = true
	}
	opened := map[program.TableID]int{} // whose initial entries can be changed
	for _, t := range b.info.GetTables() {
		o, err := b.object("table", t.GetPreamble())
		if err != nil {
			return err
		}
		tid, ok := b.prog.TableByName(o.name)
		if !ok {
			b.absent[o.id] = "table " + o.name
			continue
		}
		ti := &b.prog.Tables[tid].Info
		ts := &tableSchema{
			object: o, index: len(b.tableList), tid: tid, size: t.GetSize(), keyLen: len(ti.Key),
			actions: map[uint32]*actionRef{}, actionByBMv2: map[program.ActionID]uint32{},
			constTable: t.GetIsConstTable() || ti.ConstEntries && !t.GetHasInitialEntries(), constDefault: t.GetConstDefaultActionId() != 0 || ti.ConstDefault,
			idleTimeout: t.GetIdleTimeoutBehavior() == p4config.Table_NOTIFY_CONTROL,
		}
		if ts.fields, ts.fieldByID, err = b.bindKey("table "+o.name, t.GetMatchFields(), ti.Key); err != nil {
			return err
		}
		for _, f := range ts.fields {
			switch f.match {
			case p4config.MatchField_TERNARY, p4config.MatchField_RANGE, p4config.MatchField_OPTIONAL:
				ts.needsPriority = true
			}
		}
		if id := t.GetImplementationId(); id != 0 {
			if ts.profile = b.profiles[id]; ts.profile == nil {
				return rpc.Invalidf("p4info: table %s: implementation %#x is no action profile", o.name, id)
			}
			if ti.Profile < 0 {
				return missing("no action profile of table", o.name)
			}
			ts.profile.tables = append(ts.profile.tables, ts)
		}
		if err := b.bindTableActions(ts, t); err != nil {
			return err
		}
		for _, id := range t.GetDirectResourceIds() {
			switch m := directMeters[id]; {
			case m != nil:
				if m.mid = ti.DirectMeter; ti.DirectMeter < 0 {
					return missing("no direct meter", m.name)
				}
				ts.directMeter = m
			case directCounters[id]:
				if !ti.HasDirectCounter {
					return missing("no direct counter of table", o.name)
				}
				ts.directCounter = id
			}
		}
		if ti.ConstEntries && !ts.constTable {
			opened[tid] = int(t.GetSize())
		}
		b.tables[o.id] = ts
		b.tableList = append(b.tableList, ts)
	}
	b.prog = b.prog.Opened(opened)
	return nil
}

func (b *binder) bindTableActions(ts *tableSchema, t *p4config.Table) error {
	for _, ref := range t.GetActionRefs() {
		as := b.actions[ref.GetId()]
		if as == nil {
			return rpc.Invalidf("p4info: table %s refers to action %#x, which is not declared", ts.name, ref.GetId())
		}
		aid, ok := b.prog.ActionByName(ts.tid, as.name)
		if !ok {
			return missing("no action "+as.name+" of table", ts.name)
		}
		ar := &actionRef{actionSchema: as, aid: aid, scope: ref.GetScope()}
		for _, ai := range b.prog.Tables[ts.tid].Info.Actions {
			if ai.ID != aid {
				continue
			}
			if len(ai.Params) != len(as.params) {
				return rpc.Invalidf("p4info: action %s has %d parameters, in the BMv2 JSON %d", as.name, len(as.params), len(ai.Params))
			}
			for i, p := range ai.Params {
				// A translated type may be wider for controllers than in the data plane.
				as.params[i].width = min(as.params[i].width, p.Width)
				as.params[i].named.narrow(as.params[i].width)
			}
		}
		ts.actions[as.id] = ar
		ts.actionByBMv2[aid] = as.id
		if ts.profile != nil {
			ts.profile.actions[as.id] = ar
		}
	}
	return nil
}

// bindKey pairs match fields with the program's key fields: by name if the names are equal and unique, otherwise by
// position.
func (b *binder) bindKey(what string, fields []*p4config.MatchField, key []program.KeyField) ([]*fieldSchema, map[uint32]int, error) {
	if len(fields) != len(key) {
		return nil, nil, rpc.Invalidf("p4info: %s has %d match fields, in the BMv2 JSON %d", what, len(fields), len(key))
	}
	byName := map[string]int{}
	for i, k := range key {
		byName[k.Name] = i
	}
	named := len(byName) == len(key)
	for _, f := range fields {
		_, ok := byName[f.GetName()]
		named = named && ok
	}
	out := make([]*fieldSchema, len(fields))
	byID := map[uint32]int{}
	for i, f := range fields {
		pos := i
		if named {
			pos = byName[f.GetName()]
		}
		where := what + " field " + f.GetName()
		w, named, err := b.width(where, f.GetBitwidth(), f.GetTypeName())
		if err != nil {
			return nil, nil, err
		}
		if _, dup := byID[f.GetId()]; dup || f.GetId() == 0 {
			return nil, nil, rpc.Invalidf("p4info: %s: field id %d is zero or used twice", where, f.GetId())
		}
		k := key[pos]
		if !matches(f.GetMatchType(), k.Kind) {
			return nil, nil, rpc.Invalidf("p4info: %s is matched as %v, in the BMv2 JSON as %v", where, f.GetMatchType(), k.Kind)
		}
		byID[f.GetId()] = i
		out[i] = &fieldSchema{
			id: f.GetId(), name: f.GetName(), match: f.GetMatchType(), kind: k.Kind, pos: pos, width: min(w, k.Width), named: named,
		}
		named.narrow(out[i].width)
	}
	return out, byID, nil
}

func matches(m p4config.MatchField_MatchType, k program.MatchKind) bool {
	switch m {
	case p4config.MatchField_EXACT:
		return k == program.Exact
	case p4config.MatchField_LPM:
		return k == program.LPM || k == program.Ternary
	case p4config.MatchField_TERNARY:
		return k == program.Ternary
	case p4config.MatchField_OPTIONAL:
		return k == program.Optional || k == program.Ternary
	case p4config.MatchField_RANGE:
		return k == program.Range
	}
	return false
}

func (b *binder) bindCounters() error {
	for _, c := range b.info.GetCounters() {
		o, err := b.object("counter", c.GetPreamble())
		if err != nil {
			return err
		}
		cid, ok := b.prog.CounterByName(o.name)
		if !ok {
			b.absent[o.id] = "counter " + o.name
			continue
		}
		cs := &counterSchema{array: array{o, b.prog.Counters[cid].Size}, cid: cid}
		b.counters[o.id] = cs
		b.counterList = append(b.counterList, cs)
	}
	return nil
}

func (b *binder) bindRegisters() error {
	for _, r := range b.info.GetRegisters() {
		o, err := b.object("register", r.GetPreamble())
		if err != nil {
			return err
		}
		rid, ok := b.prog.RegisterByName(o.name)
		if !ok {
			b.absent[o.id] = "register " + o.name
			continue
		}
		ri := b.prog.Registers[rid]
		if w, err := b.flatWidth(r.GetTypeSpec(), 0); err != nil {
			return rpc.Invalidf("p4info: register %s: %v", o.name, err)
		} else if w != ri.Width {
			return rpc.Invalidf("p4info: register %s is %d bits wide, in the BMv2 JSON %d", o.name, w, ri.Width)
		}
		rs := &registerSchema{array: array{o, ri.Size}, rid: rid, spec: r.GetTypeSpec()}
		b.registers[o.id] = rs
		b.registerList = append(b.registerList, rs)
	}
	return nil
}

func (b *binder) bindValueSets() error {
	for _, v := range b.info.GetValueSets() {
		o, err := b.object("value set", v.GetPreamble())
		if err != nil {
			return err
		}
		vid, ok := b.prog.ValueSetByName(o.name)
		if !ok {
			b.absent[o.id] = "value set " + o.name
			continue
		}
		widths := b.prog.ValueSets[vid].Widths
		vs := &valueSetSchema{object: o, vid: vid, size: int(v.GetSize()), fieldByID: map[uint32]int{}}
		if len(v.GetMatch()) != len(widths) {
			return rpc.Invalidf("p4info: value set %s has %d fields, in the BMv2 JSON %d", o.name, len(v.GetMatch()), len(widths))
		}
		key := make([]program.KeyField, len(widths))
		for i, w := range widths {
			key[i].Width = w
			switch v.GetMatch()[i].GetMatchType() {
			case p4config.MatchField_EXACT:
				key[i].Kind = program.Exact
			case p4config.MatchField_LPM:
				key[i].Kind = program.LPM
			case p4config.MatchField_RANGE:
				key[i].Kind = program.Range
			default:
				key[i].Kind = program.Ternary
			}
		}
		if vs.fields, vs.fieldByID, err = b.bindKey("value set "+o.name, v.GetMatch(), key); err != nil {
			return err
		}
		b.valueSets[o.id] = vs
		b.valueSetList = append(b.valueSetList, vs)
	}
	return nil
}

func (b *binder) bindHeaders() error {
	for _, h := range b.info.GetControllerPacketMetadata() {
		o, err := b.object("controller header", h.GetPreamble())
		if err != nil {
			return err
		}
		l := &headerLayout{}
		bits := 0
		seen := map[uint32]bool{}
		for _, m := range h.GetMetadata() {
			what := "controller header " + o.name + " field " + m.GetName()
			w, named, err := b.width(what, m.GetBitwidth(), m.GetTypeName())
			if err != nil {
				return err
			}
			if named != nil { // tables were bound before
				if w = named.width; w == 0 {
					return rpc.Invalidf("p4info: %s: no table says how wide type %s is", what, named.name)
				}
			}
			if seen[m.GetId()] || m.GetId() == 0 {
				return rpc.Invalidf("p4info: controller header %s: metadata id %d is zero or used twice", o.name, m.GetId())
			}
			seen[m.GetId()] = true
			l.fields = append(l.fields, paramSchema{id: m.GetId(), name: m.GetName(), width: w, named: named})
			bits += w
		}
		l.bytes = (bits + 7) / 8
		switch o.name {
		case "packet_in":
			b.packetIn = l
		case "packet_out":
			b.packetOut = l
		default:
			return rpc.Invalidf("p4info: controller header %q; it must be packet_in or packet_out", o.name)
		}
	}
	return nil
}
