package interp

import (
	"fmt"
	"iter"
	"slices"

	"github.com/ethereal-fabric/ethereal/testbed/p4switch/program"
)

// profileState is one action profile of one switch.
type profileState struct {
	members     []member
	groups      []memberGroup
	memberIndex map[MemberID]int32
	groupIndex  map[GroupID]int32
	nextMember  MemberID
	nextGroup   GroupID
	freeM       []int32
	freeG       []int32
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

func (s *Switch) profile(id program.ProfileID) (*profileState, *program.Profile, error) {
	if id < 0 || int(id) >= len(s.profiles) {
		return nil, nil, fmt.Errorf("interp: action profile %d: %w", id, ErrNotFound)
	}
	return &s.profiles[id], &s.p.Profiles[id], nil
}

func (ps *profileState) member(pr *program.Profile, m MemberID) (int32, error) {
	i, ok := ps.memberIndex[m]
	if !ok {
		return 0, fmt.Errorf("interp: action profile %q: member %d: %w", pr.Info.Name, m, ErrNotFound)
	}
	return i, nil
}

func (ps *profileState) group(pr *program.Profile, g GroupID) (int32, error) {
	i, ok := ps.groupIndex[g]
	if !ok {
		return 0, fmt.Errorf("interp: action profile %q: group %d: %w", pr.Info.Name, g, ErrNotFound)
	}
	return i, nil
}

// checkMember resolves a member's action and arguments.
func (s *Switch) checkMember(pr *program.Profile, c ActionCall) ([]uint64, error) {
	if !slices.Contains(pr.Actions, c.Action) {
		return nil, fmt.Errorf("interp: action profile %q: %w: action %d is not one of its tables'", pr.Info.Name, ErrInvalid, c.Action)
	}
	a := &s.p.Actions[c.Action]
	if len(c.Args) != len(a.Params) {
		return nil, fmt.Errorf("interp: action profile %q: %w: action %q takes %d arguments, not %d", pr.Info.Name, ErrInvalid, a.Info.Name, len(a.Params), len(c.Args))
	}
	args := make([]uint64, a.Words)
	if err := s.callArgs(args, c); err != nil {
		return nil, fmt.Errorf("interp: action profile %q: %w", pr.Info.Name, err)
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
	if pr.Info.Size > 0 && len(ps.memberIndex) >= pr.Info.Size {
		return 0, fmt.Errorf("interp: action profile %q: %w: it holds %d members, its size in the program", pr.Info.Name, ErrFull, pr.Info.Size)
	}
	if ps.memberIndex == nil {
		ps.memberIndex = map[MemberID]int32{}
	}
	ps.nextMember++
	m := ps.nextMember
	i := int32(len(ps.members))
	if k := len(ps.freeM) - 1; k >= 0 {
		i = ps.freeM[k]
		ps.freeM = ps.freeM[:k]
	} else {
		ps.members = append(ps.members, member{})
	}
	ps.members[i] = member{id: m, act: c.Action, args: args}
	ps.memberIndex[m] = i
	if s.inTx {
		s.undo = append(s.undo, func() {
			delete(ps.memberIndex, m)
			ps.freeM = append(ps.freeM, i)
		})
	}
	return m, nil
}

// ModifyMember changes a member's action, for all entries and groups at once.
func (s *Switch) ModifyMember(id program.ProfileID, m MemberID, c ActionCall) error {
	ps, pr, err := s.profile(id)
	if err != nil {
		return err
	}
	i, err := ps.member(pr, m)
	if err != nil {
		return err
	}
	args, err := s.checkMember(pr, c)
	if err != nil {
		return err
	}
	old := ps.members[i]
	ps.members[i].act, ps.members[i].args = c.Action, args
	if s.inTx {
		s.undo = append(s.undo, func() { ps.members[i].act, ps.members[i].args = old.act, old.args })
	}
	return nil
}

// DeleteMember removes a member that no entry or group names; else ErrInUse.
func (s *Switch) DeleteMember(id program.ProfileID, m MemberID) error {
	ps, pr, err := s.profile(id)
	if err != nil {
		return err
	}
	i, err := ps.member(pr, m)
	if err != nil {
		return err
	}
	if ps.members[i].refs > 0 {
		return fmt.Errorf("interp: action profile %q: member %d: %w by %d entries or group places", pr.Info.Name, m, ErrInUse, ps.members[i].refs)
	}
	delete(ps.memberIndex, m)
	s.finally(func() { ps.freeM = append(ps.freeM, i) }, func() { ps.memberIndex[m] = i })
	return nil
}

// finally runs done now, or at the commit of a transaction with undo on its
// rollback.
func (s *Switch) finally(done, undo func()) {
	if !s.inTx {
		done()
		return
	}
	s.done = append(s.done, done)
	s.undo = append(s.undo, undo)
}

// Member reads a member.
func (s *Switch) Member(id program.ProfileID, m MemberID) (ActionCall, error) {
	ps, pr, err := s.profile(id)
	if err != nil {
		return ActionCall{}, err
	}
	i, err := ps.member(pr, m)
	if err != nil {
		return ActionCall{}, err
	}
	return s.actionCall(ps.members[i].act, ps.members[i].args), nil
}

// Members yields the members in the order of their ids.
func (s *Switch) Members(id program.ProfileID) iter.Seq2[MemberID, ActionCall] {
	return func(yield func(MemberID, ActionCall) bool) {
		ps, _, err := s.profile(id)
		if err != nil {
			return
		}
		for _, m := range sortedKeys(ps.memberIndex) {
			i := ps.memberIndex[m]
			if !yield(m, s.actionCall(ps.members[i].act, ps.members[i].args)) {
				return
			}
		}
	}
}

func sortedKeys[K ~uint32 | ~int32, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// CreateGroup makes an empty group. An entry that names a group without live
// members acts as if it had not been hit.
func (s *Switch) CreateGroup(id program.ProfileID) (GroupID, error) {
	ps, pr, err := s.profile(id)
	if err != nil {
		return 0, err
	}
	if pr.Calculation < 0 {
		return 0, fmt.Errorf("interp: action profile %q: %w: it has no selector, so no groups", pr.Info.Name, ErrInvalid)
	}
	if ps.groupIndex == nil {
		ps.groupIndex = map[GroupID]int32{}
	}
	ps.nextGroup++
	g := ps.nextGroup
	i := int32(len(ps.groups))
	if k := len(ps.freeG) - 1; k >= 0 {
		i = ps.freeG[k]
		ps.freeG = ps.freeG[:k]
	} else {
		ps.groups = append(ps.groups, memberGroup{})
	}
	ps.groups[i] = memberGroup{id: g}
	ps.groupIndex[g] = i
	if s.inTx {
		s.undo = append(s.undo, func() {
			delete(ps.groupIndex, g)
			ps.freeG = append(ps.freeG, i)
		})
	}
	return g, nil
}

// SetGroup replaces a group's members. The hash picks among the places of the
// list in order, so a member's weight is how often it is in it.
func (s *Switch) SetGroup(id program.ProfileID, g GroupID, members []MemberID) error {
	ps, pr, err := s.profile(id)
	if err != nil {
		return err
	}
	i, err := ps.group(pr, g)
	if err != nil {
		return err
	}
	all := make([]int32, len(members))
	for k, m := range members {
		if all[k], err = ps.member(pr, m); err != nil {
			return err
		}
	}
	old := ps.groups[i].all
	ps.setAll(i, all)
	if s.inTx {
		s.undo = append(s.undo, func() { ps.setAll(i, old) })
	}
	return nil
}

func (ps *profileState) setAll(i int32, all []int32) {
	g := &ps.groups[i]
	for _, m := range g.all {
		ps.members[m].refs--
	}
	g.all = all
	for _, m := range all {
		ps.members[m].refs++
	}
	ps.refresh(g)
}

// refresh recomputes which members of a group are alive.
func (ps *profileState) refresh(g *memberGroup) {
	g.live = g.live[:0]
	for _, m := range g.all {
		if !ps.members[m].dead {
			g.live = append(g.live, m)
		}
	}
}

// DeleteGroup removes a group that no entry names; else ErrInUse.
func (s *Switch) DeleteGroup(id program.ProfileID, g GroupID) error {
	ps, pr, err := s.profile(id)
	if err != nil {
		return err
	}
	i, err := ps.group(pr, g)
	if err != nil {
		return err
	}
	if ps.groups[i].refs > 0 {
		return fmt.Errorf("interp: action profile %q: group %d: %w by %d entries", pr.Info.Name, g, ErrInUse, ps.groups[i].refs)
	}
	old := ps.groups[i].all
	ps.setAll(i, nil)
	delete(ps.groupIndex, g)
	s.finally(func() { ps.freeG = append(ps.freeG, i) }, func() {
		ps.groupIndex[g] = i
		ps.setAll(i, old)
	})
	return nil
}

// Group reads a group's members as SetGroup took them.
func (s *Switch) Group(id program.ProfileID, g GroupID) ([]MemberID, error) {
	ps, pr, err := s.profile(id)
	if err != nil {
		return nil, err
	}
	i, err := ps.group(pr, g)
	if err != nil {
		return nil, err
	}
	return ps.ids(i), nil
}

func (ps *profileState) ids(i int32) []MemberID {
	out := make([]MemberID, len(ps.groups[i].all))
	for k, m := range ps.groups[i].all {
		out[k] = ps.members[m].id
	}
	return out
}

// Groups yields the groups in the order of their ids.
func (s *Switch) Groups(id program.ProfileID) iter.Seq2[GroupID, []MemberID] {
	return func(yield func(GroupID, []MemberID) bool) {
		ps, _, err := s.profile(id)
		if err != nil {
			return
		}
		for _, g := range sortedKeys(ps.groupIndex) {
			if !yield(g, ps.ids(ps.groupIndex[g])) {
				return
			}
		}
	}
}

// SetMemberLive tells whether a member may be selected, as a watch port does:
// a dead member is skipped in every group, with no table write. Members start
// alive.
func (s *Switch) SetMemberLive(id program.ProfileID, m MemberID, live bool) error {
	ps, pr, err := s.profile(id)
	if err != nil {
		return err
	}
	i, err := ps.member(pr, m)
	if err != nil {
		return err
	}
	set := func(dead bool) {
		ps.members[i].dead = dead
		for k := range ps.groups {
			if slices.Contains(ps.groups[k].all, i) {
				ps.refresh(&ps.groups[k])
			}
		}
	}
	old := ps.members[i].dead
	if old == !live {
		return nil
	}
	set(!live)
	if s.inTx {
		s.undo = append(s.undo, func() { set(old) })
	}
	return nil
}

// MemberLive reports whether a member may be selected.
func (s *Switch) MemberLive(id program.ProfileID, m MemberID) (bool, error) {
	ps, pr, err := s.profile(id)
	if err != nil {
		return false, err
	}
	i, err := ps.member(pr, m)
	if err != nil {
		return false, err
	}
	return !ps.members[i].dead, nil
}
