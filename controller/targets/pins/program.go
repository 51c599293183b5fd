package pins

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/controller"
)

// ErrProgram is wrapped by the errors of [NewProgram].
var ErrProgram = errors.New("pins: unsuitable sai_p4")

// The tables of sai_p4 that are written.
const (
	interfaceTable = "router_interface_table"
	neighborTable  = "neighbor_table"
	nexthopTable   = "nexthop_table"
	admitTable     = "l3_admit_table"
	groupTable     = "wcmp_group_table"
	v4Table        = "ipv4_table"
	v6Table        = "ipv6_table"
	aclTable       = "acl_ingress_table"
)

// requiredTables lists what a program must have: per table the key fields and actions in use. Of several actions
// separated by "|" the first existing one is used.
var requiredTables = []struct {
	table           string
	fields, actions []string
}{
	{interfaceTable, []string{"router_interface_id"}, []string{"unicast_set_port_and_src_mac|set_port_and_src_mac port src_mac"}},
	{neighborTable, []string{"router_interface_id", "neighbor_id"}, []string{"set_dst_mac dst_mac"}},
	{nexthopTable, []string{"nexthop_id"}, []string{"set_ip_nexthop router_interface_id neighbor_id"}},
	{admitTable, []string{"dst_mac"}, []string{"admit_to_l3"}},
	{groupTable, []string{"wcmp_group_id"}, []string{"set_nexthop_id nexthop_id"}},
	{v4Table, []string{"vrf_id", "ipv4_dst"}, []string{"drop", "set_nexthop_id nexthop_id", "set_wcmp_group_id wcmp_group_id"}},
	{v6Table, []string{"vrf_id", "ipv6_dst"}, []string{"drop", "set_nexthop_id nexthop_id", "set_wcmp_group_id wcmp_group_id"}},
	{aclTable, []string{"is_ip", "is_ipv4", "is_ipv6", "dst_ip", "dst_ipv6", "ip_protocol", "l4_src_port", "l4_dst_port"},
		[]string{"acl_forward", "redirect_to_nexthop nexthop_id"}},
}

// Program is a version of SONiC PINS' program sai_p4, described by its P4Info.
type Program struct {
	role   string // role that owns the tables
	tables map[string]*table
	byID   map[uint32]*table

	groupShares int32 // largest number of shares in a group; 0: not stated
}

type table struct {
	name    string
	id      uint32
	fields  []*p4config.MatchField // those of needs first
	actions map[string]*action     // by the first name in needs
	group   bool
	size    int64
}

type action struct {
	name   string
	id     uint32
	params []uint32 // in the order of needs
}

// NewProgram finds the needed parts of a P4Info. The error wraps [ErrProgram] and names the first missing part.
func NewProgram(info *p4config.P4Info) (*Program, error) {
	p := &Program{tables: map[string]*table{}, byID: map[uint32]*table{}}
	for _, n := range requiredTables {
		i := slices.IndexFunc(info.GetTables(), func(t *p4config.Table) bool { return t.GetPreamble().GetAlias() == n.table })
		if i < 0 {
			return nil, fmt.Errorf("%w: there is no table %s; give the P4Info of tor, middleblock or fabric_border_router", ErrProgram, n.table)
		}
		from := info.GetTables()[i]
		t := &table{name: n.table, id: from.GetPreamble().GetId(), actions: map[string]*action{}, group: from.GetImplementationId() != 0, size: from.GetSize()}
		for _, name := range n.fields {
			j := slices.IndexFunc(from.GetMatchFields(), func(f *p4config.MatchField) bool { return f.GetName() == name })
			if j < 0 {
				return nil, fmt.Errorf("%w: table %s has no key field %s", ErrProgram, n.table, name)
			}
			t.fields = append(t.fields, from.GetMatchFields()[j])
		}
		for _, words := range n.actions {
			a, err := findAction(info, from, words)
			if err != nil {
				return nil, err
			}
			t.actions[a.name] = a
		}
		p.tables[t.name], p.byID[t.id] = t, t
		for _, a := range info.GetActionProfiles() {
			if n.table == groupTable && a.GetPreamble().GetId() == from.GetImplementationId() {
				p.groupShares = a.GetMaxGroupSize()
			}
		}
		for _, a := range from.GetPreamble().GetAnnotations() {
			if rest, ok := strings.CutPrefix(a, "@p4runtime_role("); ok && n.table == v4Table {
				p.role = strings.Trim(strings.TrimSuffix(rest, ")"), `"`)
			}
		}
	}
	return p, nil
}

