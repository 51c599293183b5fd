package p4runtime

import (
	"maps"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
)

// inheritEntries repeats the controllers' writes to old, so that the forwarding state survives the change of program.
// Objects without a counterpart are left out.
func (p *pipeline) inheritEntries(old *pipeline) error {
	p.inheriting = true
	defer func() { p.inheriting = false }()
	for _, step := range []func(*pipeline) error{
		p.inheritNames, p.inheritReplication, p.inheritProfiles, p.inheritTables, p.inheritSets, p.inheritArrays,
	} {
		if err := step(old); err != nil {
			return err
		}
	}
	return p.checkInherited()
}

// repeatWrites writes to p the entities of one kind that the old pipeline has.
func (p *pipeline) repeatWrites(old *pipeline, typ p4.Update_Type, wildcard *p4.Entity) error {
	k, err := kindOf(wildcard, "")
	if err != nil {
		return err
	}
	return k.read(old, nil, wildcard, func(e *p4.Entity) error {
		p.core.plane.workDone(updateUnits)
		return k.write(p, nil, typ, e)
	})
}

func (p *pipeline) inheritReplication(old *pipeline) error {
	if err := p.repeatWrites(old, p4.Update_INSERT, multicastOf(&p4.MulticastGroupEntry{})); err != nil {
		return err
	}
	return p.repeatWrites(old, p4.Update_INSERT, cloneOf(&p4.CloneSessionEntry{}))
}

func (p *pipeline) inheritProfiles(old *pipeline) error {
	for _, e := range []*p4.Entity{{Entity: &p4.Entity_ActionProfileMember{}}, {Entity: &p4.Entity_ActionProfileGroup{}}} {
		if err := p.repeatWrites(old, p4.Update_INSERT, e); err != nil {
			return err
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
			p.core.plane.workDone(updateUnits)
			if e.isConst || t.constTable {
				continue // the new program has its own
			}
			te := &p4.TableEntry{TableId: t.id, Match: t.matchOf(e), Action: old.actionOf(t, e), Priority: e.priority,
				ControllerMetadata: e.cookie, Metadata: e.metadata, IdleTimeoutNs: e.idleNs, MeterConfig: e.meter}
			if t.directCounter != 0 {
				if n := p.tables.byID[t.id]; n != nil && n.directCounter != 0 {
					packets, octets, err := old.sw.DirectCounter(t.tid, e.handle)
					if err != nil {
						return fromSwitch(err)
					}
					te.CounterData = counterData(packets, octets)
				}
			}
			typ := p4.Update_INSERT
			if n := p.tables.byID[t.id]; n != nil {
				if found, err := p.findEntry(p.tableStates[n.index], te); err == nil && !found.isConst {
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
	n := p.tables.byID[t.id]
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
		n := p.tables.byID[old.id]
		if n == nil || old.byKey[key] != nil {
			continue
		}
		state := p.tableStates[n.index]
		e := state.byKey[key]
		if e == nil || e.isConst {
			continue
		}
		te := &p4.TableEntry{TableId: old.id, Match: state.matchOf(e), Priority: e.priority}
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
	return p.repeatWrites(old, p4.Update_INSERT, &p4.Entity{Entity: &p4.Entity_DigestEntry{}})
}

func (p *pipeline) inheritArrays(old *pipeline) error {
	counters := func(o, n *counterSchema, i int) error {
		packets, octets, err := old.sw.Counter(o.cid, i)
		if err == nil {
			err = p.sw.SetCounter(n.cid, i, packets, octets)
		}
		return err
	}
	meters := func(o, n *meterSchema, i int) error {
		c, set, err := old.sw.Meter(o.mid, i)
		if err == nil && set {
			err = p.sw.SetMeter(n.mid, i, c)
		}
		return err
	}
	registers := func(o, n *registerSchema, i int) error {
		if old.prog.Registers[o.rid].Width != p.prog.Registers[n.rid].Width {
			return nil
		}
		v, err := old.sw.Register(o.rid, i)
		if err == nil {
			err = p.sw.SetRegister(n.rid, i, v)
		}
		return err
	}
	if err := inheritCells(p, old.counters, p.counters, counters); err != nil {
		return err
	}
	if err := inheritCells(p, old.meters, p.meters, meters); err != nil {
		return err
	}
	return inheritCells(p, old.registers, p.registers, registers)
}

// inheritCells copies the cells that both arrays with an id have.
func inheritCells[A cellArray](p *pipeline, old, now objects[A], copyCell func(o, n A, i int) error) error {
	for _, o := range old.list {
		n, ok := now.byID[o.base().id]
		if !ok {
			continue
		}
		for i := range min(o.cells(), n.cells()) {
			p.core.plane.workDone(1)
			if err := copyCell(o, n, i); err != nil {
				return fromSwitch(err)
			}
		}
	}
	return nil
}
