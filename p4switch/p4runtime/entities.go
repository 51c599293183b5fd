package p4runtime

import (
	"maps"
	"reflect"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// entitySink processes one entity of a read's answer.
type entitySink func(*p4.Entity) error

// entityKind is the operations on one kind of entity. read answers a request for one entity or, with id 0, for all.
type entityKind struct {
	read  func(p *pipeline, r *role, e *p4.Entity, emit entitySink) error
	write func(p *pipeline, r *role, typ p4.Update_Type, e *p4.Entity) error
	names func(v *nameVisit, e *p4.Entity) // visits its values of translated types
}

// entities are all kinds, by the type of the oneof's member.
var entities map[reflect.Type]entityKind

// addKind adds a kind whose message M the member W of the oneof has.
func addKind[W, M any](
	get func(*p4.Entity) M, wrap func(M) *p4.Entity,
	read func(*pipeline, *role, M, func(M) error) error, write func(*pipeline, *role, p4.Update_Type, M) error,
	names func(*nameVisit, M),
) {
	entities[reflect.TypeFor[W]()] = entityKind{
		read: func(p *pipeline, r *role, e *p4.Entity, emit entitySink) error {
			return read(p, r, get(e), func(m M) error { return emit(wrap(m)) })
		},
		write: func(p *pipeline, r *role, typ p4.Update_Type, e *p4.Entity) error { return write(p, r, typ, get(e)) },
		names: func(v *nameVisit, e *p4.Entity) { names(v, get(e)) },
	}
}

// noNames is for kinds without values of translated types, or whose values are visited where they are used.
func noNames[M any](*nameVisit, M) {}

func init() {
	entities = map[reflect.Type]entityKind{}
	addKind[*p4.Entity_TableEntry]((*p4.Entity).GetTableEntry,
		func(m *p4.TableEntry) *p4.Entity { return &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: m}} },
		(*pipeline).readTable, (*pipeline).writeTable, (*nameVisit).table)
	addKind[*p4.Entity_ActionProfileMember]((*p4.Entity).GetActionProfileMember,
		func(m *p4.ActionProfileMember) *p4.Entity {
			return &p4.Entity{Entity: &p4.Entity_ActionProfileMember{ActionProfileMember: m}}
		},
		(*pipeline).readMember, (*pipeline).writeMember,
		func(v *nameVisit, m *p4.ActionProfileMember) { v.action(m.GetAction()) })
	addKind[*p4.Entity_ActionProfileGroup]((*p4.Entity).GetActionProfileGroup,
		func(m *p4.ActionProfileGroup) *p4.Entity {
			return &p4.Entity{Entity: &p4.Entity_ActionProfileGroup{ActionProfileGroup: m}}
		},
		(*pipeline).readGroup, (*pipeline).writeGroup, (*nameVisit).group)
	addKind[*p4.Entity_CounterEntry]((*p4.Entity).GetCounterEntry,
		func(m *p4.CounterEntry) *p4.Entity {
			return &p4.Entity{Entity: &p4.Entity_CounterEntry{CounterEntry: m}}
		},
		(*pipeline).readCounter, (*pipeline).writeCounter, noNames)
	addKind[*p4.Entity_DirectCounterEntry]((*p4.Entity).GetDirectCounterEntry,
		func(m *p4.DirectCounterEntry) *p4.Entity {
			return &p4.Entity{Entity: &p4.Entity_DirectCounterEntry{DirectCounterEntry: m}}
		},
		(*pipeline).readDirectCounter, (*pipeline).writeDirectCounter,
		func(v *nameVisit, m *p4.DirectCounterEntry) { v.table(m.GetTableEntry()) })
	addKind[*p4.Entity_MeterEntry]((*p4.Entity).GetMeterEntry,
		func(m *p4.MeterEntry) *p4.Entity { return &p4.Entity{Entity: &p4.Entity_MeterEntry{MeterEntry: m}} },
		(*pipeline).readMeter, (*pipeline).writeMeter, noNames)
	addKind[*p4.Entity_DirectMeterEntry]((*p4.Entity).GetDirectMeterEntry,
		func(m *p4.DirectMeterEntry) *p4.Entity {
			return &p4.Entity{Entity: &p4.Entity_DirectMeterEntry{DirectMeterEntry: m}}
		},
		(*pipeline).readDirectMeter, (*pipeline).writeDirectMeter,
		func(v *nameVisit, m *p4.DirectMeterEntry) { v.table(m.GetTableEntry()) })
	addKind[*p4.PacketReplicationEngineEntry_MulticastGroupEntry](
		func(e *p4.Entity) *p4.MulticastGroupEntry {
			return e.GetPacketReplicationEngineEntry().GetMulticastGroupEntry()
		},
		multicastOf, (*pipeline).readMulticast, (*pipeline).writeMulticast,
		func(v *nameVisit, m *p4.MulticastGroupEntry) { v.replicas(m.GetReplicas()) })
	addKind[*p4.PacketReplicationEngineEntry_CloneSessionEntry](
		func(e *p4.Entity) *p4.CloneSessionEntry {
			return e.GetPacketReplicationEngineEntry().GetCloneSessionEntry()
		},
		cloneOf, (*pipeline).readClone, (*pipeline).writeClone,
		func(v *nameVisit, m *p4.CloneSessionEntry) { v.replicas(m.GetReplicas()) })
	addKind[*p4.Entity_ValueSetEntry]((*p4.Entity).GetValueSetEntry,
		func(m *p4.ValueSetEntry) *p4.Entity {
			return &p4.Entity{Entity: &p4.Entity_ValueSetEntry{ValueSetEntry: m}}
		},
		(*pipeline).readValueSet, (*pipeline).writeValueSet, (*nameVisit).valueSet)
	addKind[*p4.Entity_RegisterEntry]((*p4.Entity).GetRegisterEntry,
		func(m *p4.RegisterEntry) *p4.Entity {
			return &p4.Entity{Entity: &p4.Entity_RegisterEntry{RegisterEntry: m}}
		},
		(*pipeline).readRegister, (*pipeline).writeRegister, noNames)
	addKind[*p4.Entity_DigestEntry]((*p4.Entity).GetDigestEntry,
		func(m *p4.DigestEntry) *p4.Entity { return &p4.Entity{Entity: &p4.Entity_DigestEntry{DigestEntry: m}} },
		(*pipeline).readDigest, (*pipeline).writeDigest, noNames)
	addKind[*p4.Entity_ExternEntry]((*p4.Entity).GetExternEntry, nil,
		func(_ *pipeline, _ *role, m *p4.ExternEntry, _ func(*p4.ExternEntry) error) error {
			if m.GetExternTypeId() == 0 {
				return nil // a wildcard read of nothing
			}
			return errNoExterns()
		},
		func(*pipeline, *role, p4.Update_Type, *p4.ExternEntry) error { return errNoExterns() }, noNames)
}

