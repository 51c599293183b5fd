package p4rt

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/targets"
)

// ErrSchema is wrapped if a P4Info does not fit the controller.
var ErrSchema = errors.New("p4rt: P4Info does not fit")

// Schema maps the controller's tables and actions to the P4Runtime IDs of one P4 program.
type Schema struct {
	tables  map[controller.Table]tableIDs
	actions map[controller.Action]actionIDs

	byTableID  map[uint32]controller.Table
	byActionID map[uint32]controller.Action
	names      map[uint32]string // of every table and action, for errors
	packets    packetIDs
	called     targets.Names // the program's names
	dialect    Dialect
}

type tableIDs struct {
	id       uint32
	keyID    uint32
	selector uint32 // id of its action profile, or 0
	size     int64
	shares   int64 // of a selector: largest total of all groups' shares; 0: no limit
	maxGroup int32 // of a selector: largest number of shares in a group; 0: no limit
}

type actionIDs struct {
	id     uint32
	params []uint32
}

// ParseSchema reads a P4Info in protobuf's text form.
func ParseSchema(text []byte) (*Schema, error) {
	info, err := ParseP4Info(text)
	if err != nil {
		return nil, err
	}
	return NewSchema(info)
}

// ParseP4Info reads a P4Info in protobuf's text form.
func ParseP4Info(text []byte) (*p4config.P4Info, error) {
	info := new(p4config.P4Info)
	if err := prototext.Unmarshal(text, info); err != nil {
		return nil, fmt.Errorf("%w: not a P4Info in text form: %w", ErrSchema, err)
	}
	return info, nil
}

// NewSchema returns the schema of a program, or an error that names the first object that differs from the
// controller's expectation, or is absent and not in mayLack.
func NewSchema(info *p4config.P4Info, mayLack ...controller.Table) (*Schema, error) {
	return newSchema(info, nil, mayLack)
}