// findAction returns one of a table's actions, with its parameters.
func findAction(info *p4config.P4Info, t *p4config.Table, words string) (*action, error) {
	w := strings.Fields(words)
	names := strings.Split(w[0], "|")
	for _, name := range names {
		for _, x := range info.GetActions() {
			id := x.GetPreamble().GetId()
			if x.GetPreamble().GetAlias() != name ||
				!slices.ContainsFunc(t.GetActionRefs(), func(r *p4config.ActionRef) bool { return r.GetId() == id }) {
				continue
			}
			a := &action{name: names[0], id: id}
			for _, param := range w[1:] {
				i := slices.IndexFunc(x.GetParams(), func(q *p4config.Action_Param) bool { return q.GetName() == param })
				if i < 0 || len(x.GetParams()) != len(w)-1 {
					return nil, fmt.Errorf("%w: action %s has not the parameters %v", ErrProgram, name, w[1:])
				}
				a.params = append(a.params, x.GetParams()[i].GetId())
			}
			return a, nil
		}
	}
	return nil, fmt.Errorf("%w: table %s has no action %s", ErrProgram, t.GetPreamble().GetAlias(), w[0])
}

// match is one key field of a row; the match kind determines which members are used.
type match struct {
	field       string
	value, mask string // as sent: numbers without leading zero bytes, names unchanged
	prefix      int32
}

// memberWeight is one member of a group.
type memberWeight struct {
	nexthop string
	weight  int32
	watch   string // port
}

// row is an entry of a table of [requiredTables].
type row struct {
	table    string
	priority int32
	match    []match // omitted fields match everything
	action   string
	args     []string
	shares   []memberWeight // of a group, instead of action and args
}

// get returns a key field.
func (r *row) get(field string) (match, bool) {
	i := slices.IndexFunc(r.match, func(m match) bool { return m.field == field })
	if i < 0 {
		return match{}, false
	}
	return r.match[i], true
}

// key identifies a row of a table.
func (r *row) key() string { return fmt.Sprintf("%s %d %+q", r.table, r.priority, r.match) }

// same reports whether two rows with the same key have the same action.
func (r *row) same(s *row) bool {
	return r.action == s.action && slices.Equal(r.args, s.args) && slices.Equal(r.shares, s.shares)
}

// encode returns a row as P4Runtime sends it, or with keyOnly only its key.
func (p *Program) encode(r *row, keyOnly bool) *p4.Entity {
	t := p.tables[r.table]
	te := &p4.TableEntry{TableId: t.id, Priority: r.priority}
	for _, f := range t.fields {
		m, ok := r.get(f.GetName())
		if !ok {
			continue
		}
		out := &p4.FieldMatch{FieldId: f.GetId()}
		switch f.GetMatchType() {
		case p4config.MatchField_LPM:
			out.FieldMatchType = &p4.FieldMatch_Lpm{Lpm: &p4.FieldMatch_LPM{Value: []byte(m.value), PrefixLen: m.prefix}}
		case p4config.MatchField_TERNARY:
			out.FieldMatchType = &p4.FieldMatch_Ternary_{Ternary: &p4.FieldMatch_Ternary{Value: []byte(m.value), Mask: []byte(m.mask)}}
		case p4config.MatchField_OPTIONAL:
			out.FieldMatchType = &p4.FieldMatch_Optional_{Optional: &p4.FieldMatch_Optional{Value: []byte(m.value)}}
		default:
			out.FieldMatchType = &p4.FieldMatch_Exact_{Exact: &p4.FieldMatch_Exact{Value: []byte(m.value)}}
		}
		te.Match = append(te.Match, out)
	}
	switch {
	case keyOnly:
	case t.group:
		set := &p4.ActionProfileActionSet{}
		for _, s := range r.shares {
			set.ActionProfileActions = append(set.ActionProfileActions, &p4.ActionProfileAction{
				Action: t.actions["set_nexthop_id"].call(s.nexthop), Weight: s.weight,
				WatchKind: &p4.ActionProfileAction_WatchPort{WatchPort: []byte(s.watch)},
			})
		}
		te.Action = &p4.TableAction{Type: &p4.TableAction_ActionProfileActionSet{ActionProfileActionSet: set}}
	default:
		te.Action = &p4.TableAction{Type: &p4.TableAction_Action{Action: t.actions[r.action].call(r.args...)}}
	}
	return &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: te}}
}

