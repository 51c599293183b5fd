package p4rt

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// ErrForeign is wrapped for an entity of a table that the controller does not write.
var ErrForeign = errors.New("p4rt: not the controller's")

// Decode returns the entry of an entity read from a switch. The error wraps [ErrForeign] for entities that the
// controller does not write, and [ErrEntry] for those that it cannot have written: such an entry is in one of its
// tables, but no update of the controller produces it.
func (s *Schema) Decode(e *p4.Entity) (controller.Entry, error) {
	if g := e.GetPacketReplicationEngineEntry().GetMulticastGroupEntry(); g != nil {
		return s.dialect.decodeGroup(g)
	}
	d, err := s.decode(e)
	if err != nil {
		return d, err
	}
	return s.dialect.fromSwitch(d)
}

func (s *Schema) decode(e *p4.Entity) (controller.Entry, error) {
	if pre := e.GetPacketReplicationEngineEntry(); pre != nil {
		if cs := pre.GetCloneSessionEntry(); cs != nil {
			return decodeClone(cs)
		}
		return controller.Entry{}, fmt.Errorf("%w: a packet replication entry of type %T", ErrForeign, pre.GetType())
	}
	te := e.GetTableEntry()
	if te == nil {
		return controller.Entry{}, fmt.Errorf("%w: an entity of type %T", ErrForeign, e.GetEntity())
	}
	t, ok := s.byTableID[te.GetTableId()]
	if !ok {
		return controller.Entry{}, fmt.Errorf("%w: an entry of table %s", ErrForeign, s.name(te.GetTableId()))
	}
	if keyless := t.Layout().Match == controller.Keyless; te.GetIsDefaultAction() != keyless {
		if keyless {
			return controller.Entry{}, fmt.Errorf("%w: table %v: an entry in a table without key", ErrEntry, t)
		}
		return controller.Entry{}, fmt.Errorf("%w: the default action of table %v", ErrForeign, t)
	}
	d := controller.Entry{Key: controller.Key{Table: t, Priority: te.GetPriority()}}
	if err := s.decodeKey(te, &d.Key); err != nil {
		return controller.Entry{}, fmt.Errorf("%w: table %v: %w", ErrEntry, t, err)
	}
	if te.GetAction() == nil {
		return d, nil // only the key was requested
	}
	if err := s.decodeAction(te.GetAction(), &d); err != nil {
		return controller.Entry{}, fmt.Errorf("%w: %v: %w", ErrEntry, d.Key, err)
	}
	return d, nil
}

func (s *Schema) decodeKey(te *p4.TableEntry, k *controller.Key) error {
	l, ids := k.Table.Layout(), s.tables[k.Table]
	if len(te.GetMatch()) == 0 {
		if l.Match == controller.Exact {
			return fmt.Errorf("key field %s is missing", l.Key.Name)
		}
		return nil // no key, or don't care
	}
	m := te.GetMatch()[0]
	if len(te.GetMatch()) > 1 || l.Match == controller.Keyless || m.GetFieldId() != ids.keyID {
		return fmt.Errorf("%d key fields, the first with number %d; there is only %q with number %d",
			len(te.GetMatch()), m.GetFieldId(), l.Key.Name, ids.keyID)
	}
	var raw []byte
	switch {
	case l.Match == controller.Exact && m.GetExact() != nil:
		raw = m.GetExact().GetValue()
	case l.Match == controller.LPM && m.GetLpm() != nil:
		raw = m.GetLpm().GetValue()
		n := m.GetLpm().GetPrefixLen()
		if n < 0 || int(n) > l.Key.Bits {
			return fmt.Errorf("key field %s: prefix length %d is outside 0 to %d", l.Key.Name, n, l.Key.Bits)
		}
		k.PrefixLen = uint8(n)
	case l.Match == controller.Ternary && m.GetTernary() != nil:
		raw = m.GetTernary().GetValue()
		mask, err := parse(m.GetTernary().GetMask(), l.Key.Bits)
		if err != nil {
			return fmt.Errorf("mask of key field %s: %w", l.Key.Name, err)
		}
		k.Mask = mask.Lo
	default:
		return fmt.Errorf("key field %s does not match %v", l.Key.Name, l.Match)
	}
	var err error
	if k.Value, err = parse(raw, l.Key.Bits); err != nil {
		return fmt.Errorf("key field %s: %w", l.Key.Name, err)
	}
	mask := controller.Value{Hi: ^uint64(0), Lo: ^uint64(0)}
	switch l.Match {
	case controller.LPM:
		mask = prefixMask(int(k.PrefixLen), l.Key.Bits)
	case controller.Ternary:
		mask = controller.Value{Lo: k.Mask}
	}
	if k.Value.Hi&^mask.Hi != 0 || k.Value.Lo&^mask.Lo != 0 {
		return fmt.Errorf("key field %s: %x has bits that do not count", l.Key.Name, raw)
	}
	return nil
}