func errNoExterns() error {
	return rpc.Errorf(codes.Unimplemented, "this architecture has no extern entries")
}

func multicastOf(g *p4.MulticastGroupEntry) *p4.Entity {
	return &p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
		Type: &p4.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: g}}}}
}

func cloneOf(s *p4.CloneSessionEntry) *p4.Entity {
	return &p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
		Type: &p4.PacketReplicationEngineEntry_CloneSessionEntry{CloneSessionEntry: s}}}}
}

// kindOf returns the kind of an entity in a read or an update.
func kindOf(e *p4.Entity, where string) (entityKind, error) {
	member := any(e.GetEntity())
	if e, ok := member.(*p4.Entity_PacketReplicationEngineEntry); ok {
		if member = e.PacketReplicationEngineEntry.GetType(); member == nil {
			return entityKind{}, rpc.Invalidf("the packet replication entry is neither a multicast group nor a clone session")
		}
	}
	k, ok := entities[reflect.TypeOf(member)]
	if !ok {
		return k, rpc.Invalidf("the %s has no entity", where)
	}
	return k, nil
}

func (p *pipeline) read(r *role, e *p4.Entity, emit entitySink) error {
	k, err := kindOf(e, "read")
	if err != nil {
		return err
	}
	return k.read(p, r, e, emit)
}

// checkExistence checks an update's type against the existing object.
func checkExistence(typ p4.Update_Type, there bool, id uint32) error {
	switch {
	case typ == p4.Update_INSERT && there:
		return rpc.Errorf(codes.AlreadyExists, "%d is there already", id)
	case typ != p4.Update_INSERT && !there:
		return rpc.NotFoundf("%d is not there", id)
	}
	return nil
}

// setUndoable changes a map, or with nil deletes the key, so that a batch can undo it.
func setUndoable[K comparable, V any](p *pipeline, m map[K]*V, key K, v *V) {
	old := m[key]
	p.onUndo(func() { setOrDelete(m, key, old) })
	setOrDelete(m, key, v)
}

func setOrDelete[K comparable, V any](m map[K]*V, key K, v *V) {
	if v == nil {
		delete(m, key)
	} else {
		m[key] = v
	}
}

// eachObject calls f with the object that an id names, or for 0 with all in order. f may let other calls change what
// all returns: it gets none that was deleted meanwhile.
func eachObject[V any](all func() map[uint32]*V, id uint32, kind string, f func(id uint32, v *V) error) error {
	ids := []uint32{id}
	if id == 0 {
		ids = slices.Sorted(maps.Keys(all()))
	} else if all()[id] == nil {
		return rpc.NotFoundf("%s %v is not there", kind, id)
	}
	for _, id := range ids {
		if v := all()[id]; v != nil {
			if err := f(id, v); err != nil {
				return err
			}
		}
	}
	return nil
}
