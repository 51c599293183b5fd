package p4runtime

import (
	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// parseAction checks an action of a table or profile. The call's arguments live in sc until the next call. It
// returns the action in canonical form: a itself, if it is.
func (sc *scratch) parseAction(actions map[uint32]*actionRef, a *p4.Action, isDefault bool) (interp.ActionCall, *p4.Action, error) {
	var none interp.ActionCall
	ref := actions[a.GetActionId()]
	if ref == nil {
		return none, nil, rpc.Invalidf("action %#x is not one of the table's actions", a.GetActionId())
	}
	switch {
	case isDefault && ref.scope == p4config.ActionRef_TABLE_ONLY:
		return none, nil, rpc.Errorf(codes.PermissionDenied, "action %s is for entries only, not for the default entry", ref.name)
	case !isDefault && ref.scope == p4config.ActionRef_DEFAULT_ONLY:
		return none, nil, rpc.Errorf(codes.PermissionDenied, "action %s is for the default entry only", ref.name)
	}
	sc.args = append(sc.args[:0], make([][]byte, len(ref.params))...)
	shortest := true
	for _, p := range a.GetParams() {
		i, ok := ref.paramByID[p.GetParamId()]
		if !ok {
			return none, nil, rpc.Invalidf("action %s has no parameter with id %d", ref.name, p.GetParamId())
		}
		if sc.args[i] != nil {
			return none, nil, rpc.Invalidf("action %s: parameter %s is given twice", ref.name, ref.params[i].name)
		}
		if err := checkWidth(p.GetValue(), ref.params[i].width, ref.params[i].name); err != nil {
			return none, nil, rpc.PrefixError("action "+ref.name, err)
		}
		sc.args[i] = p.GetValue()
		shortest = shortest && isCanonical(p.GetValue())
	}
	for i, arg := range sc.args {
		if arg == nil {
			return none, nil, rpc.Invalidf("action %s: parameter %s (id %d) is missing", ref.name, ref.params[i].name, ref.params[i].id)
		}
	}
	if !shortest {
		b := &p4.Action{ActionId: a.GetActionId()}
		for _, p := range a.GetParams() {
			b.Params = append(b.Params, &p4.Action_Param{ParamId: p.GetParamId(), Value: canonicalBytes(p.GetValue())})
		}
		a = b
	}
	return interp.ActionCall{Action: ref.aid, Args: sc.args}, a, nil
}

// actionFromProgram returns the P4Runtime form of one of the program's own calls; nil if P4Info does not have the
// action.
func (ts *tableSchema) actionFromProgram(call interp.ActionCall) *p4.Action {
	id, ok := ts.actionByBMv2[call.Action]
	if !ok {
		return nil
	}
	a := &p4.Action{ActionId: id}
	for i, p := range ts.actions[id].params {
		if i < len(call.Args) {
			a.Params = append(a.Params, &p4.Action_Param{ParamId: p.id, Value: append([]byte(nil), canonicalBytes(call.Args[i])...)})
		}
	}
	return a
}
