package p4runtime

import (
	"maps"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// inherit repeats the controllers' writes to old, so that the forwarding state survives the change of program.
// Objects with equal ids are the same. An error means that something written has no place in the new program.
//
// Counters, registers and meters keep their values if the new array has the cell; idle timers restart.
func (p *pipeline) inherit(old *pipeline) error {
	p.inheriting = true
	defer func() { p.inheriting = false }()
	for _, step := range []func(*pipeline) error{
		p.inheritNames, p.inheritReplication, p.inheritProfiles, p.inheritTables, p.inheritSets, p.inheritArrays,
	} {
		if err := step(old); err != nil {
			return err
		}
	}
	return p.settled()
}

func (p *pipeline) inheritReplication(old *pipeline) error {
	for _, id := range slices.Sorted(maps.Keys(old.pre.groups)) {
		if err := p.writeMulticast(p4.Update_INSERT, old.pre.groups[id].msg); err != nil {
			return rpc.Within("multicast group", err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(old.pre.sessions)) {
		if err := p.writeClone(p4.Update_INSERT, old.pre.sessions[id]); err != nil {
			return rpc.Within("clone session", err)
		}
	}
	return nil
}

func (p *pipeline) inheritProfiles(old *pipeline) error {
	for _, ps := range old.profileStates {
		for _, id := range slices.Sorted(maps.Keys(ps.members)) {
			p.core.plane.did(updateUnits)
			m := &p4.ActionProfileMember{ActionProfileId: ps.id, MemberId: id, Action: ps.members[id].action}
			if err := p.writeMember(nil, p4.Update_INSERT, m); err != nil {
				return err
			}
		}
		for _, id := range slices.Sorted(maps.Keys(ps.groups)) {
			p.core.plane.did(updateUnits)
			if err := p.writeGroup(nil, p4.Update_INSERT, ps.groups[id].msg); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pipeline) inheritTables(old *pipeline) error {
	for _, t := range old.tableStates {
		if t.dflt.action != nil {
			te := &p4.TableEntry{TableId: t.id, IsDefaultAction: true, Action: t.dflt.action,
				ControllerMetadata: t.dflt.cookie, Metadata: t.dflt.metadata}
			if err := p.writeTable(nil, p4.Update_MODIFY, te); err != nil {
				return err
			}
		}
		if err := p.inheritMissed(old, t); err != nil {
			return err
		}
		if err := p.inheritDeletions(t); err != nil {
			return err
		}
		for _, e := range t.list {
			p.core.plane.did(updateUnits)
			if e.isConst || t.constTable {
				continue // the new program has its own
			}
			te := &p4.TableEntry{TableId: t.id, Match: e.match, Action: e.action, Priority: e.priority,
				ControllerMetadata: e.cookie, Metadata: e.metadata, IdleTimeoutNs: e.idleNs, MeterConfig: e.meter}
			if t.directCounter != 0 {
				if n := p.tables[t.id]; n != nil && n.directCounter != 0 {
					packets, octets, err := old.sw.DirectCounter(t.tid, e.handle)
					if err != nil {
						return fromSwitch(err)
					}
					te.CounterData = counterData(packets, octets)
				}
			}
			typ := p4.Update_INSERT
			if n := p.tables[t.id]; n != nil {
				if found, err := p.find(p.tableStates[n.index], te); err == nil && !found.isConst {
					typ = p4.Update_MODIFY // an initial entry that exists already
				}
			}
			if err := p.writeTable(nil, typ, te); err != nil {
				return err
			}
		}
	}
	return nil
}

// inheritMissed keeps the direct counter and meter of a default entry.
func (p *pipeline) inheritMissed(old *pipeline, t *tableState) error {
	n := p.tables[t.id]
	if n == nil {
		return nil
	}
	if t.directCounter != 0 && n.directCounter != 0 {
		packets, octets, err := old.sw.DirectCounter(t.tid, interp.DefaultEntry)
		if err == nil {
			err = p.sw.SetDirectCounter(n.tid, interp.DefaultEntry, packets, octets)
		}
		if err != nil {
			return fromSwitch(err)
		}
	}
	if t.miss.meter != nil && n.directMeter != nil {
		state := p.tableStates[n.index]
		return p.setDirectMeter(state, &state.miss, t.miss.meter)
	}
	return nil
}

// inheritDeletions deletes the new program's initial entries that the old one had too and a controller deleted.
func (p *pipeline) inheritDeletions(old *tableState) error {
	for _, key := range old.initial {
		n := p.tables[old.id]
		if n == nil || old.byKey[key] != nil {
			continue
		}
		e := p.tableStates[n.index].byKey[key]
		if e == nil || e.isConst {
			continue
		}
		te := &p4.TableEntry{TableId: old.id, Match: e.match, Priority: e.priority}
		if err := p.writeTable(nil, p4.Update_DELETE, te); err != nil {
			return err
		}
	}
	return nil
}

func (p *pipeline) inheritSets(old *pipeline) error {
	for _, id := range slices.Sorted(maps.Keys(old.valueSetEntries)) {
		if err := p.writeValueSet(nil, p4.Update_MODIFY, old.valueSetEntries[id]); err != nil {
			return err
		}
	}
	for _, ds := range old.digestList {
		if st := old.learning[ds.id]; st != nil {
			if err := p.writeDigest(nil, p4.Update_INSERT, &p4.DigestEntry{DigestId: ds.id, Config: st.config}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pipeline) inheritArrays(old *pipeline) error {
	for _, oc := range old.counterList {
		nc := p.counters[oc.id]
		if nc == nil {
			continue
		}
		for i := range min(oc.size, nc.size) {
			p.core.plane.did(1)
			packets, octets, err := old.sw.Counter(oc.cid, i)
			if err == nil {
				err = p.sw.SetCounter(nc.cid, i, packets, octets)
			}
			if err != nil {
				return fromSwitch(err)
			}
		}
	}
	for _, om := range old.meterList {
		nm := p.meters[om.id]
		if nm == nil {
			continue
		}
		for i := range min(om.size, nm.size) {
			p.core.plane.did(1)
			c, set, err := old.sw.Meter(om.mid, i)
			if err == nil && set {
				err = p.sw.SetMeter(nm.mid, i, c)
			}
			if err != nil {
				return fromSwitch(err)
			}
		}
	}
	for _, or := range old.registerList {
		nr := p.registers[or.id]
		if nr == nil || old.prog.Registers[or.rid].Width != p.prog.Registers[nr.rid].Width {
			continue
		}
		for i := range min(or.size, nr.size) {
			p.core.plane.did(1)
			v, err := old.sw.Register(or.rid, i)
			if err == nil {
				err = p.sw.SetRegister(nr.rid, i, v)
			}
			if err != nil {
				return fromSwitch(err)
			}
		}
	}
	return nil
}