func (a *action) call(args ...string) *p4.Action {
	out := &p4.Action{ActionId: a.id}
	for i, id := range a.params {
		out.Params = append(out.Params, &p4.Action_Param{ParamId: id, Value: []byte(args[i])})
	}
	return out
}

// decode reads an entry. ok is false if [Program.encode] cannot have made its key. An action that it cannot have
// made is "".
func (p *Program) decode(te *p4.TableEntry) (r row, ok bool) {
	t := p.byID[te.GetTableId()]
	if t == nil || te.GetIsDefaultAction() {
		return r, false
	}
	r = row{table: t.name, priority: te.GetPriority()}
	for _, f := range t.fields { // in their order
		i := slices.IndexFunc(te.GetMatch(), func(m *p4.FieldMatch) bool { return m.GetFieldId() == f.GetId() })
		if i < 0 {
			continue
		}
		m := match{field: f.GetName()}
		switch x := te.GetMatch()[i].GetFieldMatchType().(type) {
		case *p4.FieldMatch_Lpm:
			m.value, m.prefix = string(x.Lpm.GetValue()), x.Lpm.GetPrefixLen()
		case *p4.FieldMatch_Ternary_:
			m.value, m.mask = string(x.Ternary.GetValue()), string(x.Ternary.GetMask())
		case *p4.FieldMatch_Optional_:
			m.value = string(x.Optional.GetValue())
		case *p4.FieldMatch_Exact_:
			m.value = string(x.Exact.GetValue())
		default:
			return r, false
		}
		if f.GetTypeName() == nil { // a number
			if m.value == "" || m.mask == "" && f.GetMatchType() == p4config.MatchField_TERNARY {
				return r, false
			}
			m.value, m.mask = trim(m.value), trim(m.mask)
		}
		r.match = append(r.match, m)
	}
	if len(r.match) != len(te.GetMatch()) {
		return r, false
	}
	switch a := te.GetAction().GetType().(type) {
	case *p4.TableAction_Action:
		r.action, r.args = t.parseCall(a.Action)
	case *p4.TableAction_ActionProfileActionSet:
		for _, m := range a.ActionProfileActionSet.GetActionProfileActions() {
			name, args := t.parseCall(m.GetAction())
			if name != "set_nexthop_id" {
				r.shares = nil
				return r, true
			}
			r.shares = append(r.shares, memberWeight{args[0], m.GetWeight(), string(m.GetWatchPort())})
		}
	}
	return r, true
}

func (t *table) parseCall(call *p4.Action) (string, []string) {
	for _, a := range t.actions {
		if a.id != call.GetActionId() || len(call.GetParams()) != len(a.params) {
			continue
		}
		var args []string
		for _, id := range a.params {
			i := slices.IndexFunc(call.GetParams(), func(p *p4.Action_Param) bool { return p.GetParamId() == id })
			if i < 0 {
				return "", nil
			}
			args = append(args, string(call.GetParams()[i].GetValue()))
		}
		return a.name, args
	}
	return "", nil
}

// trim returns a number without leading zero bytes.
func trim(s string) string {
	for len(s) > 1 && s[0] == 0 {
		s = s[1:]
	}
	return s
}

// Room returns the largest number of entries of each table, and of shares in a group, for [targets.Translation].
func (p *Program) Room() (entries map[controller.Table]int64, group int32) {
	return map[controller.Table]int64{
		controller.ECMP: p.tables[groupTable].size, controller.RouteV4: p.tables[v4Table].size, controller.RouteV6: p.tables[v6Table].size,
		controller.SourceRoute: max(p.tables[aclTable].size-2, 0), // minus the two for hosts below
	}, p.groupShares
}
