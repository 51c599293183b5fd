package interp

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// profileState is one action profile of one switch.
type profileState struct {
	members pool[MemberID, member]
	groups  pool[GroupID, memberGroup]
}

// pool maps ids to values at reusable indices: packets find values by index.
type pool[K MemberID | GroupID, T any] struct {
	at    []T
	index map[K]int32
	next  K
	free  []int32
}

type member struct {
	id   MemberID
	act  program.ActionID
	args []uint64
	dead bool
	refs int // entries and group places that name it
}

type memberGroup struct {
	id   GroupID
	all  []int32 // member indices, repeated by weight
	live []int32 // those of them that are alive
	refs int
}

// allocateID assigns an index to a new id, until the transaction is rolled back.
func (p *pool[K, T]) allocateID(s *Switch, thing func(K) T) K {
	if p.index == nil {
		p.index = map[K]int32{}
	}
	p.next++
	id, i := p.next, int32(len(p.at))
	if k := len(p.free) - 1; k >= 0 {
		i = p.free[k]
		p.free = p.free[:k]
		p.at[i] = thing(id)
	} else {
		p.at = append(p.at, thing(id))
	}
	p.index[id] = i
	s.onRollback(func() {
		delete(p.index, id)
		p.free = append(p.free, i)
	})
	return id
}

// releaseID releases an id. Its index is free again when the transaction is committed; on rollback the id gets it back,
// and back is called.
func (p *pool[K, T]) releaseID(s *Switch, id K, back func()) {
	i := p.index[id]
	delete(p.index, id)
	free := func() { p.free = append(p.free, i) }
	if !s.inTx {
		free()
		return
	}
	s.done = append(s.done, free)
	s.undo = append(s.undo, func() {
		p.index[id] = i
		back()
	})
}

func (s *Switch) profile(id program.ProfileID) (*profileState, *program.Profile, error) {
	if id < 0 || int(id) >= len(s.profiles) {
		return nil, nil, fmt.Errorf("interp: action profile %d: %w", id, ErrNotFound)
	}
	return &s.profiles[id], &s.p.Profiles[id], nil
}

// memberAt finds a member of a profile, and its place.
func (s *Switch) memberAt(id program.ProfileID, m MemberID) (*profileState, int32, error) {
	ps, pr, err := s.profile(id)
	if err != nil {
		return nil, 0, err
	}
	i, ok := ps.members.index[m]
	if !ok {
		return nil, 0, profileError(pr, "member %d: %w", m, ErrNotFound)
	}
	return ps, i, nil
}

// groupAt finds a group of a profile, and its place.
func (s *Switch) groupAt(id program.ProfileID, g GroupID) (*profileState, int32, error) {
	ps, pr, err := s.profile(id)
	if err != nil {
		return nil, 0, err
	}
	i, ok := ps.groups.index[g]
	if !ok {
		return nil, 0, profileError(pr, "group %d: %w", g, ErrNotFound)
	}
	return ps, i, nil
}

func profileError(pr *program.Profile, format string, args ...any) error {
	return fmt.Errorf("interp: action profile %q: "+format, append([]any{pr.Info.Name}, args...)...)
}

// checkMember resolves a member's action and arguments.
func (s *Switch) checkMember(pr *program.Profile, c ActionCall) ([]uint64, error) {
	if !slices.Contains(pr.Actions, c.Action) {
		return nil, profileError(pr, "%w: action %d is not one of its tables'", ErrInvalid, c.Action)
	}
	a := &s.p.Actions[c.Action]
	if len(c.Args) != len(a.Params) {
		return nil, profileError(pr, "%w: action %q takes %d arguments, not %d", ErrInvalid, a.Info.Name, len(a.Params), len(c.Args))
	}
	args := make([]uint64, a.Words)
	if err := s.callArgs(args, c); err != nil {
		return nil, profileError(pr, "%w", err)
	}
	return args, nil
}

// AddMember adds a member to an action profile. A profile's size in the
// program bounds the number of members.
func (s *Switch) AddMember(id program.ProfileID, c ActionCall) (MemberID, error) {
	ps, pr, err := s.profile(id)
	if err != nil {
		return 0, err
	}
	args, err := s.checkMember(pr, c)
	if err != nil {
		return 0, err
	}
	if pr.Info.Size > 0 && len(ps.members.index) >= pr.Info.Size {
		return 0, profileError(pr, "%w: it holds %d members, its size in the program", ErrFull, pr.Info.Size)
	}
	m := ps.members.allocateID(s, func(m MemberID) member { return member{id: m, act: c.Action, args: args} })
	s.profileChanged(id, false, ps.members.index[m])
	return m, nil
}

// ModifyMember changes a member's action, for all entries and groups at once.
func (s *Switch) ModifyMember(id program.ProfileID, m MemberID, c ActionCall) error {
	ps, i, err := s.memberAt(id, m)
	if err != nil {
		return err
	}
	args, err := s.checkMember(&s.p.Profiles[id], c)
	if err != nil {
		return err
	}
	s.profileChanged(id, false, i)
	old := ps.members.at[i]
	ps.members.at[i].act, ps.members.at[i].args = c.Action, args
	s.onRollback(func() { ps.members.at[i].act, ps.members.at[i].args = old.act, old.args })
	return nil
}

// DeleteMember removes a member of an action profile. The error wraps [ErrInUse] if an entry or group refers to it.
func (s *Switch) DeleteMember(id program.ProfileID, m MemberID) error {
	ps, i, err := s.memberAt(id, m)
	if err != nil {
		return err
	}
	if refs := ps.members.at[i].refs; refs > 0 {
		return profileError(&s.p.Profiles[id], "member %d: %w by %d entries or group places", m, ErrInUse, refs)
	}
	s.profileChanged(id, false, i)
	ps.members.releaseID(s, m, func() {})
	return nil
}

