package p4runtime

import (
	"bytes"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// selectEntries calls f with the entries that a request names, a block of a table at a time: all entries of all
// tables, those of one table that pass its filters, or one.
func (p *pipeline) selectEntries(r *role, q *p4.TableEntry, f func(*tableState, []*entry) error) error {
	if q.GetTableId() == 0 {
		list, err := p.tablesNamed(r, 0)
		for _, t := range list {
			if err = t.eachBlock(func(*entry) bool { return true }, f); err != nil {
				return err
			}
		}
		return err
	}
	t, err := p.tableFor(r, q.GetTableId())
	if err != nil {
		return err
	}
	pass := func(e *entry) bool { return p.passesFilters(t, e, q) }
	if len(q.GetMatch()) > 0 {
		if len(t.fields) == 0 {
			return rpc.Invalidf("table %s has no key", t.name)
		}
		sc := &p.core.scratch
		if t.needsPriority && q.GetPriority() == 0 { // priority 0 does not filter
			if _, err := sc.parseMatch(t.fields, t.fieldByID, t.keyLen, q.GetMatch()); err != nil {
				return rpc.PrefixError("table "+t.name, err)
			}
			prefix := string(sc.key)
			pass = func(e *entry) bool { return e.key[:len(e.key)-4] == prefix && p.passesFilters(t, e, q) }
		} else {
			if _, err := p.parseKey(t, q); err != nil {
				return rpc.PrefixError("table "+t.name, err)
			}
			if e := t.byKey[string(sc.key)]; e != nil && p.passesFilters(t, e, q) {
				return f(t, []*entry{e})
			}
			return nil
		}
	}
	return t.eachBlock(pass, f)
}

// eachBlock calls f with the entries that pass, some at a time. f may let other calls change the table before it
// returns.
func (t *tableState) eachBlock(pass func(*entry) bool, f func(*tableState, []*entry) error) error {
	var block []*entry
	for _, e := range slices.Clone(t.list) {
		if e.deleted || !pass(e) {
			continue
		}
		if block = append(block, e); len(block) == readBlock {
			if err := f(t, block); err != nil {
				return err
			}
			block = block[:0]
		}
	}
	if len(block) == 0 {
		return nil
	}
	return f(t, slices.DeleteFunc(block, func(e *entry) bool { return e.deleted }))
}

// passesFilters applies the filters of a wildcard read.
func (p *pipeline) passesFilters(t *tableState, e *entry, q *p4.TableEntry) bool {
	switch {
	case q.GetPriority() != 0 && q.GetPriority() != e.priority,
		q.GetControllerMetadata() != 0 && q.GetControllerMetadata() != e.cookie,
		len(q.GetMetadata()) > 0 && !bytes.Equal(q.GetMetadata(), e.metadata):
		return false
	}
	if id := q.GetAction().GetAction().GetActionId(); id != 0 && p.actionOf(t, e).GetAction().GetActionId() != id {
		return false
	}
	return true
}

func (p *pipeline) readTable(r *role, q *p4.TableEntry, emit func(*p4.TableEntry) error) error {
	if q.GetIsDefaultAction() {
		return p.readDefaults(r, q, emit)
	}
	if q.GetTimeSinceLastHit() != nil && q.GetTableId() != 0 {
		if t := p.tables.byID[q.GetTableId()]; t != nil && !t.idleTimeout {
			return rpc.Invalidf("table %s does not support idle timeouts; leave time_since_last_hit unset", t.name)
		}
	}
	if err := noColours(q.GetMeterCounterData()); err != nil {
		return err
	}
	return p.selectEntries(r, q, func(t *tableState, block []*entry) error {
		out := make([]*p4.TableEntry, len(block))
		for i, e := range block {
			out[i] = &p4.TableEntry{
				TableId: t.id, Match: t.matchOf(e), Action: p.actionOf(t, e), Priority: e.priority,
				ControllerMetadata: e.cookie, Metadata: e.metadata, IdleTimeoutNs: e.idleNs, IsConst: e.isConst,
			}
			if q.GetMeterConfig() != nil {
				out[i].MeterConfig = e.meter
			}
		}
		if q.GetCounterData() != nil && t.directCounter != 0 {
			counts, err := p.directCounts(t, block)
			if err != nil {
				return err
			}
			for i := range out {
				out[i].CounterData = counts[i]
			}
		}
		if q.GetTimeSinceLastHit() != nil && t.idleTimeout {
			since, err := p.timesSinceHit(t, block)
			if err != nil {
				return err
			}
			for i := range out {
				out[i].TimeSinceLastHit = &p4.TableEntry_IdleTimeout{ElapsedNs: since[i]}
			}
		}
		for i := range out {
			if err := emit(out[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// directCounts reads the direct counters of a block of entries.
func (p *pipeline) directCounts(t *tableState, block []*entry) ([]*p4.CounterData, error) {
	out := make([]*p4.CounterData, len(block))
	p.core.plane.lock()
	defer p.core.plane.unlock()
	for i, e := range block {
		packets, octets, err := p.sw.DirectCounter(t.tid, e.handle)
		if err != nil {
			return nil, fromSwitch(err)
		}
		out[i] = counterData(packets, octets)
	}
	return out, nil
}

// readDefaults reads the default entry of one table, or of all.
func (p *pipeline) readDefaults(r *role, q *p4.TableEntry, emit func(*p4.TableEntry) error) error {
	list, err := p.defaultTables(r, q)
	if err != nil {
		return err
	}
	for _, t := range list {
		if err := p.readDefault(t, q, emit); err != nil {
			return err
		}
	}
	return nil
}

func checkDefaultKey(q *p4.TableEntry) error {
	if len(q.GetMatch()) > 0 || q.GetPriority() != 0 {
		return rpc.Invalidf("the default entry has no match and no priority")
	}
	return nil
}

// defaultTables are the tables whose default entry a request names.
func (p *pipeline) defaultTables(r *role, q *p4.TableEntry) ([]*tableState, error) {
	if err := checkDefaultKey(q); err != nil {
		return nil, err
	}
	return p.tablesNamed(r, q.GetTableId())
}

func (p *pipeline) readDefault(t *tableState, q *p4.TableEntry, emit func(*p4.TableEntry) error) error {
	out := &p4.TableEntry{
		TableId: t.id, IsDefaultAction: true, Action: t.dflt.action,
		ControllerMetadata: t.dflt.cookie, Metadata: t.dflt.metadata,
	}
	if out.Action == nil {
		if target, ok := p.programDefault(t); ok && target.Kind == interp.ByAction {
			if a := t.actionFromProgram(target.Call); a != nil {
				out.Action = &p4.TableAction{Type: &p4.TableAction_Action{Action: a}}
			}
		}
	}
	if q.GetMeterConfig() != nil {
		out.MeterConfig = t.miss.meter
	}
	if q.GetCounterData() != nil && t.directCounter != 0 {
		counts, err := p.directCounts(t, []*entry{&t.miss})
		if err != nil {
			return err
		}
		out.CounterData = counts[0]
	}
	return emit(out)
}

func (p *pipeline) programDefault(t *tableState) (interp.Target, bool) {
	p.core.plane.lock()
	defer p.core.plane.unlock()
	return p.sw.Default(t.tid)
}

// keyOf returns the key of an entry, for answers about its counter or meter.
func (t *tableState) keyOf(e *entry) *p4.TableEntry {
	if e == &t.miss {
		return &p4.TableEntry{TableId: t.id, IsDefaultAction: true}
	}
	return &p4.TableEntry{TableId: t.id, Match: t.matchOf(e), Priority: e.priority}
}

// readDirect emits what values gives of the counters or meters (what) of the entries that q names. A key without
// entry is an error.
func readDirect[M any](
	p *pipeline, r *role, q *p4.TableEntry, what string, has func(*tableState) bool, values func(*tableState, []*entry) ([]M, error), emit func(M) error,
) error {
	found := false
	block := func(t *tableState, block []*entry) error {
		found = found || len(block) > 0
		if !has(t) {
			return nil
		}
		out, err := values(t, block)
		for _, m := range out {
			if err == nil {
				err = emit(m)
			}
		}
		return err
	}
	if q.GetIsDefaultAction() {
		list, err := p.defaultTables(r, q)
		for _, t := range list {
			if err == nil {
				err = block(t, []*entry{&t.miss})
			}
		}
		if err != nil {
			return err
		}
	} else if err := p.selectEntries(r, q, block); err != nil {
		return err
	}
	if t := p.tables.byID[q.GetTableId()]; t != nil {
		if !has(p.tableStates[t.index]) {
			return rpc.Invalidf("table %s has no direct %s", t.name, what)
		}
		if !found && len(q.GetMatch()) > 0 {
			return rpc.NotFoundf("table %s: no entry has this match and priority", t.name)
		}
	}
	return nil
}

func (p *pipeline) readDirectCounter(r *role, q *p4.DirectCounterEntry, emit func(*p4.DirectCounterEntry) error) error {
	has := func(t *tableState) bool { return t.directCounter != 0 }
	return readDirect(p, r, q.GetTableEntry(), "counter", has, func(t *tableState, block []*entry) ([]*p4.DirectCounterEntry, error) {
		counts, err := p.directCounts(t, block)
		out := make([]*p4.DirectCounterEntry, len(counts))
		for i := range counts {
			out[i] = &p4.DirectCounterEntry{TableEntry: t.keyOf(block[i]), Data: counts[i]}
		}
		return out, err
	}, emit)
}

func (p *pipeline) readDirectMeter(r *role, q *p4.DirectMeterEntry, emit func(*p4.DirectMeterEntry) error) error {
	if err := noColours(q.GetCounterData()); err != nil {
		return err
	}
	has := func(t *tableState) bool { return t.directMeter != nil }
	return readDirect(p, r, q.GetTableEntry(), "meter", has, func(t *tableState, block []*entry) ([]*p4.DirectMeterEntry, error) {
		out := make([]*p4.DirectMeterEntry, len(block))
		for i, e := range block {
			out[i] = &p4.DirectMeterEntry{TableEntry: t.keyOf(e), Config: e.meter}
		}
		return out, nil
	}, emit)
}
