package p4runtime

import (
	"encoding/binary"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
)

// A table of 100,000 routes would hold 1.4 million small messages, if each entry kept those of its request. So an entry
// keeps its key alone, which has the match, and the switch has its action. Answers make messages of them again.

// givenEntry returns what of an entry has to be kept, because key and switch do not tell it: nil, if its table has
// direct actions and if fields and parameters were in P4Info's order. Match and action are in canonical form.
func (t *tableState) givenEntry(match []*p4.FieldMatch, a *p4.TableAction) *p4.TableEntry {
	if t.profile == nil && t.keyInOrder(match, a.GetAction()) {
		return nil
	}
	return &p4.TableEntry{Match: match, Action: a}
}

func (t *tableState) keyInOrder(match []*p4.FieldMatch, a *p4.Action) bool {
	last := -1
	for _, m := range match {
		i := t.fieldByID[m.GetFieldId()]
		if i < last {
			return false
		}
		last = i
	}
	for i, q := range t.actions[a.GetActionId()].params {
		if a.GetParams()[i].GetParamId() != q.id {
			return false
		}
	}
	return true
}

// matchOf returns an entry's match in canonical form.
func (t *tableState) matchOf(e *entry) []*p4.FieldMatch {
	if e.given != nil {
		return e.given.GetMatch()
	}
	key := []byte(e.key) // as [scratch.appendKey] writes it
	take := func(n int) (b []byte) {
		b, key = key[:n:n], key[n:]
		return b
	}
	var out []*p4.FieldMatch
	for _, f := range t.fields {
		if f.match != p4config.MatchField_EXACT && take(1)[0] == 0 {
			continue
		}
		size := (f.width + 7) / 8
		m := &p4.FieldMatch{FieldId: f.id}
		value := canonicalBytes(take(size))
		switch f.match {
		case p4config.MatchField_EXACT:
			m.FieldMatchType = &p4.FieldMatch_Exact_{Exact: &p4.FieldMatch_Exact{Value: value}}
		case p4config.MatchField_OPTIONAL:
			m.FieldMatchType = &p4.FieldMatch_Optional_{Optional: &p4.FieldMatch_Optional{Value: value}}
		case p4config.MatchField_LPM:
			m.FieldMatchType = &p4.FieldMatch_Lpm{Lpm: &p4.FieldMatch_LPM{Value: value, PrefixLen: int32(binary.BigEndian.Uint16(take(2)))}}
		case p4config.MatchField_TERNARY:
			m.FieldMatchType = &p4.FieldMatch_Ternary_{Ternary: &p4.FieldMatch_Ternary{Value: value, Mask: canonicalBytes(take(size))}}
		case p4config.MatchField_RANGE:
			m.FieldMatchType = &p4.FieldMatch_Range_{Range: &p4.FieldMatch_Range{Low: value, High: canonicalBytes(take(size))}}
		}
		out = append(out, m)
	}
	return out
}

// actionOf returns the action of an entry in the switch, in canonical form; nil for one of the program's own whose
// action P4Info does not have.
func (p *pipeline) actionOf(t *tableState, e *entry) *p4.TableAction {
	if e.given != nil {
		return e.given.GetAction()
	}
	target, err := p.sw.Target(t.tid, e.handle)
	if err != nil || target.Kind != interp.ByAction {
		return nil
	}
	a := t.actionFromProgram(target.Call)
	if a == nil {
		return nil
	}
	return &p4.TableAction{Type: &p4.TableAction_Action{Action: a}}
}
