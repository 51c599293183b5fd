package p4runtime

import (
	"encoding/binary"
	"maps"
	"slices"
	"strconv"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// A P4Info may translate a type to strings (sdn_string of @p4runtime_translation): controllers name a next hop
// "spine-1", the data plane has a number. Names in requests are converted to numbers, and numbers in answers to
// names; the code between knows numbers alone. The empty string is 0, and a decimal number is itself, as PINS names
// its ports. Any other name gets a number from the top of the type's range. Unused numbers are assigned again when
// none is left.

// portTypes are the types that watch ports and replicas have.
var portTypes = []string{"port_id_t", "PortId_t"}

// nameType is a type that is translated to strings.
type nameType struct {
	name  string
	width int // bits: of the narrowest field or parameter of the type; 0: none
}

// narrowTo records the width of a field of the type; t may be nil.
func (t *nameType) narrowTo(width int) {
	if t != nil && (t.width == 0 || width < t.width) {
		t.width = width
	}
}

// maxNumber returns the largest number of the type.
func (t *nameType) maxNumber() uint64 { return 1<<min(t.width, 63) - 1 }

// nameTable has the numbers that a pipeline has assigned to names of one type.
type nameTable struct {
	numbers map[string]uint64
	strings map[uint64]string
	next    uint64 // is tried for the next name
}

func newNameTable() *nameTable {
	return &nameTable{numbers: map[string]uint64{}, strings: map[uint64]string{}}
}

func (n *nameTable) assignNumber(name string, number uint64) {
	n.numbers[name], n.strings[number] = number, name
}

// numberOfName returns the number of a name, and assigns one if necessary.
func (p *pipeline) numberOfName(t *nameType, name string) (uint64, error) {
	n := p.names[t.name]
	if v, ok := n.numbers[name]; ok || name == "" {
		return v, nil
	}
	if v, err := strconv.ParseUint(name, 10, 64); err == nil && strconv.FormatUint(v, 10) == name {
		if v > t.maxNumber() {
			return 0, rpc.Invalidf("%s %q needs more than the type's %d bits", t.name, name, t.width)
		}
		if other, taken := n.strings[v]; taken {
			return 0, rpc.Invalidf("%s %q: the number stands for %q; choose another name", t.name, name, other)
		}
		n.assignNumber(name, v)
		return v, nil
	}
	if uint64(len(n.numbers)) >= t.maxNumber() {
		p.forgetNames(t)
	}
	if uint64(len(n.numbers)) >= t.maxNumber() {
		return 0, rpc.Errorf(codes.ResourceExhausted, "%s %q: all %d numbers of the type are taken; delete entries first", t.name, name, t.maxNumber())
	}
	for {
		if n.next == 0 { // 0 is the empty name's
			n.next = t.maxNumber()
		}
		v := n.next
		n.next--
		if _, taken := n.strings[v]; !taken {
			n.assignNumber(name, v)
			return v, nil
		}
	}
}

// nameOfNumber returns the name of a number.
func (p *pipeline) nameOfNumber(t *nameType, number uint64) string {
	if number == 0 {
		return p.names[t.name].strings[0]
	}
	if s, ok := p.names[t.name].strings[number]; ok {
		return s
	}
	return strconv.FormatUint(number, 10)
}

// forgetNames forgets the unused names of a type.
func (p *pipeline) forgetNames(t *nameType) {
	if p.inTx {
		return // an undone deletion may need its name
	}
	n := p.names[t.name]
	held := map[uint64]bool{}
	note := func(of *nameType, value []byte) ([]byte, error) {
		if of == t {
			held[toNumber(value)] = true
		}
		return value, nil
	}
	for _, e := range []*p4.Entity{
		{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{}}},
		{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{IsDefaultAction: true}}},
		{Entity: &p4.Entity_ActionProfileMember{ActionProfileMember: &p4.ActionProfileMember{}}},
		{Entity: &p4.Entity_ActionProfileGroup{ActionProfileGroup: &p4.ActionProfileGroup{}}},
		{Entity: &p4.Entity_ValueSetEntry{ValueSetEntry: &p4.ValueSetEntry{}}},
		multicastOf(&p4.MulticastGroupEntry{}), cloneOf(&p4.CloneSessionEntry{}),
	} {
		if p.read(nil, e, func(x *p4.Entity) error { return p.eachName(proto.CloneOf(x), note) }) != nil {
			return // keep them all
		}
	}
	for name, v := range maps.Clone(n.numbers) {
		if !held[v] {
			delete(n.numbers, name)
			delete(n.strings, v)
		}
	}
}

// toNumber reads a value of at most 64 bits.
func toNumber(b []byte) (v uint64) {
	for _, x := range b {
		v = v<<8 | uint64(x)
	}
	return v
}

// requestValue converts a name in a request to a number; outward converts a number in an answer to a name.
func (p *pipeline) requestValue(t *nameType, value []byte) ([]byte, error) {
	v, err := p.numberOfName(t, string(value))
	if err != nil {
		return nil, err
	}
	return canonicalBytes(binary.BigEndian.AppendUint64(nil, v)), nil
}

