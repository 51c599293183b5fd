package p4rt

import (
	"errors"
	"fmt"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/controller"
)

// ErrEntry is wrapped when an entry does not fit its table.
var ErrEntry = errors.New("p4rt: bad entry")

var updateTypes = [...]p4.Update_Type{
	controller.Insert: p4.Update_INSERT,
	controller.Modify: p4.Update_MODIFY,
	controller.Delete: p4.Update_DELETE,
}

// Encode returns an update as P4Runtime sends it. It returns an error that wraps [ErrEntry] and names the entry if
// it does not fit the table.
func (s *Schema) Encode(u controller.Update) (*p4.Update, error) {
	if int(u.Op) >= len(updateTypes) {
		return nil, fmt.Errorf("%w: operation %d of %v is unknown", ErrEntry, u.Op, u.Entry.Key)
	}
	e, err := s.EncodeEntry(u.Entry, u.Op == controller.Delete)
	if err != nil {
		return nil, err
	}
	if u.Entry.Table.Layout().Match == controller.Keyless && u.Op != controller.Modify {
		return nil, fmt.Errorf("%w: %v: a default action can be modified, not %vd", ErrEntry, u, u.Op)
	}
	return &p4.Update{Type: updateTypes[u.Op], Entity: e}, nil
}

// EncodeEntry returns an entry as P4Runtime sends it, or, with keyOnly, only its key. Errors are as for
// [Schema.Encode].
func (s *Schema) EncodeEntry(e controller.Entry, keyOnly bool) (*p4.Entity, error) {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: %v: %s", ErrEntry, e, fmt.Sprintf(format, args...))
	}
	if e.Table == controller.MulticastGroup {
		return s.dialect.encodeGroup(e, keyOnly)
	}
	e, err := s.dialect.toSwitch(e)
	if err != nil {
		return nil, err
	}
	if e.Table == controller.CloneSession {
		return encodeClone(e, keyOnly)
	}
	t, ok := s.tables[e.Table]
	if !ok {
		return nil, fail("the program has no such table")
	}
	l := e.Table.Layout()
	if !fitsBits(e.Value, l.Key.Bits) {
		return nil, fail("the key does not fit into the %d bits of %s", l.Key.Bits, l.Key.Name)
	}
	te := &p4.TableEntry{TableId: t.id, Priority: e.Priority}
	if (l.Match == controller.Ternary) != (e.Priority > 0) {
		return nil, fail("priority %d; a ternary entry has one above 0, any other has 0", e.Priority)
	}
	m := &p4.FieldMatch{FieldId: t.keyID}
	switch l.Match {
	case controller.Keyless:
		m = nil
		te.IsDefaultAction = true
	case controller.Exact:
		m.FieldMatchType = &p4.FieldMatch_Exact_{Exact: &p4.FieldMatch_Exact{Value: canonical(e.Value)}}
	case controller.LPM:
		mask := prefixMask(int(e.PrefixLen), l.Key.Bits)
		switch {
		case int(e.PrefixLen) > l.Key.Bits:
			return nil, fail("the prefix is longer than the %d bits of %s", l.Key.Bits, l.Key.Name)
		case e.Value.Hi&^mask.Hi != 0 || e.Value.Lo&^mask.Lo != 0:
			return nil, fail("the key has bits beyond its prefix")
		case e.PrefixLen == 0:
			m = nil // don't care: the field is left out
		default:
			m.FieldMatchType = &p4.FieldMatch_Lpm{Lpm: &p4.FieldMatch_LPM{Value: canonical(e.Value), PrefixLen: int32(e.PrefixLen)}}
		}
	case controller.Ternary:
		switch {
		case !fitsBits(controller.Value{Lo: e.Mask}, l.Key.Bits):
			return nil, fail("the mask does not fit into the %d bits of %s", l.Key.Bits, l.Key.Name)
		case e.Value.Hi != 0 || e.Value.Lo&^e.Mask != 0:
			return nil, fail("the key has bits that its mask does not")
		case e.Mask == 0:
			m = nil
		default:
			m.FieldMatchType = &p4.FieldMatch_Ternary_{Ternary: &p4.FieldMatch_Ternary{Value: canonical(e.Value), Mask: canonical64(e.Mask)}}
		}
	}
	if m != nil {
		te.Match = []*p4.FieldMatch{m}
	}
	if !keyOnly {
		var err error
		if te.Action, err = s.encodeAction(e, t); err != nil {
			return nil, fail("%v", err)
		}
	}
	return &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: te}}, nil
}

