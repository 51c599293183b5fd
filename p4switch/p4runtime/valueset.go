package p4runtime

import (
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

func (p *pipeline) writeValueSet(r *role, typ p4.Update_Type, ve *p4.ValueSetEntry) error {
	if err := modifyOnly("value set", typ); err != nil {
		return err
	}
	v, err := p.valueSets.find(p.schema, r, ve.GetValueSetId())
	if err != nil {
		return err
	}
	if n := len(ve.GetMembers()); n > v.size {
		return rpc.Errorf(codes.ResourceExhausted, "value set %s holds %d members, the request has %d", v.name, v.size, n)
	}
	sc := &p.core.scratch
	seen := map[string]bool{}
	out := &p4.ValueSetEntry{ValueSetId: v.id}
	var members [][]program.FieldMatch
	for _, m := range ve.GetMembers() {
		match, err := sc.parseMatch(v.fields, v.fieldByID, len(v.fields), m.GetMatch())
		if err != nil {
			return rpc.PrefixError("value set "+v.name, err)
		}
		if seen[string(sc.key)] {
			return rpc.Errorf(codes.AlreadyExists, "value set %s: a member is given twice", v.name)
		}
		seen[string(sc.key)] = true
		members = append(members, slices.Clone(sc.match))
		out.Members = append(out.Members, &p4.ValueSetMember{Match: match})
	}
	if err := p.sw.SetValueSet(v.vid, members); err != nil {
		return fromSwitch(err)
	}
	setUndoable(p, p.valueSetEntries, v.id, out)
	return nil
}

func (p *pipeline) readValueSet(r *role, ve *p4.ValueSetEntry, emit func(*p4.ValueSetEntry) error) error {
	list, err := p.valueSets.named(p.schema, r, ve.GetValueSetId())
	if err != nil {
		return err
	}
	for _, v := range list {
		out := p.valueSetEntries[v.id]
		if out == nil {
			out = &p4.ValueSetEntry{ValueSetId: v.id}
		}
		if err := emit(out); err != nil {
			return err
		}
	}
	return nil
}
