package ebpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	bpf "github.com/cilium/ebpf"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// copiedProfile is an action profile's copy in the kernel, and the changes that Sync has to write to it.
type copiedProfile struct {
	lowered                *loweredProfile
	members, groups, lists *bpf.Map         // nil: no path looks them up
	dirtyMembers           map[int]struct{} // places
	dirtyGroups            map[int]struct{}
	inUse                  map[int]list // by a group's place
	numbers                uint32       // of lists ever
	unusedLists            []list       // lists that no group has any more
}

// list is the members of a group, in the kernel.
type list struct {
	number uint32
	places []int32
}

func (s *Switch) newCopiedProfile(lp *loweredProfile) *copiedProfile {
	return &copiedProfile{
		lowered: lp, dirtyMembers: map[int]struct{}{}, dirtyGroups: map[int]struct{}{}, inUse: map[int]list{},
		members: s.coll.Maps[fmt.Sprintf("pm%d", lp.ID)], groups: s.coll.Maps[fmt.Sprintf("pg%d", lp.ID)],
		lists: s.coll.Maps[fmt.Sprintf("pl%d", lp.ID)],
	}
}

// profileMaps describes a profile's maps.
func profileMaps(m map[string]*bpf.MapSpec, lp *loweredProfile) {
	for name, size := range map[string][2]int{"pm": {4, lp.ValueSize}, "pg": {4, 8}, "pl": {8, 4}} {
		m[fmt.Sprintf("%s%d", name, lp.ID)] = &bpf.MapSpec{Type: bpf.Hash, KeySize: uint32(size[0]), ValueSize: uint32(size[1]),
			MaxEntries: maxMembers, Flags: noPrealloc}
	}
}

// profileChanged notes what Sync has to copy; see [interp.Switch.WatchProfiles].
func (s *Switch) profileChanged(id program.ProfileID, group bool, place int) {
	c := s.profiles[id]
	switch {
	case c.members == nil:
	case group:
		c.dirtyGroups[place], s.changed = struct{}{}, true
	default:
		c.dirtyMembers[place], s.changed = struct{}{}, true
	}
}

func uint32Bytes(place int) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(place)) }

// writeChanges writes new and changed members and member lists, and then points groups to their lists.
func (c *copiedProfile) writeChanges(sw *interp.Switch) error {
	var keys, values byteSlices
	for place := range c.dirtyMembers {
		act, args, ok := sw.MemberRow(c.lowered.ID, place)
		if !ok {
			continue
		}
		v := make([]byte, c.lowered.ValueSize)
		binary.NativeEndian.PutUint64(v, uint64(act)+1)
		copy(v[8:], packed(args))
		keys, values = append(keys, uint32Bytes(place)), append(values, v)
	}
	if err := putAll(c.members, keys, values); err != nil {
		return fmt.Errorf("members: %w", err)
	}
	var groups, news, elements, members byteSlices
	next := map[int]list{}
	for place := range c.dirtyGroups {
		live, ok := sw.GroupRow(c.lowered.ID, place)
		if !ok {
			continue
		}
		c.numbers++
		n := list{c.numbers, slices.Clone(live)}
		next[place] = n
		for i, m := range n.places {
			elements, members = append(elements, n.key(i)), append(members, uint32Bytes(int(m)))
		}
		groups = append(groups, uint32Bytes(place))
		news = append(news, binary.NativeEndian.AppendUint64(nil, uint64(n.number)<<32|uint64(len(n.places))))
	}
	if err := errors.Join(putAll(c.lists, elements, members), putAll(c.groups, groups, news)); err != nil {
		return fmt.Errorf("groups: %w", err)
	}
	for place, n := range next {
		c.unusedLists = append(c.unusedLists, c.inUse[place])
		c.inUse[place] = n
	}
	return nil
}

// key returns the map key of a list's member.
func (n *list) key(i int) []byte {
	return binary.NativeEndian.AppendUint64(nil, uint64(n.number)<<32|uint64(i))
}

// removeUnreferenced removes members and lists that no entry, group or list refers to.
func (c *copiedProfile) removeUnreferenced(sw *interp.Switch) error {
	var groups, elements, members byteSlices
	for place := range c.dirtyGroups {
		if _, ok := sw.GroupRow(c.lowered.ID, place); !ok {
			c.unusedLists = append(c.unusedLists, c.inUse[place])
			delete(c.inUse, place)
			groups = append(groups, uint32Bytes(place))
		}
	}
	for _, n := range c.unusedLists {
		for i := range n.places {
			elements = append(elements, n.key(i))
		}
	}
	for place := range c.dirtyMembers {
		if _, _, ok := sw.MemberRow(c.lowered.ID, place); !ok {
			members = append(members, uint32Bytes(place))
		}
	}
	if err := errors.Join(removeAll(c.groups, groups), removeAll(c.lists, elements), removeAll(c.members, members)); err != nil {
		return fmt.Errorf("members: %w", err)
	}
	c.unusedLists = nil
	clear(c.dirtyGroups)
	clear(c.dirtyMembers)
	return nil
}