func (s *Schema) decodeAction(ta *p4.TableAction, e *controller.Entry) error {
	if !e.Table.Layout().Selector {
		call := ta.GetAction()
		if call == nil {
			return fmt.Errorf("a %T where an action belongs", ta.GetType())
		}
		return s.decodeCall(call, e)
	}
	set := ta.GetActionProfileActionSet()
	if set == nil {
		return fmt.Errorf("a %T where a one-shot action set belongs", ta.GetType())
	}
	for _, pa := range set.GetActionProfileActions() {
		one := controller.Entry{Key: e.Key}
		if err := s.decodeCall(pa.GetAction(), &one); err != nil {
			return err
		}
		e.Action = one.Action
		e.Members = append(e.Members, controller.Member{Port: fabric.PortNo(one.Args[0]), Weight: pa.GetWeight()})
	}
	if len(e.Members) == 0 {
		return fmt.Errorf("an action set without an action")
	}
	slices.SortStableFunc(e.Members, func(a, b controller.Member) int { return cmp.Compare(a.Port, b.Port) })
	// Some targets return a weight as that many equal members.
	merged := e.Members[:1]
	for _, m := range e.Members[1:] {
		if last := &merged[len(merged)-1]; last.Port == m.Port {
			if m.Weight < 0 || last.Weight > math.MaxInt32-m.Weight {
				return fmt.Errorf("the weights of port %d are out of range", m.Port)
			}
			last.Weight += m.Weight
			continue
		}
		merged = append(merged, m)
	}
	e.Members = merged
	return nil
}

func (s *Schema) decodeCall(call *p4.Action, e *controller.Entry) error {
	a, ok := s.byActionID[call.GetActionId()]
	if !ok {
		return fmt.Errorf("action %s is none of the table's", s.name(call.GetActionId()))
	}
	e.Action = a
	if err := checkAction(*e); err != nil {
		return err
	}
	params := a.Layout().Params
	if len(call.GetParams()) != len(params) {
		return fmt.Errorf("action %v with %d parameters; it has %d", a, len(call.GetParams()), len(params))
	}
	for i, p := range params {
		j := slices.IndexFunc(call.GetParams(), func(q *p4.Action_Param) bool { return q.GetParamId() == s.actions[a].params[i] })
		if j < 0 {
			return fmt.Errorf("action %v without parameter %s", a, p.Name)
		}
		v, err := parse(call.GetParams()[j].GetValue(), p.Bits)
		if err != nil {
			return fmt.Errorf("action %v: parameter %s: %w", a, p.Name, err)
		}
		e.Args[i] = v.Lo
	}
	return nil
}

func decodeClone(cs *p4.CloneSessionEntry) (controller.Entry, error) {
	e := controller.Entry{
		Key: controller.Key{Table: controller.CloneSession, Value: controller.Value{Lo: uint64(cs.GetSessionId())}},
	}
	if len(cs.GetReplicas()) == 0 {
		return e, nil // only the key
	}
	if len(cs.GetReplicas()) > 1 {
		return controller.Entry{}, fmt.Errorf("%w: %v: %d replicas; the controller writes one", ErrEntry, e.Key, len(cs.GetReplicas()))
	}
	e.Action = controller.CloneTo
	r := cs.GetReplicas()[0]
	switch k := r.GetPortKind().(type) {
	case *p4.Replica_EgressPort:
		e.Args[0] = uint64(k.EgressPort)
	case *p4.Replica_Port:
		v, err := parse(k.Port, 32)
		if err != nil {
			return controller.Entry{}, fmt.Errorf("%w: %v: port: %w", ErrEntry, e.Key, err)
		}
		e.Args[0] = v.Lo
	}
	e.Args[1] = uint64(uint32(cs.GetPacketLengthBytes()))
	e.Args[2] = uint64(cs.GetClassOfService())
	return e, nil
}
