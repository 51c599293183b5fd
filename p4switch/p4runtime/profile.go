package p4runtime

import (
	"fmt"
	"maps"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// watchPort is the port on whose liveness a member depends.
type watchPort struct {
	on   bool
	port uint32
}

// watchedMember is one member of the switch's profile. P4Runtime attaches the watch port to a member's place in a
// group, but the switch attaches it to the member: a member with several watch ports is several members in the switch.
type watchedMember struct {
	mid   interp.MemberID
	watch watchPort
	refs  int // number of groups and entries that use it
}

type member struct {
	id       uint32
	action   *p4.Action
	variants []watchedMember // never empty
	refs     int
}

// groupMember is a member's entry in a group, with its weight and watch port.
type groupMember struct {
	member uint32
	watch  watchPort
	weight int32
}

type group struct {
	id   uint32
	gid  interp.GroupID
	msg  *p4.ActionProfileGroup // as written, canonical
	uses []groupMember
	refs int // number of entries that refer to it
}

// profileState has the controllers' entries of one action profile.
type profileState struct {
	*profileSchema
	members  map[uint32]*member
	groups   map[uint32]*group
	oneShots int                                     // entries programmed in one shot
	shared   map[string]*sharedMember                // members of one-shots
	watched  map[uint32]map[interp.MemberID]struct{} // by port
	touched  bool                                    // saved for undo in this batch
}

func newProfileState(ps *profileSchema) *profileState {
	return &profileState{
		profileSchema: ps, members: map[uint32]*member{}, groups: map[uint32]*group{},
		shared: map[string]*sharedMember{}, watched: map[uint32]map[interp.MemberID]struct{}{},
	}
}

// saveProfile saves members and groups before a batch changes them, for a rollback.
func (p *pipeline) saveProfile(ps *profileState) {
	if !p.inTx || ps.touched {
		return
	}
	ps.touched = true
	members, groups := maps.Clone(ps.members), maps.Clone(ps.groups)
	for id, m := range members {
		c := *m
		c.variants = slices.Clone(m.variants)
		members[id] = &c
	}
	for id, g := range groups {
		c := *g
		groups[id] = &c
	}
	p.onUndo(func() { ps.members, ps.groups = members, groups })
}

// inProfile calls f with the action profile that an update names.
func (p *pipeline) inProfile(r *role, id uint32, f func(*profileState) error) error {
	s, err := p.profiles.find(p.schema, r, id)
	if err != nil {
		return err
	}
	ps := p.profileStates[s.index]
	p.saveProfile(ps)
	return rpc.PrefixError("action profile "+ps.name, f(ps))
}

func (p *pipeline) writeMember(r *role, typ p4.Update_Type, m *p4.ActionProfileMember) error {
	return p.inProfile(r, m.GetActionProfileId(), func(ps *profileState) error { return p.updateMember(ps, typ, m) })
}

func (p *pipeline) writeGroup(r *role, typ p4.Update_Type, g *p4.ActionProfileGroup) error {
	return p.inProfile(r, g.GetActionProfileId(), func(ps *profileState) error { return p.updateGroup(ps, typ, g) })
}

func (p *pipeline) updateMember(ps *profileState, typ p4.Update_Type, msg *p4.ActionProfileMember) error {
	id := msg.GetMemberId()
	if id == 0 {
		return rpc.Invalidf("member_id is not set")
	}
	m := ps.members[id]
	if typ != p4.Update_INSERT && m == nil {
		return rpc.NotFoundf("no member %d", id)
	}
	if typ == p4.Update_DELETE {
		if m.refs > 0 {
			return rpc.Errorf(codes.FailedPrecondition, "member %d is in use by %d groups or entries; take it out of them first", id, m.refs)
		}
		for _, v := range m.variants {
			if err := p.dropMember(ps, v.mid, v.watch); err != nil {
				return err
			}
		}
		delete(ps.members, id)
		p.countReferences(p.referencesOfAction(m.action), -1)
		return nil
	}
	if msg.GetAction() == nil {
		return rpc.Invalidf("member %d: action is not set", id)
	}
	call, action, err := p.core.scratch.parseAction(ps.actions, msg.GetAction(), false)
	if err != nil {
		return err
	}
	if err := p.permitAction(action); err != nil {
		return rpc.PrefixError(fmt.Sprintf("member %d", id), err)
	}
	refs := p.referencesOfAction(action)
	if err := p.checkReferences(refs); err != nil {
		return rpc.PrefixError(fmt.Sprintf("member %d", id), err)
	}
	switch typ {
	case p4.Update_INSERT:
		if m != nil {
			return rpc.Errorf(codes.AlreadyExists, "member %d is there already", id)
		}
		if ps.oneShots > 0 {
			return rpc.Invalidf("the tables of this selector are programmed in one shot; members cannot be mixed with that")
		}
		mid, err := p.sw.AddMember(ps.pid, call)
		if err != nil {
			return fromSwitch(err)
		}
		ps.members[id] = &member{id: id, action: action, variants: []watchedMember{{mid: mid}}}
	case p4.Update_MODIFY:
		for _, v := range m.variants {
			if err := p.sw.ModifyMember(ps.pid, v.mid, call); err != nil {
				return fromSwitch(err)
			}
		}
		p.countReferences(p.referencesOfAction(m.action), -1)
		m.action = action
	default:
		return rpc.Invalidf("update type %v", typ)
	}
	p.countReferences(refs, 1)
	return nil
}

// acquireMember returns the switch's member for one use of m, and creates it if necessary.
func (p *pipeline) acquireMember(ps *profileState, m *member, w watchPort) (interp.MemberID, error) {
	for i := range m.variants {
		if v := &m.variants[i]; v.watch == w {
			v.refs++
			m.refs++
			return v.mid, nil
		}
	}
	for i := range m.variants {
		if v := &m.variants[i]; v.refs == 0 {
			if err := p.changeWatchPort(ps, v.mid, v.watch, w); err != nil {
				return 0, err
			}
			v.watch = w
			v.refs++
			m.refs++
			return v.mid, nil
		}
	}
	call, _, err := p.core.scratch.parseAction(ps.actions, m.action, false)
	if err != nil {
		return 0, err
	}
	mid, err := p.sw.AddMember(ps.pid, call)
	if err != nil {
		return 0, fromSwitch(err)
	}
	if err := p.changeWatchPort(ps, mid, watchPort{}, w); err != nil {
		return 0, err
	}
	m.variants = append(m.variants, watchedMember{mid: mid, watch: w, refs: 1})
	m.refs++
	return mid, nil
}

// releaseMember releases one use of m; the last release deletes the switch's member.
func (p *pipeline) releaseMember(ps *profileState, m *member, w watchPort) error {
	for i := range m.variants {
		v := &m.variants[i]
		if v.watch != w {
			continue
		}
		v.refs--
		m.refs--
		if v.refs > 0 || len(m.variants) == 1 {
			return nil
		}
		mid := v.mid
		m.variants = slices.Delete(m.variants, i, i+1)
		return p.dropMember(ps, mid, w)
	}
	return nil
}

// changeWatchPort changes the port on whose state a member depends.
func (p *pipeline) changeWatchPort(ps *profileState, mid interp.MemberID, old, w watchPort) error {
	if old == w {
		return nil
	}
	p.removeWatch(ps, mid, old)
	live := true
	if w.on {
		live = p.core.cfg.Ports.Usable(w.port)
		set := ps.watched[w.port]
		if set == nil {
			set = map[interp.MemberID]struct{}{}
			ps.watched[w.port] = set
		}
		set[mid] = struct{}{}
		p.onUndo(func() { delete(set, mid) })
	}
	return fromSwitch(p.sw.SetMemberLive(ps.pid, mid, live))
}

func (p *pipeline) removeWatch(ps *profileState, mid interp.MemberID, w watchPort) {
	if set := ps.watched[w.port]; w.on && set != nil {
		delete(set, mid)
		p.onUndo(func() { set[mid] = struct{}{} })
	}
}

func (p *pipeline) dropMember(ps *profileState, mid interp.MemberID, w watchPort) error {
	if err := p.sw.DeleteMember(ps.pid, mid); err != nil {
		return fromSwitch(err)
	}
	p.removeWatch(ps, mid, w)
	return nil
}

// portChanged moves traffic off a port that went down, or back.
func (p *pipeline) portChanged(port uint32, up bool) {
	p.core.plane.lock()
	defer p.core.plane.unlock()
	for _, ps := range p.profileStates {
		for mid := range ps.watched[port] {
			p.core.plane.workDone(updateUnits)
			p.sw.SetMemberLive(ps.pid, mid, up) //nolint:errcheck // the member is there: watched follows the switch
		}
	}
	p.pre.portChanged(p, port)
}

// parseWatch reads a watch port; the deprecated numeric form has the same meaning.
func (p *pipeline) parseWatch(kind any) (watchPort, error) {
	var w watchPort
	switch k := kind.(type) {
	case nil:
		return w, nil
	case *p4.ActionProfileGroup_Member_WatchPort:
		return p.parseWatchPort(k.WatchPort)
	case *p4.ActionProfileAction_WatchPort:
		return p.parseWatchPort(k.WatchPort)
	case *p4.ActionProfileGroup_Member_Watch:
		w = watchPort{on: true, port: uint32(k.Watch)}
	case *p4.ActionProfileAction_Watch:
		w = watchPort{on: true, port: uint32(k.Watch)}
	}
	return w, p.checkWatch(w.port)
}

func (p *pipeline) parseWatchPort(b []byte) (watchPort, error) {
	if len(b) == 0 {
		return watchPort{}, nil
	}
	port, err := bytesUint32(b, "watch_port")
	if err != nil {
		return watchPort{}, err
	}
	return watchPort{on: true, port: port}, p.checkWatch(port)
}

func (p *pipeline) checkWatch(port uint32) error {
	if _, ok := p.core.cfg.Ports.Port(port); !ok {
		return rpc.Invalidf("watch port %d is no port of this switch", port)
	}
	return nil
}

// checkWeight applies the rules for one member's weight.
func (ps *profileState) checkWeight(w int32) error {
	switch {
	case ps.weightsDisallowed && w != 0:
		return rpc.Invalidf("weight %d; this selector sets the weights itself, leave it 0", w)
	case !ps.weightsDisallowed && w <= 0:
		return rpc.Invalidf("weight %d; it must be above 0", w)
	case ps.sumOfMembers && ps.maxMemberWeight > 0 && w > ps.maxMemberWeight:
		return rpc.Invalidf("weight %d is above max_member_weight %d", w, ps.maxMemberWeight)
	}
	return nil
}

// maxSlots is the largest number of places of one group in the switch; each unit of weight takes a place.
const maxSlots = 1 << 16

// groupSize returns the size that max_group_size and max_size limit.
func (ps *profileState) groupSize(weights []int32) int64 {
	if ps.sumOfMembers {
		return int64(len(weights))
	}
	n := int64(0)
	for _, w := range weights {
		n += int64(max(w, 1))
	}
	return n
}

func (p *pipeline) updateGroup(ps *profileState, typ p4.Update_Type, msg *p4.ActionProfileGroup) error {
	if !ps.selector {
		return rpc.Invalidf("it has no selector, so it has no groups")
	}
	id := msg.GetGroupId()
	if id == 0 {
		return rpc.Invalidf("group_id is not set")
	}
	g := ps.groups[id]
	if typ != p4.Update_INSERT && g == nil {
		return rpc.NotFoundf("no group %d", id)
	}
	switch typ {
	case p4.Update_DELETE:
		if g.refs > 0 {
			return rpc.Errorf(codes.FailedPrecondition, "group %d is in use by %d entries; point them elsewhere first", id, g.refs)
		}
		if err := p.sw.DeleteGroup(ps.pid, g.gid); err != nil {
			return fromSwitch(err)
		}
		delete(ps.groups, id)
		return p.releaseAll(ps, g.uses)
	case p4.Update_INSERT:
		if g != nil {
			return rpc.Errorf(codes.AlreadyExists, "group %d is there already", id)
		}
		if ps.oneShots > 0 {
			return rpc.Invalidf("the tables of this selector are programmed in one shot; groups cannot be mixed with that")
		}
	case p4.Update_MODIFY:
		if msg.GetMaxSize() != g.msg.GetMaxSize() {
			return rpc.Invalidf("group %d: max_size %d; it was inserted with %d and cannot change", id, msg.GetMaxSize(), g.msg.GetMaxSize())
		}
	default:
		return rpc.Invalidf("update type %v", typ)
	}
	uses, canon, err := p.parseGroup(ps, msg)
	if err != nil {
		return rpc.PrefixError("group", err)
	}
	slots, err := p.acquireAll(ps, uses)
	if err != nil {
		return err
	}
	if g == nil {
		gid, err := p.sw.CreateGroup(ps.pid)
		if err == nil {
			if err = p.sw.SetGroup(ps.pid, gid, slots); err != nil {
				p.sw.DeleteGroup(ps.pid, gid) //nolint:errcheck // it is empty and unused
			}
		}
		if err != nil {
			p.releaseAll(ps, uses) //nolint:errcheck // the first error counts
			return fromSwitch(err)
		}
		ps.groups[id] = &group{id: id, gid: gid, msg: canon, uses: uses}
		return nil
	}
	if err := p.sw.SetGroup(ps.pid, g.gid, slots); err != nil {
		p.releaseAll(ps, uses) //nolint:errcheck // the first error counts
		return fromSwitch(err)
	}
	old := g.uses
	g.uses, g.msg = uses, canon
	return p.releaseAll(ps, old)
}

// parseGroup checks a group's members.
func (p *pipeline) parseGroup(ps *profileState, msg *p4.ActionProfileGroup) ([]groupMember, *p4.ActionProfileGroup, error) {
	var uses []groupMember
	var weights []int32
	seen := map[uint32]bool{}
	shortest := true
	for _, gm := range msg.GetMembers() {
		if ps.members[gm.GetMemberId()] == nil {
			return nil, nil, rpc.NotFoundf("no member %d", gm.GetMemberId())
		}
		if seen[gm.GetMemberId()] {
			return nil, nil, rpc.Invalidf("member %d is given twice; use weight", gm.GetMemberId())
		}
		seen[gm.GetMemberId()] = true
		if err := ps.checkWeight(gm.GetWeight()); err != nil {
			return nil, nil, err
		}
		w, err := p.parseWatch(gm.GetWatchKind())
		if err != nil {
			return nil, nil, err
		}
		if len(gm.GetWatchPort()) > 0 {
			shortest = shortest && isCanonical(gm.GetWatchPort())
		}
		uses = append(uses, groupMember{member: gm.GetMemberId(), watch: w, weight: gm.GetWeight()})
		weights = append(weights, gm.GetWeight())
	}
	size := ps.groupSize(weights)
	switch limit, maxSize := ps.maxGroupSize, msg.GetMaxSize(); {
	case maxSize < 0:
		return nil, nil, rpc.Invalidf("max_size is %d; it must not be negative", maxSize)
	case limit > 0 && (maxSize == 0 || maxSize > limit):
		return nil, nil, rpc.Invalidf("max_size is %d; it must be 1 to %d", maxSize, limit)
	case maxSize > 0 && size > int64(maxSize):
		return nil, nil, rpc.Errorf(codes.ResourceExhausted, "size %d is above max_size %d", size, maxSize)
	case size > maxSlots:
		return nil, nil, rpc.Errorf(codes.ResourceExhausted, "size %d is above the %d this switch has", size, maxSlots)
	}
	if !shortest {
		c := &p4.ActionProfileGroup{ActionProfileId: msg.GetActionProfileId(), GroupId: msg.GetGroupId(), MaxSize: msg.GetMaxSize()}
		for _, gm := range msg.GetMembers() {
			cm := &p4.ActionProfileGroup_Member{MemberId: gm.GetMemberId(), Weight: gm.GetWeight(), WatchKind: gm.GetWatchKind()}
			if b := gm.GetWatchPort(); len(b) > 0 {
				cm.WatchKind = &p4.ActionProfileGroup_Member_WatchPort{WatchPort: canonicalBytes(b)}
			}
			c.Members = append(c.Members, cm)
		}
		msg = c
	}
	return uses, msg, nil
}

// acquireAll acquires every member of a group and lists the group's places, each member as often as its weight.
func (p *pipeline) acquireAll(ps *profileState, uses []groupMember) ([]interp.MemberID, error) {
	var slots []interp.MemberID
	for i, u := range uses {
		mid, err := p.acquireMember(ps, ps.members[u.member], u.watch)
		if err != nil {
			p.releaseAll(ps, uses[:i]) //nolint:errcheck // the first error counts
			return nil, err
		}
		for range max(u.weight, 1) {
			slots = append(slots, mid)
		}
	}
	return slots, nil
}

func (p *pipeline) releaseAll(ps *profileState, uses []groupMember) error {
	var first error
	for _, u := range uses {
		if m := ps.members[u.member]; m != nil {
			if err := p.releaseMember(ps, m, u.watch); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}