func (s *Schema) encodeAction(e controller.Entry, t tableIDs) (*p4.TableAction, error) {
	if err := checkAction(e); err != nil {
		return nil, err
	}
	if !e.Table.Layout().Selector {
		a, err := s.encodeCall(e.Action, e.Args[:])
		if err != nil {
			return nil, err
		}
		return &p4.TableAction{Type: &p4.TableAction_Action{Action: a}}, nil
	}
	if len(e.Members) == 0 {
		return nil, fmt.Errorf("the group has no member")
	}
	set := &p4.ActionProfileActionSet{}
	total := int32(0)
	for _, m := range e.Members {
		a, err := s.encodeCall(e.Action, []uint64{uint64(m.Port)})
		if err != nil {
			return nil, err
		}
		if m.Weight < 1 {
			return nil, fmt.Errorf("the member for port %d has weight %d; it must be above 0", m.Port, m.Weight)
		}
		total += m.Weight
		set.ActionProfileActions = append(set.ActionProfileActions, &p4.ActionProfileAction{Action: a, Weight: m.Weight})
	}
	if t.maxGroup > 0 && total > t.maxGroup {
		return nil, fmt.Errorf("the weights add up to %d; the program allows %d: set MaxGroupSize so", total, t.maxGroup)
	}
	return &p4.TableAction{Type: &p4.TableAction_ActionProfileActionSet{ActionProfileActionSet: set}}, nil
}

// checkAction returns an error if the entry's table does not have its action.
func checkAction(e controller.Entry) error {
	as := e.Table.Layout().Actions
	if slices.Contains(as, e.Action) {
		return nil
	}
	return fmt.Errorf("action %v is not one of the table's, %v", e.Action, as)
}

func (s *Schema) encodeCall(a controller.Action, args []uint64) (*p4.Action, error) {
	ids := s.actions[a]
	call := &p4.Action{ActionId: ids.id}
	for i, p := range a.Layout().Params {
		if !fitsBits(controller.Value{Lo: args[i]}, p.Bits) {
			return nil, fmt.Errorf("parameter %s: %d does not fit into %d bits", p.Name, args[i], p.Bits)
		}
		call.Params = append(call.Params, &p4.Action_Param{ParamId: ids.params[i], Value: canonical64(args[i])})
	}
	return call, nil
}

func encodeClone(e controller.Entry, keyOnly bool) (*p4.Entity, error) {
	if e.Value.Hi != 0 || e.Value.Lo == 0 || e.Value.Lo>>32 != 0 {
		return nil, fmt.Errorf("%w: %v: a session's number is 1 to 2^32-1", ErrEntry, e)
	}
	cs := &p4.CloneSessionEntry{SessionId: uint32(e.Value.Lo)}
	if !keyOnly {
		if err := checkAction(e); err != nil {
			return nil, fmt.Errorf("%w: %v: %w", ErrEntry, e, err)
		}
		port, truncate, class := e.Args[0], e.Args[1], e.Args[2]
		if port == 0 || port >= 1<<9 || truncate >= 1<<31 || class > 7 {
			return nil, fmt.Errorf("%w: %v: the port is 1 to 511, the length below 2^31, the class 0 to 7", ErrEntry, e)
		}
		// BMv2 and Stratum understand the number, deprecated since P4Runtime 1.4, but not a byte string.
		cs.Replicas = []*p4.Replica{{PortKind: &p4.Replica_EgressPort{EgressPort: uint32(port)}, Instance: 1}}
		cs.PacketLengthBytes = int32(truncate)
		cs.ClassOfService = uint32(class)
	}
	return &p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{
		PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
			Type: &p4.PacketReplicationEngineEntry_CloneSessionEntry{CloneSessionEntry: cs},
		},
	}}, nil
}