func (p *pipeline) answerValue(t *nameType, value []byte) ([]byte, error) {
	return []byte(p.nameOfNumber(t, toNumber(value))), nil
}

// namesToNumbers returns a request's entity with numbers in place of names: the entity itself, if the program
// translates none.
func (p *pipeline) namesToNumbers(e *p4.Entity) (*p4.Entity, error) {
	if len(p.nameTypes) == 0 {
		return e, nil
	}
	e = proto.CloneOf(e)
	return e, p.eachName(e, p.requestValue)
}

// numbersToNames returns an answer's entity with translated names in place of numbers.
func (p *pipeline) numbersToNames(e *p4.Entity) *p4.Entity {
	if len(p.nameTypes) == 0 {
		return e
	}
	e = proto.CloneOf(e)
	p.eachName(e, p.answerValue) //nolint:errcheck // outward returns none
	return e
}

// inheritNames keeps the numbers in the old pipeline's entries.
func (p *pipeline) inheritNames(old *pipeline) error {
	for name, n := range old.names {
		t := p.nameTypes[name]
		if t == nil {
			continue
		}
		for s, v := range n.numbers {
			if v > t.maxNumber() {
				return rpc.Invalidf("%s %q needs more than the type's %d bits", t.name, s, t.width)
			}
			p.names[name].assignNumber(s, v)
		}
	}
	return nil
}

// eachName replaces every value of a translated type in an entity by the result of do. It skips parts that the
// schema does not have; later checks refuse them.
func (p *pipeline) eachName(e *p4.Entity, do func(*nameType, []byte) ([]byte, error)) error {
	v := nameVisit{p: p, do: do}
	if k, err := kindOf(e, ""); err == nil {
		k.names(&v, e)
	}
	return v.err
}

// nameVisit is one walk of eachName. After an error it does nothing more.
type nameVisit struct {
	p   *pipeline
	do  func(*nameType, []byte) ([]byte, error)
	err error
}

func (v *nameVisit) value(t *nameType, b *[]byte) {
	if t == nil || v.err != nil {
		return
	}
	*b, v.err = v.do(t, *b)
}

func (v *nameVisit) table(te *p4.TableEntry) {
	t := v.p.tables.byID[te.GetTableId()]
	if t == nil {
		return
	}
	v.match(t.fields, t.fieldByID, te.GetMatch())
	switch a := te.GetAction().GetType().(type) {
	case *p4.TableAction_Action:
		v.action(a.Action)
	case *p4.TableAction_ActionProfileActionSet:
		for _, m := range a.ActionProfileActionSet.GetActionProfileActions() {
			v.action(m.GetAction())
			if w, ok := m.GetWatchKind().(*p4.ActionProfileAction_WatchPort); ok && len(w.WatchPort) > 0 {
				v.value(v.p.portNames, &w.WatchPort)
			}
		}
	}
	v.err = rpc.PrefixError("table "+t.name, v.err)
}

// match translates the fields that match one value. P4Runtime allows no other match kinds for such types.
func (v *nameVisit) match(fields []*fieldSchema, byID map[uint32]int, ms []*p4.FieldMatch) {
	for _, m := range ms {
		i, ok := byID[m.GetFieldId()]
		if !ok {
			continue
		}
		switch x := m.GetFieldMatchType().(type) {
		case *p4.FieldMatch_Exact_:
			v.value(fields[i].named, &x.Exact.Value)
		case *p4.FieldMatch_Optional_:
			v.value(fields[i].named, &x.Optional.Value)
		}
	}
}

func (v *nameVisit) action(a *p4.Action) {
	as := v.p.actions.byID[a.GetActionId()]
	if as == nil {
		return
	}
	for _, q := range a.GetParams() {
		if i, ok := as.paramByID[q.GetParamId()]; ok {
			v.value(as.params[i].named, &q.Value)
		}
	}
}

func (v *nameVisit) group(g *p4.ActionProfileGroup) {
	for _, m := range g.GetMembers() {
		if w, ok := m.GetWatchKind().(*p4.ActionProfileGroup_Member_WatchPort); ok && len(w.WatchPort) > 0 {
			v.value(v.p.portNames, &w.WatchPort)
		}
	}
}

func (v *nameVisit) valueSet(e *p4.ValueSetEntry) {
	if vs := v.p.valueSets.byID[e.GetValueSetId()]; vs != nil {
		for _, m := range e.GetMembers() {
			v.match(vs.fields, vs.fieldByID, m.GetMatch())
		}
	}
}

func (v *nameVisit) replicas(rs []*p4.Replica) {
	for _, r := range rs {
		if k, ok := r.GetPortKind().(*p4.Replica_Port); ok {
			v.value(v.p.portNames, &k.Port)
		}
	}
}

// portNamed returns the type of ports, if it is translated to names.
func (s *schema) portNamed() *nameType {
	i := slices.IndexFunc(portTypes, func(name string) bool { return s.nameTypes[name] != nil })
	if i < 0 {
		return nil
	}
	return s.nameTypes[portTypes[i]]
}
