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

// schemaBuilder builds a schema and remembers the ids that it has seen.
type schemaBuilder struct {
	*schema
	seen           map[uint32]string
	directMeters   objects[*meterSchema]
	directCounters objects[*object]
}

// buildSchema checks info and connects it with prog. The errors are INVALID_ARGUMENT: the two do not belong together,
// or info is not a valid P4Info. restricted makes annotations restrict writes.
func buildSchema(info *p4config.P4Info, prog *program.Program, restricted bool) (*schema, error) {
	b := &schemaBuilder{
		schema: &schema{
			info: info, prog: prog,
			tables: objectsOf[*tableSchema]("table"), actions: objectsOf[*actionSchema]("action"),
			profiles: objectsOf[*profileSchema]("action profile"), counters: objectsOf[*counterSchema]("counter"),
			meters: objectsOf[*meterSchema]("meter"), registers: objectsOf[*registerSchema]("register"),
			valueSets: objectsOf[*valueSetSchema]("value set"), digests: objectsOf[*digestSchema]("digest"),
			absent: map[uint32]string{}, nameTypes: map[string]*nameType{},
		},
		seen:         map[uint32]string{},
		directMeters: objectsOf[*meterSchema]("direct meter"), directCounters: objectsOf[*object]("direct counter"),
	}
	for _, step := range []func() error{
		b.bindActions, b.bindProfiles, b.bindMeters, b.bindDirectMeters, b.bindDirectCounters, b.bindTables,
		b.bindCounters, b.bindRegisters, b.bindValueSets, b.bindDigests, b.bindHeaders,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if len(info.GetTables()) > 0 && len(b.tables.list) == 0 && slices.ContainsFunc(prog.Tables, func(t program.Table) bool { return !t.Info.Hidden }) {
		return nil, missingInProgram("no table, not even", info.GetTables()[0].GetPreamble().GetName()+",")
	}
	b.portNames = b.portNamed()
	if restricted {
		if err := b.bindRestrictions(); err != nil {
			return nil, err
		}
	}
	return b.schema, nil
}

// readPreamble reads a preamble and refuses ids that are zero or in use.
func (b *schemaBuilder) readPreamble(kind string, p *p4config.Preamble) (object, error) {
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

// checkWidth checks a bit width. A type that is translated to strings has none in the P4Info: its width is the
// program's, and maxWidth here.
func (b *schemaBuilder) checkWidth(what string, bits int32, typeName *p4config.P4NamedType) (int, *nameType, error) {
	if name := typeName.GetName(); name != "" {
		tr := b.info.GetTypeInfo().GetNewTypes()[name].GetTranslatedType()
		if tr.GetSdnString() != nil {
			return maxWidth, b.nameType(name), nil
		}
		if w := tr.GetSdnBitwidth(); bits == 0 && w != 0 {
			bits = w
		}
	}
	if bits < 0 || bits > maxWidth {
		return 0, nil, rpc.Invalidf("p4info: %s has bit width %d; it must be 0 to %d", what, bits, maxWidth)
	}
	return int(bits), nil, nil
}

// fitsProgram refuses a field of no bits that has some in the program, as those of type error have.
func fitsProgram(what string, width, program int) error {
	if width == 0 && program > 0 {
		return rpc.Invalidf("p4info: %s has bit width 0, in the BMv2 JSON %d", what, program)
	}
	return nil
}

// nameType is a type that the P4Info translates to strings.
func (s *schema) nameType(name string) *nameType {
	if s.nameTypes[name] == nil {
		s.nameTypes[name] = &nameType{name: name}
	}
	return s.nameTypes[name]
}

func missingInProgram(kind, name string) error {
	return rpc.Invalidf("p4info: %s %s is in the BMv2 JSON; the P4Info and the JSON must come from one run of the compiler", kind, name)
}

// unknownID returns the error for an id without object of a kind. The compiler leaves objects that packets never
// reach out of the JSON, but P4Info lists them.
func (s *schema) unknownID(kind string, id uint32) error {
	if name, ok := s.absent[id]; ok {
		return rpc.Errorf(codes.Unimplemented, "%s is not in the compiled program: packets never reach it", name)
	}
	return rpc.Invalidf("no %s has id %#x in the P4Info", kind, id)
}

// bindAll adds the P4Info's objects of one kind to those of the schema. of finds the program's, and describe puts
// both together.
func bindAll[I interface{ GetPreamble() *p4config.Preamble }, ID any, T interface{ base() *object }](
	b *schemaBuilder, to *objects[T], infos []I, of func(string) (ID, bool), describe func(object, ID, I) (T, error),
) error {
	for _, info := range infos {
		o, err := b.readPreamble(to.kind, info.GetPreamble())
		if err != nil {
			return err
		}
		id, ok := of(o.name)
		if !ok {
			b.absent[o.id] = to.kind + " " + o.name
			continue
		}
		described, err := describe(o, id, info)
		if err != nil {
			return err
		}
		to.add(described)
	}
	return nil
}

// declaredInP4Info is bindAll's of for objects that the P4Info alone has.
func declaredInP4Info(string) (struct{}, bool) { return struct{}{}, true }

func (b *schemaBuilder) bindActions() error {
	return bindAll(b, &b.actions, b.info.GetActions(), declaredInP4Info, func(o object, _ struct{}, a *p4config.Action) (*actionSchema, error) {
		as := &actionSchema{object: o, paramByID: map[uint32]int{}}
		for _, p := range a.GetParams() {
			w, named, err := b.checkWidth("action "+o.name+" parameter "+p.GetName(), p.GetBitwidth(), p.GetTypeName())
			if err != nil {
				return nil, err
			}
			if _, dup := as.paramByID[p.GetId()]; dup || p.GetId() == 0 {
				return nil, rpc.Invalidf("p4info: action %s: parameter id %d is zero or used twice", o.name, p.GetId())
			}
			as.paramByID[p.GetId()] = len(as.params)
			as.params = append(as.params, &paramSchema{id: p.GetId(), name: p.GetName(), width: w, named: named})
		}
		return as, nil
	})
}

func (b *schemaBuilder) bindProfiles() error {
	return bindAll(b, &b.profiles, b.info.GetActionProfiles(), b.prog.ProfileByName,
		func(o object, pid program.ProfileID, p *p4config.ActionProfile) (*profileSchema, error) {
			return &profileSchema{
				object: o, index: len(b.profiles.list), pid: pid, selector: p.GetWithSelector(), size: p.GetSize(), maxGroupSize: p.GetMaxGroupSize(),
				sumOfMembers: p.GetSumOfMembers() != nil, maxMemberWeight: p.GetSumOfMembers().GetMaxMemberWeight(),
				weightsDisallowed: p.GetWeightsDisallowed(), actions: map[uint32]*actionRef{},
			}, nil
		})
}

func (b *schemaBuilder) bindMeters() error {
	return bindAll(b, &b.meters, b.info.GetMeters(), b.prog.MeterByName, func(o object, mid program.MeterID, m *p4config.Meter) (*meterSchema, error) {
		return &meterSchema{array: array{o, b.prog.Meters[mid].Size}, mid: mid, kind: m.GetSpec().GetType()}, nil
	})
}

func (b *schemaBuilder) bindDirectMeters() error {
	return bindAll(b, &b.directMeters, b.info.GetDirectMeters(), declaredInP4Info, func(o object, _ struct{}, m *p4config.DirectMeter) (*meterSchema, error) {
		return &meterSchema{array: array{object: o}, kind: m.GetSpec().GetType()}, nil
	})
}

func (b *schemaBuilder) bindDirectCounters() error {
	return bindAll(b, &b.directCounters, b.info.GetDirectCounters(), declaredInP4Info, func(o object, _ struct{}, _ *p4config.DirectCounter) (*object, error) {
		return &o, nil
	})
}

func (b *schemaBuilder) bindTables() error {
	opened := map[program.TableID]int{} // whose initial entries can be changed
	err := bindAll(b, &b.tables, b.info.GetTables(), b.prog.TableByName, func(o object, tid program.TableID, t *p4config.Table) (*tableSchema, error) {
		ts, err := b.bindTable(o, tid, t)
		if err == nil && b.prog.Tables[tid].Info.ConstEntries && !ts.constTable {
			opened[tid] = int(t.GetSize())
		}
		return ts, err
	})
	if err == nil {
		b.prog = b.prog.Opened(opened)
	}
	return err
}

func (b *schemaBuilder) bindTable(o object, tid program.TableID, t *p4config.Table) (*tableSchema, error) {
	ti := &b.prog.Tables[tid].Info
	ts := &tableSchema{
		object: o, index: len(b.tables.list), tid: tid, size: t.GetSize(), keyLen: len(ti.Key),
		actions: map[uint32]*actionRef{}, actionByBMv2: map[program.ActionID]uint32{},
		constTable:   t.GetIsConstTable() || ti.ConstEntries && !t.GetHasInitialEntries(),
		constDefault: t.GetConstDefaultActionId() != 0 || ti.ConstDefault,
		idleTimeout:  t.GetIdleTimeoutBehavior() == p4config.Table_NOTIFY_CONTROL,
	}
	var err error
	if ts.fields, ts.fieldByID, err = b.bindKey("table "+o.name, t.GetMatchFields(), ti.Key); err != nil {
		return nil, err
	}
	for _, f := range ts.fields {
		switch f.match {
		case p4config.MatchField_TERNARY, p4config.MatchField_RANGE, p4config.MatchField_OPTIONAL:
			ts.needsPriority = true
		}
	}
	if id := t.GetImplementationId(); id != 0 {
		if ts.profile = b.profiles.byID[id]; ts.profile == nil {
			return nil, rpc.Invalidf("p4info: table %s: implementation %#x is no action profile", o.name, id)
		}
		if ti.Profile < 0 {
			return nil, missingInProgram("no action profile of table", o.name)
		}
		ts.profile.tables = append(ts.profile.tables, ts)
	}
	if err := b.bindTableActions(ts, t); err != nil {
		return nil, err
	}
	for _, id := range t.GetDirectResourceIds() {
		switch m := b.directMeters.byID[id]; {
		case m != nil:
			if m.mid = ti.DirectMeter; ti.DirectMeter < 0 {
				return nil, missingInProgram("no direct meter", m.name)
			}
			ts.directMeter = m
		case b.directCounters.byID[id] != nil:
			if !ti.HasDirectCounter {
				return nil, missingInProgram("no direct counter of table", o.name)
			}
			ts.directCounter = id
		}
	}
	return ts, nil
}

func (b *schemaBuilder) bindTableActions(ts *tableSchema, t *p4config.Table) error {
	for _, ref := range t.GetActionRefs() {
		as := b.actions.byID[ref.GetId()]
		if as == nil {
			return rpc.Invalidf("p4info: table %s refers to action %#x, which is not declared", ts.name, ref.GetId())
		}
		aid, ok := b.prog.ActionByName(ts.tid, as.name)
		if !ok {
			return missingInProgram("no action "+as.name+" of table", ts.name)
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
				if err := fitsProgram("action "+as.name+" parameter "+p.Name, as.params[i].width, p.Width); err != nil {
					return err
				}
				as.params[i].width = min(as.params[i].width, p.Width)
				as.params[i].named.narrowTo(as.params[i].width)
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
func (b *schemaBuilder) bindKey(what string, fields []*p4config.MatchField, key []program.KeyField) ([]*fieldSchema, map[uint32]int, error) {
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
		w, named, err := b.checkWidth(where, f.GetBitwidth(), f.GetTypeName())
		if err != nil {
			return nil, nil, err
		}
		if _, dup := byID[f.GetId()]; dup || f.GetId() == 0 {
			return nil, nil, rpc.Invalidf("p4info: %s: field id %d is zero or used twice", where, f.GetId())
		}
		k := key[pos]
		if !sameMatchKind(f.GetMatchType(), k.Kind) {
			return nil, nil, rpc.Invalidf("p4info: %s is matched as %v, in the BMv2 JSON as %v", where, f.GetMatchType(), k.Kind)
		}
		if err := fitsProgram(where, w, k.Width); err != nil {
			return nil, nil, err
		}
		byID[f.GetId()] = i
		out[i] = &fieldSchema{
			id: f.GetId(), name: f.GetName(), match: f.GetMatchType(), kind: k.Kind, pos: pos, width: min(w, k.Width), named: named,
		}
		named.narrowTo(out[i].width)
	}
	return out, byID, nil
}

func sameMatchKind(m p4config.MatchField_MatchType, k program.MatchKind) bool {
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

func (b *schemaBuilder) bindCounters() error {
	return bindAll(b, &b.counters, b.info.GetCounters(), b.prog.CounterByName, func(o object, cid program.CounterID, _ *p4config.Counter) (*counterSchema, error) {
		return &counterSchema{array: array{o, b.prog.Counters[cid].Size}, cid: cid}, nil
	})
}

func (b *schemaBuilder) bindRegisters() error {
	return bindAll(b, &b.registers, b.info.GetRegisters(), b.prog.RegisterByName, func(o object, rid program.RegisterID, r *p4config.Register) (*registerSchema, error) {
		ri := b.prog.Registers[rid]
		if w, err := b.flatWidth(r.GetTypeSpec(), 0); err != nil {
			return nil, rpc.Invalidf("p4info: register %s: %v", o.name, err)
		} else if w != ri.Width {
			return nil, rpc.Invalidf("p4info: register %s is %d bits wide, in the BMv2 JSON %d", o.name, w, ri.Width)
		}
		return &registerSchema{array: array{o, ri.Size}, rid: rid, spec: r.GetTypeSpec()}, nil
	})
}

// valueSetKinds are the kinds of matches in value sets; all others are ternary.
var valueSetKinds = map[p4config.MatchField_MatchType]program.MatchKind{
	p4config.MatchField_EXACT: program.Exact, p4config.MatchField_LPM: program.LPM, p4config.MatchField_RANGE: program.Range,
}

func (b *schemaBuilder) bindValueSets() error {
	return bindAll(b, &b.valueSets, b.info.GetValueSets(), b.prog.ValueSetByName, func(o object, vid program.ValueSetID, v *p4config.ValueSet) (*valueSetSchema, error) {
		widths := b.prog.ValueSets[vid].Widths
		if len(v.GetMatch()) != len(widths) {
			return nil, rpc.Invalidf("p4info: value set %s has %d fields, in the BMv2 JSON %d", o.name, len(v.GetMatch()), len(widths))
		}
		key := make([]program.KeyField, len(widths))
		for i, w := range widths {
			kind, ok := valueSetKinds[v.GetMatch()[i].GetMatchType()]
			if !ok {
				kind = program.Ternary
			}
			key[i].Width, key[i].Kind = w, kind
		}
		vs := &valueSetSchema{object: o, vid: vid, size: int(v.GetSize())}
		var err error
		vs.fields, vs.fieldByID, err = b.bindKey("value set "+o.name, v.GetMatch(), key)
		return vs, err
	})
}

func (b *schemaBuilder) bindHeaders() error {
	for _, h := range b.info.GetControllerPacketMetadata() {
		o, err := b.readPreamble("controller header", h.GetPreamble())
		if err != nil {
			return err
		}
		l := &headerLayout{}
		bits := 0
		seen := map[uint32]bool{}
		for _, m := range h.GetMetadata() {
			what := "controller header " + o.name + " field " + m.GetName()
			w, named, err := b.checkWidth(what, m.GetBitwidth(), m.GetTypeName())
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
