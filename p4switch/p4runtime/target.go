package p4runtime

import (
	"encoding/binary"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// actionSet is a selector group that an entry was programmed with in one shot. The group belongs to the entry. Its
// members are shared with other one-shots with the same action and watch port, because the switch limits the number
// of members, and P4Runtime the size of groups.
type actionSet struct {
	gid     interp.GroupID
	members []string // keys of profileState.shared
}

// sharedMember is a member of the switch that one-shots use.
type sharedMember struct {
	mid   interp.MemberID
	watch watchPort
	refs  int
}

// sharedKey returns the key by which one-shot members are equal.
func sharedKey(call interp.ActionCall, w watchPort) string {
	key := binary.BigEndian.AppendUint32(nil, uint32(call.Action))
	for _, arg := range call.Args {
		arg = canonicalBytes(arg)
		key = binary.BigEndian.AppendUint32(key, uint32(len(arg)))
		key = append(key, arg...)
	}
	if w.on {
		key = binary.BigEndian.AppendUint32(key, w.port)
	}
	return string(key)
}

// acquireTarget checks an entry's action and prepares the switch for it: it takes references on members and groups, or
// creates the group of a one-shot, which it records in e. It returns the action in canonical form.
func (p *pipeline) acquireTarget(t *tableState, a *p4.TableAction, e *entry) (target interp.Target, canon *p4.TableAction, err error) {
	if t.profile == nil {
		x, ok := a.GetType().(*p4.TableAction_Action)
		if !ok {
			return target, nil, rpc.Invalidf("the table has direct actions; the request has %T", a.GetType())
		}
		call, action, err := p.core.scratch.parseAction(t.actions, x.Action, false)
		if err != nil {
			return target, nil, err
		}
		if action != x.Action {
			a = &p4.TableAction{Type: &p4.TableAction_Action{Action: action}}
		}
		return interp.Target{Kind: interp.ByAction, Call: call}, a, nil
	}
	ps := p.profileStates[t.profile.index]
	p.saveProfile(ps)
	switch x := a.GetType().(type) {
	case *p4.TableAction_ActionProfileMemberId:
		if ps.oneShots > 0 {
			return target, nil, rpc.Invalidf("the tables of selector %s are programmed in one shot; members cannot be mixed with that", ps.name)
		}
		m := ps.members[x.ActionProfileMemberId]
		if m == nil {
			return target, nil, rpc.NotFoundf("action profile %s has no member %d", ps.name, x.ActionProfileMemberId)
		}
		mid, err := p.acquireMember(ps, m, watchPort{})
		if err != nil {
			return target, nil, err
		}
		return interp.Target{Kind: interp.ByMember, Member: mid}, a, nil
	case *p4.TableAction_ActionProfileGroupId:
		g := ps.groups[x.ActionProfileGroupId]
		if g == nil {
			return target, nil, rpc.NotFoundf("action profile %s has no group %d", ps.name, x.ActionProfileGroupId)
		}
		g.refs++
		return interp.Target{Kind: interp.ByGroup, Group: g.gid}, a, nil
	case *p4.TableAction_ActionProfileActionSet:
		set, canon, err := p.oneShot(ps, x.ActionProfileActionSet)
		if err != nil {
			return target, nil, rpc.PrefixError("one-shot", err)
		}
		if canon != x.ActionProfileActionSet {
			a = &p4.TableAction{Type: &p4.TableAction_ActionProfileActionSet{ActionProfileActionSet: canon}}
		}
		e.group = set
		p.countOneShot(ps, 1)
		return interp.Target{Kind: interp.ByGroup, Group: set.gid}, a, nil
	default:
		return target, nil, rpc.Invalidf("the table has an action profile; the request has %T", a.GetType())
	}
}

// releaseTarget releases what acquireTarget acquired for an action; set is that of a one-shot.
func (p *pipeline) releaseTarget(t *tableState, a *p4.TableAction, set *actionSet) {
	if t.profile == nil || a == nil {
		return
	}
	ps := p.profileStates[t.profile.index]
	p.saveProfile(ps)
	switch x := a.GetType().(type) {
	case *p4.TableAction_ActionProfileMemberId:
		if m := ps.members[x.ActionProfileMemberId]; m != nil {
			p.releaseMember(ps, m, watchPort{}) //nolint:errcheck // the entry is gone from the switch, so nothing refers to it
		}
	case *p4.TableAction_ActionProfileGroupId:
		if g := ps.groups[x.ActionProfileGroupId]; g != nil {
			g.refs--
		}
	case *p4.TableAction_ActionProfileActionSet:
		p.dropSet(ps, set)
		p.countOneShot(ps, -1)
	}
}

func (p *pipeline) countOneShot(ps *profileState, d int) {
	ps.oneShots += d
	p.onUndo(func() { ps.oneShots -= d })
}

// oneShot makes the group and members of an action set.
func (p *pipeline) oneShot(ps *profileState, set *p4.ActionProfileActionSet) (*actionSet, *p4.ActionProfileActionSet, error) {
	if !ps.selector {
		return nil, nil, rpc.Invalidf("action profile %s has no selector", ps.name)
	}
	if len(ps.members) > 0 || len(ps.groups) > 0 {
		return nil, nil, rpc.Invalidf("selector %s is programmed with members and groups; one-shots cannot be mixed with that", ps.name)
	}
	if set.GetActionSelectionMode() != p4.ActionProfileActionSet_DEFAULT_MODE_DETERMINED_BY_ACTION_SELECTOR &&
		set.GetActionSelectionMode() != p4.ActionProfileActionSet_HASH {
		return nil, nil, rpc.Errorf(codes.Unimplemented, "action selection mode %v; this data plane hashes", set.GetActionSelectionMode())
	}
	switch sem := set.GetSizeSemantics(); {
	case sem == p4.ActionProfileActionSet_SUM_OF_WEIGHTS && ps.sumOfMembers, sem == p4.ActionProfileActionSet_SUM_OF_MEMBERS && !ps.sumOfMembers:
		return nil, nil, rpc.Errorf(codes.Unimplemented, "size semantics %v differ from the selector's", sem)
	}
	shortest := true
	watches := make([]watchPort, len(set.GetActionProfileActions()))
	weights := make([]int32, len(watches))
	canon := &p4.ActionProfileActionSet{ActionSelectionMode: set.GetActionSelectionMode(), SizeSemantics: set.GetSizeSemantics()}
	for i, a := range set.GetActionProfileActions() {
		if a.GetAction() == nil {
			return nil, nil, rpc.Invalidf("action %d is not set", i)
		}
		_, action, err := p.core.scratch.parseAction(ps.actions, a.GetAction(), false)
		if err != nil {
			return nil, nil, err
		}
		if err := ps.checkWeight(a.GetWeight()); err != nil {
			return nil, nil, err
		}
		if watches[i], err = p.parseWatch(a.GetWatchKind()); err != nil {
			return nil, nil, err
		}
		weights[i] = a.GetWeight()
		ca := &p4.ActionProfileAction{Action: action, Weight: a.GetWeight(), WatchKind: a.GetWatchKind()}
		if b := a.GetWatchPort(); len(b) > 0 && !isCanonical(b) {
			ca.WatchKind = &p4.ActionProfileAction_WatchPort{WatchPort: canonicalBytes(b)}
			shortest = false
		}
		shortest = shortest && action == a.GetAction()
		canon.ActionProfileActions = append(canon.ActionProfileActions, ca)
	}
	size := ps.groupSize(weights)
	if ps.maxGroupSize > 0 && size > int64(ps.maxGroupSize) {
		return nil, nil, rpc.Invalidf("size %d is above max_group_size %d", size, ps.maxGroupSize)
	}
	if size > maxSlots {
		return nil, nil, rpc.Errorf(codes.ResourceExhausted, "size %d is above the %d this switch has", size, maxSlots)
	}
	if shortest {
		canon = set
	}
	out, err := p.makeSet(ps, canon, watches)
	return out, canon, err
}

func (p *pipeline) makeSet(ps *profileState, set *p4.ActionProfileActionSet, watches []watchPort) (*actionSet, error) {
	out := &actionSet{}
	var slots []interp.MemberID
	gid, err := p.sw.CreateGroup(ps.pid)
	if err != nil {
		return nil, fromSwitch(err)
	}
	out.gid = gid
	for i, a := range set.GetActionProfileActions() {
		call, _, err := p.core.scratch.parseAction(ps.actions, a.GetAction(), false)
		if err != nil {
			p.dropSet(ps, out)
			return nil, err
		}
		mid, key, err := p.acquireOneShotMember(ps, call, watches[i])
		if err != nil {
			p.dropSet(ps, out)
			return nil, err
		}
		out.members = append(out.members, key)
		for range max(a.GetWeight(), 1) {
			slots = append(slots, mid)
		}
	}
	if err := p.sw.SetGroup(ps.pid, gid, slots); err != nil {
		p.dropSet(ps, out)
		return nil, fromSwitch(err)
	}
	return out, nil
}

// acquireOneShotMember returns the member for one action of a one-shot, and creates it if necessary.
func (p *pipeline) acquireOneShotMember(ps *profileState, call interp.ActionCall, w watchPort) (interp.MemberID, string, error) {
	key := sharedKey(call, w)
	m := ps.shared[key]
	if m == nil {
		mid, err := p.sw.AddMember(ps.pid, call)
		if err != nil {
			return 0, "", fromSwitch(err)
		}
		m = &sharedMember{mid: mid, watch: w}
		ps.shared[key] = m
		p.onUndo(func() { delete(ps.shared, key) })
		if err := p.changeWatchPort(ps, mid, watchPort{}, w); err != nil {
			return 0, "", err
		}
	}
	m.refs++
	p.onUndo(func() { m.refs-- })
	return m.mid, key, nil
}

// dropSet removes a one-shot's group, and its members if they were the last.
func (p *pipeline) dropSet(ps *profileState, set *actionSet) {
	p.sw.DeleteGroup(ps.pid, set.gid) //nolint:errcheck // no entry points at it any more
	for _, key := range set.members {
		m := ps.shared[key]
		m.refs--
		p.onUndo(func() { m.refs++ })
		if m.refs == 0 {
			p.dropMember(ps, m.mid, m.watch) //nolint:errcheck // its last group is gone
			delete(ps.shared, key)
			p.onUndo(func() { ps.shared[key] = m })
		}
	}
}
