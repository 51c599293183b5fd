package server

import (
	"bytes"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/testbed/p4switch/interp"
)

// selectEntries calls f for every entry that a request names: all of all
// tables, those of one table that pass its filters, or one.
func (p *pipeline) selectEntries(r *role, q *p4.TableEntry, f func(*tableState, *entry) error) error {
	if q.GetTableId() == 0 {
		for _, t := range p.tableStates {
			if !r.may(t.object) {
				continue
			}
			for _, e := range t.list {
				if err := f(t, e); err != nil {
					return err
				}
			}
		}
		return nil
	}
	t, err := p.table(q.GetTableId())
	if err != nil {
		return err
	}
	if err := r.checkOwner("table", t.object); err != nil {
		return err
	}
	if len(q.GetMatch()) > 0 {
		if len(t.fields) == 0 {
			return invalidf("table %s has no key", t.name)
		}
		if t.needsPriority && q.GetPriority() == 0 {
			return p.selectByMatch(t, q, f)
		}
		if _, err := p.parseKey(t, q); err != nil {
			return within("table "+t.name, err)
		}
		if e := t.byKey[string(p.core.scratch.key)]; e != nil && e.passes(q) {
			return f(t, e)
		}
		return nil
	}
	for _, e := range t.list {
		if e.passes(q) {
			if err := f(t, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// selectByMatch finds the entries with a match, whatever their priority: 0
// does not filter.
func (p *pipeline) selectByMatch(t *tableState, q *p4.TableEntry, f func(*tableState, *entry) error) error {
	sc := &p.core.scratch
	if _, err := sc.parseMatch(t.fields, t.fieldByID, t.keyLen, q.GetMatch()); err != nil {
		return within("table "+t.name, err)
	}
	prefix := string(sc.key)
	for _, e := range t.list {
		if e.key[:len(e.key)-4] == prefix && e.passes(q) {
			if err := f(t, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// passes applies the filters of a wildcard read.
func (e *entry) passes(q *p4.TableEntry) bool {
	switch {
	case q.GetPriority() != 0 && q.GetPriority() != e.priority,
		q.GetControllerMetadata() != 0 && q.GetControllerMetadata() != e.cookie,
		len(q.GetMetadata()) > 0 && !bytes.Equal(q.GetMetadata(), e.metadata):
		return false
	}
	if id := q.GetAction().GetAction().GetActionId(); id != 0 && e.action.GetAction().GetActionId() != id {
		return false
	}
	return true
}

func (p *pipeline) readTable(r *role, q *p4.TableEntry, emit emitter) error {
	if q.GetIsDefaultAction() {
		return p.readDefaults(r, q, emit)
	}
	if q.GetTimeSinceLastHit() != nil && q.GetTableId() != 0 {
		if t := p.tables[q.GetTableId()]; t != nil && !t.idleTimeout {
			return invalidf("table %s does not support idle timeouts; leave time_since_last_hit unset", t.name)
		}
	}
	if q.GetMeterCounterData() != nil {
		return errorf(codes.Unimplemented, "meters have no counters per colour in this data plane")
	}
	return p.selectEntries(r, q, func(t *tableState, e *entry) error {
		out := &p4.TableEntry{
			TableId: t.id, Match: e.match, Action: e.action, Priority: e.priority,
			ControllerMetadata: e.cookie, Metadata: e.metadata, IdleTimeoutNs: e.idleNs, IsConst: e.isConst,
		}
		if q.GetCounterData() != nil && t.directCounter != 0 {
			packets, octets, err := p.sw.DirectCounter(t.tid, e.handle)
			if err != nil {
				return fromSwitch(err)
			}
			out.CounterData = counterData(packets, octets)
		}
		if q.GetMeterConfig() != nil {
			out.MeterConfig = e.meter
		}
		if q.GetTimeSinceLastHit() != nil && t.idleTimeout {
			since, err := p.sinceHit(t, e)
			if err != nil {
				return err
			}
			out.TimeSinceLastHit = &p4.TableEntry_IdleTimeout{ElapsedNs: since}
		}
		return emit(&p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: out}})
	})
}

// readDefaults reads the default entry of one table, or of all.
func (p *pipeline) readDefaults(r *role, q *p4.TableEntry, emit emitter) error {
	if len(q.GetMatch()) > 0 || q.GetPriority() != 0 {
		return invalidf("the default entry has no match and no priority")
	}
	list := p.tableStates
	if q.GetTableId() != 0 {
		t, err := p.table(q.GetTableId())
		if err != nil {
			return err
		}
		if err := r.checkOwner("table", t.object); err != nil {
			return err
		}
		list = []*tableState{t}
	}
	for _, t := range list {
		if !r.may(t.object) {
			continue
		}
		out := &p4.TableEntry{
			TableId: t.id, IsDefaultAction: true, Action: t.dflt.action,
			ControllerMetadata: t.dflt.cookie, Metadata: t.dflt.metadata,
		}
		if out.Action == nil {
			if target, ok := p.sw.Default(t.tid); ok && target.Kind == interp.ByAction {
				if a := t.actionFromProgram(target.Call); a != nil {
					out.Action = &p4.TableAction{Type: &p4.TableAction_Action{Action: a}}
				}
			}
		}
		if err := emit(&p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: out}}); err != nil {
			return err
		}
	}
	return nil
}

// keyOf names an entry in answers about its counter or meter.
func (t *tableState) keyOf(e *entry) *p4.TableEntry {
	return &p4.TableEntry{TableId: t.id, Match: e.match, Priority: e.priority}
}

// selectDirect is selectEntries for direct counters and meters, where a key
// that names nothing is an error.
func (p *pipeline) selectDirect(r *role, q *p4.TableEntry, has func(*tableState) bool, what string, f func(*tableState, *entry) error) error {
	if q.GetIsDefaultAction() {
		return errorf(codes.Unimplemented, "the default entry has no direct counter or meter in this data plane")
	}
	found := false
	err := p.selectEntries(r, q, func(t *tableState, e *entry) error {
		found = true
		if !has(t) {
			return nil
		}
		return f(t, e)
	})
	if err != nil {
		return err
	}
	if t := p.tables[q.GetTableId()]; t != nil {
		if !has(p.tableStates[t.index]) {
			return invalidf("table %s has no direct %s", t.name, what)
		}
		if !found && len(q.GetMatch()) > 0 {
			return notFoundf("table %s: no entry has this match and priority", t.name)
		}
	}
	return nil
}

func (p *pipeline) readDirectCounter(r *role, q *p4.DirectCounterEntry, emit emitter) error {
	has := func(t *tableState) bool { return t.directCounter != 0 }
	return p.selectDirect(r, q.GetTableEntry(), has, "counter", func(t *tableState, e *entry) error {
		packets, octets, err := p.sw.DirectCounter(t.tid, e.handle)
		if err != nil {
			return fromSwitch(err)
		}
		out := &p4.DirectCounterEntry{TableEntry: t.keyOf(e), Data: counterData(packets, octets)}
		return emit(&p4.Entity{Entity: &p4.Entity_DirectCounterEntry{DirectCounterEntry: out}})
	})
}

func (p *pipeline) readDirectMeter(r *role, q *p4.DirectMeterEntry, emit emitter) error {
	if q.GetCounterData() != nil {
		return errorf(codes.Unimplemented, "meters have no counters per colour in this data plane")
	}
	has := func(t *tableState) bool { return t.directMeter != nil }
	return p.selectDirect(r, q.GetTableEntry(), has, "meter", func(t *tableState, e *entry) error {
		out := &p4.DirectMeterEntry{TableEntry: t.keyOf(e), Config: e.meter}
		return emit(&p4.Entity{Entity: &p4.Entity_DirectMeterEntry{DirectMeterEntry: out}})
	})
}