// newSchema is NewSchema for a program with other names.
func newSchema(info *p4config.P4Info, called targets.Names, mayLack []controller.Table) (*Schema, error) {
	s := &Schema{
		called: called,
		tables: map[controller.Table]tableIDs{}, actions: map[controller.Action]actionIDs{},
		byTableID: map[uint32]controller.Table{}, byActionID: map[uint32]controller.Action{},
		names: map[uint32]string{},
	}
	for _, t := range info.GetTables() {
		s.names[t.GetPreamble().GetId()] = t.GetPreamble().GetName()
	}
	for _, a := range info.GetActions() {
		s.names[a.GetPreamble().GetId()] = a.GetPreamble().GetName()
	}
	s.bindPackets(info)
	for _, t := range controller.Tables() {
		if t.Replicated() || slices.Contains(mayLack, t) {
			continue // in the packet replication engine, not in a P4Info
		}
		if err := s.bindTable(info, t); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// hasPreamble is an object of a P4Info with a preamble.
type hasPreamble interface{ GetPreamble() *p4config.Preamble }

// find returns the object with a name, or the only one with that alias.
func find[T hasPreamble](all []T, name string) (T, error) {
	var byAlias []T
	for _, x := range all {
		p := x.GetPreamble()
		if strings.TrimPrefix(p.GetName(), ".") == name {
			return x, nil
		}
		if p.GetAlias() == name {
			byAlias = append(byAlias, x)
		}
	}
	var none T
	switch len(byAlias) {
	case 1:
		return byAlias[0], nil
	case 0:
		var names []string
		for _, x := range all {
			names = append(names, x.GetPreamble().GetName())
		}
		return none, fmt.Errorf("there is none; there are %s", strings.Join(names, ", "))
	}
	return none, fmt.Errorf("%d have this alias, none this name", len(byAlias))
}

var matchTypes = map[controller.MatchKind]p4config.MatchField_MatchType{
	controller.Exact:   p4config.MatchField_EXACT,
	controller.LPM:     p4config.MatchField_LPM,
	controller.Ternary: p4config.MatchField_TERNARY,
}

func (s *Schema) bindTable(info *p4config.P4Info, t controller.Table) error {
	l := t.Layout()
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: table %s: %s", ErrSchema, l.Name, fmt.Sprintf(format, args...))
	}
	pt, err := find(info.GetTables(), s.called.Of(l.Name))
	switch {
	case err != nil && l.Optional:
		return nil
	case err != nil:
		return fail("%v", err)
	}
	ids := tableIDs{id: pt.GetPreamble().GetId(), size: pt.GetSize()}
	switch fields := pt.GetMatchFields(); {
	case l.Match == controller.Keyless:
		if len(fields) != 0 {
			return fail("it has key field %s; there must be none", fields[0].GetName())
		}
	case len(fields) != 1:
		return fail("it has %d key fields; there must be one, %s", len(fields), l.Key.Name)
	case fields[0].GetName() != l.Key.Name:
		return fail("its key field is %s; it must be %s", fields[0].GetName(), l.Key.Name)
	case int(fields[0].GetBitwidth()) != l.Key.Bits:
		return fail("key field %s has %d bits; it must have %d", l.Key.Name, fields[0].GetBitwidth(), l.Key.Bits)
	case fields[0].GetMatchType() != matchTypes[l.Match]:
		return fail("key field %s matches %v; it must match %v", l.Key.Name, fields[0].GetMatchType(), matchTypes[l.Match])
	default:
		ids.keyID = fields[0].GetId()
	}
	ids.selector = pt.GetImplementationId()
	if l.Selector != (ids.selector != 0) {
		return fail("its implementation is %#x; whether it has an action selector must be %v", ids.selector, l.Selector)
	}
	if l.Selector {
		i := slices.IndexFunc(info.GetActionProfiles(), func(p *p4config.ActionProfile) bool {
			return p.GetPreamble().GetId() == ids.selector
		})
		if i < 0 || !info.GetActionProfiles()[i].GetWithSelector() {
			return fail("its implementation %#x is not an action selector", ids.selector)
		}
		ids.shares = info.GetActionProfiles()[i].GetSize()
		ids.maxGroup = info.GetActionProfiles()[i].GetMaxGroupSize()
	}
	for _, a := range l.Actions {
		if err := s.bindAction(info, a); err != nil {
			if _, missing := find(info.GetActions(), s.called.Of(a.Layout().Name)); missing != nil && a.Layout().Optional {
				continue
			}
			return fail("%v", err)
		}
		if id := s.actions[a].id; !slices.ContainsFunc(pt.GetActionRefs(), func(r *p4config.ActionRef) bool { return r.GetId() == id }) {
			return fail("it does not list action %v", a)
		}
	}
	s.tables[t] = ids
	s.byTableID[ids.id] = t
	return nil
}

func (s *Schema) bindAction(info *p4config.P4Info, a controller.Action) error {
	if _, ok := s.actions[a]; ok {
		return nil
	}
	l := a.Layout()
	pa, err := find(info.GetActions(), s.called.Of(l.Name))
	if err != nil {
		return fmt.Errorf("action %s: %w", l.Name, err)
	}
	if len(pa.GetParams()) != len(l.Params) {
		return fmt.Errorf("action %s has %d parameters; it must have %d", l.Name, len(pa.GetParams()), len(l.Params))
	}
	ids := actionIDs{id: pa.GetPreamble().GetId()}
	for _, want := range l.Params {
		i := slices.IndexFunc(pa.GetParams(), func(p *p4config.Action_Param) bool { return p.GetName() == want.Name })
		if i < 0 {
			return fmt.Errorf("action %s has no parameter %s", l.Name, want.Name)
		}
		if got := int(pa.GetParams()[i].GetBitwidth()); got != want.Bits {
			return fmt.Errorf("action %s: parameter %s has %d bits; it must have %d", l.Name, want.Name, got, want.Bits)
		}
		ids.params = append(ids.params, pa.GetParams()[i].GetId())
	}
	s.actions[a] = ids
	s.byActionID[ids.id] = a
	return nil
}

// MaxGroupSize returns the largest number of shares in an ECMP group, as for controller.Config; 0: the program
// states no limit.
func (s *Schema) MaxGroupSize() int { return int(s.tables[controller.ECMP].maxGroup) }

// Fits returns an error for the first table that cannot hold the entries, which are all of a switch, or for a
// selector whose groups have more shares in total than the program allows. The error wraps [ErrEntry].
func (s *Schema) Fits(entries []controller.Entry) error {
	count, shares := map[controller.Table]int64{}, map[controller.Table]int64{}
	for i := range entries {
		e := &entries[i]
		count[e.Table]++
		for _, m := range e.Members {
			shares[e.Table] += int64(m.Weight)
		}
	}
	for _, t := range controller.Tables() {
		ids := s.tables[t]
		switch {
		case ids.size > 0 && t.Layout().Match != controller.Keyless && count[t] > ids.size:
			return fmt.Errorf("%w: table %v: %d entries; the program has room for %d", ErrEntry, t, count[t], ids.size)
		case ids.shares > 0 && shares[t] > ids.shares:
			return fmt.Errorf("%w: table %v: its groups have %d shares together; the program allows %d: set MaxGroupSize lower",
				ErrEntry, t, shares[t], ids.shares)
		}
	}
	return nil
}

// TableID returns the number of a table.
func (s *Schema) TableID(t controller.Table) uint32 { return s.tables[t].id }

// name returns the name of a table or action for an error.
func (s *Schema) name(id uint32) string {
	if n, ok := s.names[id]; ok {
		return n
	}
	return fmt.Sprintf("%#x", id)
}
