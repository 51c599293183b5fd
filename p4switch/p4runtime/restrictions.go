package p4runtime

import (
	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/p4switch/constraints"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// A P4Info's annotations may restrict writes: @entry_restriction of a table and @action_restriction of an action by
// a constraint (package constraints), @refers_to of a match field or a parameter by other entries (references.go).

// bindRestrictions compiles the annotations of tables and actions.
func (b *schemaBuilder) bindRestrictions() error {
	for _, t := range b.info.GetTables() {
		ts := b.tables.byID[t.GetPreamble().GetId()]
		if ts == nil {
			continue // packets never reach it, and nothing can be written
		}
		text, err := constraints.Find(t.GetPreamble().GetAnnotations(), "entry_restriction")
		if err == nil && text != "" {
			ts.restriction, err = constraints.Entry(text, ts.variables())
		}
		if err != nil {
			return rpc.Invalidf("p4info: table %s: %v", ts.name, err)
		}
	}
	for _, a := range b.info.GetActions() {
		as := b.actions.byID[a.GetPreamble().GetId()]
		text, err := constraints.Find(a.GetPreamble().GetAnnotations(), "action_restriction")
		if err == nil && text != "" {
			as.restriction, err = constraints.Action(text, as.variables())
		}
		if err != nil {
			return rpc.Invalidf("p4info: action %s: %v", as.name, err)
		}
	}
	return b.bindReferences()
}

var constraintKinds = map[p4config.MatchField_MatchType]constraints.Kind{
	p4config.MatchField_EXACT: constraints.Exact, p4config.MatchField_TERNARY: constraints.Ternary, p4config.MatchField_LPM: constraints.LPM,
	p4config.MatchField_RANGE: constraints.Range, p4config.MatchField_OPTIONAL: constraints.Optional,
}

func (ts *tableSchema) variables() (vs []constraints.Variable) {
	for _, f := range ts.fields {
		vs = append(vs, constraints.Variable{Name: f.name, Kind: constraintKinds[f.match], Width: f.width})
	}
	return vs
}

func (as *actionSchema) variables() (vs []constraints.Variable) {
	for _, q := range as.params {
		vs = append(vs, constraints.Variable{Name: q.name, Width: q.width})
	}
	return vs
}

// values returns a match in the form of a constraint's variables.
func (ts *tableSchema) values(match []*p4.FieldMatch) []constraints.Value {
	out := make([]constraints.Value, len(ts.fields))
	for i := range out {
		out[i].Wild = true
	}
	for _, m := range match {
		v := &out[ts.fieldByID[m.GetFieldId()]]
		switch x := m.GetFieldMatchType().(type) {
		case *p4.FieldMatch_Exact_:
			*v = constraints.Value{First: x.Exact.GetValue()}
		case *p4.FieldMatch_Optional_:
			*v = constraints.Value{First: x.Optional.GetValue()}
		case *p4.FieldMatch_Ternary_:
			*v = constraints.Value{First: x.Ternary.GetValue(), Second: x.Ternary.GetMask()}
		case *p4.FieldMatch_Lpm:
			*v = constraints.Value{First: x.Lpm.GetValue(), PrefixLen: int(x.Lpm.GetPrefixLen())}
		case *p4.FieldMatch_Range_:
			*v = constraints.Value{First: x.Range.GetLow(), Second: x.Range.GetHigh()}
		}
	}
	return out
}

// actionsOf returns the actions that an entry itself names.
func actionsOf(a *p4.TableAction) []*p4.Action {
	switch x := a.GetType().(type) {
	case *p4.TableAction_Action:
		return []*p4.Action{x.Action}
	case *p4.TableAction_ActionProfileActionSet:
		out := make([]*p4.Action, 0, len(x.ActionProfileActionSet.GetActionProfileActions()))
		for _, m := range x.ActionProfileActionSet.GetActionProfileActions() {
			out = append(out, m.GetAction())
		}
		return out
	}
	return nil
}

// checkRestrictions refuses an entry that violates the annotations of its table or its actions. The entry was checked
// before.
func (p *pipeline) checkRestrictions(t *tableState, match []*p4.FieldMatch, priority int32, a *p4.TableAction) error {
	if t.restriction != nil {
		if err := t.restriction.Check(priority, t.values(match)); err != nil {
			return rpc.Invalidf("%v", err)
		}
	}
	for _, x := range actionsOf(a) {
		if err := p.permitAction(x); err != nil {
			return err
		}
	}
	return p.checkReferences(p.referencesOf(t, match, a))
}

func (p *pipeline) permitAction(a *p4.Action) error {
	as := p.actions.byID[a.GetActionId()]
	if as.restriction == nil {
		return nil
	}
	values := make([]constraints.Value, len(as.params))
	for _, q := range a.GetParams() {
		values[as.paramByID[q.GetParamId()]].First = q.GetValue()
	}
	if err := as.restriction.Check(0, values); err != nil {
		return rpc.PrefixError("action "+as.name, rpc.Invalidf("%v", err))
	}
	return nil
}