// Member returns the action of an action profile's member.
func (s *Switch) Member(id program.ProfileID, m MemberID) (ActionCall, error) {
	ps, i, err := s.memberAt(id, m)
	if err != nil {
		return ActionCall{}, err
	}
	return s.actionCall(ps.members.at[i].act, ps.members.at[i].args), nil
}

// Members yields the members in the order of their ids.
func (s *Switch) Members(id program.ProfileID) iter.Seq2[MemberID, ActionCall] {
	return eachOf(s, id, func(ps *profileState) map[MemberID]int32 { return ps.members.index }, s.Member)
}

// eachOf yields the members or groups of a profile in the order of their ids.
func eachOf[K MemberID | GroupID, V any](s *Switch, id program.ProfileID, of func(*profileState) map[K]int32,
	read func(program.ProfileID, K) (V, error)) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		ps, _, err := s.profile(id)
		if err != nil {
			return
		}
		for _, k := range slices.Sorted(maps.Keys(of(ps))) {
			if v, err := read(id, k); err == nil && !yield(k, v) {
				return
			}
		}
	}
}

// CreateGroup adds an empty group to an action profile. A table entry that names a group without live members counts as
// a miss.
func (s *Switch) CreateGroup(id program.ProfileID) (GroupID, error) {
	ps, pr, err := s.profile(id)
	if err != nil {
		return 0, err
	}
	if pr.Calculation < 0 {
		return 0, profileError(pr, "%w: it has no selector, so no groups", ErrInvalid)
	}
	g := ps.groups.allocateID(s, func(g GroupID) memberGroup { return memberGroup{id: g} })
	s.profileChanged(id, true, ps.groups.index[g])
	return g, nil
}

// SetGroup replaces a group's members. A member that is in the list n times has weight n.
func (s *Switch) SetGroup(id program.ProfileID, g GroupID, members []MemberID) error {
	ps, i, err := s.groupAt(id, g)
	if err != nil {
		return err
	}
	all := make([]int32, len(members))
	for k, m := range members {
		if _, all[k], err = s.memberAt(id, m); err != nil {
			return err
		}
	}
	s.profileChanged(id, true, i)
	old := ps.groups.at[i].all
	ps.setAll(i, all)
	s.onRollback(func() { ps.setAll(i, old) })
	return nil
}

func (ps *profileState) setAll(i int32, all []int32) {
	g := &ps.groups.at[i]
	for _, m := range g.all {
		ps.members.at[m].refs--
	}
	g.all = all
	for _, m := range all {
		ps.members.at[m].refs++
	}
	ps.refreshLiveMembers(g)
}

// refreshLiveMembers recomputes which members of a group are alive.
func (ps *profileState) refreshLiveMembers(g *memberGroup) {
	g.live = g.live[:0]
	for _, m := range g.all {
		if !ps.members.at[m].dead {
			g.live = append(g.live, m)
		}
	}
}

// DeleteGroup removes a group of an action profile. The error wraps [ErrInUse] if an entry refers to it.
func (s *Switch) DeleteGroup(id program.ProfileID, g GroupID) error {
	ps, i, err := s.groupAt(id, g)
	if err != nil {
		return err
	}
	if refs := ps.groups.at[i].refs; refs > 0 {
		return profileError(&s.p.Profiles[id], "group %d: %w by %d entries", g, ErrInUse, refs)
	}
	s.profileChanged(id, true, i)
	old := ps.groups.at[i].all
	ps.setAll(i, nil)
	ps.groups.releaseID(s, g, func() { ps.setAll(i, old) })
	return nil
}

// Group returns a group's members as SetGroup got them.
func (s *Switch) Group(id program.ProfileID, g GroupID) ([]MemberID, error) {
	ps, i, err := s.groupAt(id, g)
	if err != nil {
		return nil, err
	}
	out := make([]MemberID, len(ps.groups.at[i].all))
	for k, m := range ps.groups.at[i].all {
		out[k] = ps.members.at[m].id
	}
	return out, nil
}

// Groups yields the groups in the order of their ids.
func (s *Switch) Groups(id program.ProfileID) iter.Seq2[GroupID, []MemberID] {
	return eachOf(s, id, func(ps *profileState) map[GroupID]int32 { return ps.groups.index }, s.Group)
}

// SetMemberLive sets whether groups may select a member, as a watch port does: no group selects a dead member. Members
// start alive.
func (s *Switch) SetMemberLive(id program.ProfileID, m MemberID, live bool) error {
	ps, i, err := s.memberAt(id, m)
	if err != nil {
		return err
	}
	set := func(dead bool) {
		ps.members.at[i].dead = dead
		for k := range ps.groups.at {
			if g := &ps.groups.at[k]; slices.Contains(g.all, i) {
				ps.refreshLiveMembers(g)
				s.profileChanged(id, true, int32(k))
			}
		}
	}
	old := ps.members.at[i].dead
	if old == !live {
		return nil
	}
	set(!live)
	s.onRollback(func() { set(old) })
	return nil
}

// MemberLive reports whether groups may select a member.
func (s *Switch) MemberLive(id program.ProfileID, m MemberID) (bool, error) {
	ps, i, err := s.memberAt(id, m)
	if err != nil {
		return false, err
	}
	return !ps.members.at[i].dead, nil
}
