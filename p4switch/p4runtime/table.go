package p4runtime

import (
	"encoding/binary"
	"maps"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// tableState has the controllers' entries of one table. Messages in it are shared with requests and responses and
// never changed in place.
type tableState struct {
	*tableSchema
	byKey     map[string]*entry
	list      []*entry // in a deterministic order
	dflt      defaultEntry
	miss      entry            // has the default entry's direct counter and meter
	metadata  *int             // bytes of stored metadata, the pipeline's
	referents []*referentState // sets of its fields to which others refer
	// affectsPortEvents: a change of the table affects the results of port events.
	affectsPortEvents bool
	initial           []string // keys of the program's own entries that can be changed
}

// entry is one table entry.
type entry struct {
	handle   interp.Handle
	key      string
	index    int // in tableState.list
	priority int32
	isConst  bool
	deleted  bool

	given    *p4.TableEntry // match and action, if key and switch do not tell them: see [pipeline.given]
	group    *actionSet     // of a one-shot; nil otherwise
	cookie   uint64         // controller_metadata
	metadata []byte
	meter    *p4.MeterConfig

	idleNs   int64 // idle timeout; 0: none
	idleFrom int64 // earliest data-plane time from which it counts
	idleSeq  int   // number of the current timer
}

// defaultEntry is a table's default entry, as set by a controller.
type defaultEntry struct {
	action   *p4.TableAction // nil: as in the program
	cookie   uint64
	metadata []byte
}

func newTableState(ts *tableSchema) *tableState {
	return &tableState{tableSchema: ts, byKey: map[string]*entry{}}
}

// loadInitialEntries makes the program's own entries readable.
func (p *pipeline) loadInitialEntries() error {
	sc := &p.core.scratch
	for _, t := range p.tableStates {
		for h, be := range p.sw.Entries(t.tid) {
			e := &entry{handle: h, isConst: be.Const, index: len(t.list)}
			if t.needsPriority {
				e.priority = be.Priority
			}
			var match []*p4.FieldMatch
			for _, f := range t.fields {
				if m := f.fromProgram(be.Match[f.pos]); m != nil {
					match = append(match, m)
				}
			}
			if _, err := sc.parseMatch(t.fields, t.fieldByID, t.keyLen, match); err != nil {
				return rpc.PrefixError("initial entry of table "+t.name, err)
			}
			e.key = string(binary.BigEndian.AppendUint32(sc.key, uint32(e.priority)))
			t.byKey[e.key] = e
			t.list = append(t.list, e)
			t.countEntry(e, 1)
			if !e.isConst {
				t.initial = append(t.initial, e.key)
				p.countReferences(p.referencesOfEntry(t, e), 1)
			}
		}
	}
	for _, r := range p.referentStates {
		r.initial = maps.Clone(r.wanted)
	}
	return nil
}

// tableFor returns the table that a request names.
func (p *pipeline) tableFor(r *role, id uint32) (*tableState, error) {
	ts, err := p.tables.find(p.schema, r, id)
	if err != nil {
		return nil, err
	}
	return p.tableStates[ts.index], nil
}

// tablesNamed returns the table with an id, or for 0 all that the role may access.
func (p *pipeline) tablesNamed(r *role, id uint32) ([]*tableState, error) {
	list, err := p.tables.named(p.schema, r, id)
	if err != nil {
		return nil, err
	}
	out := make([]*tableState, len(list))
	for i, ts := range list {
		out[i] = p.tableStates[ts.index]
	}
	return out, nil
}

// parseKey checks match and priority of a request and leaves both in the scratch memory. It returns the match in
// canonical form.
func (p *pipeline) parseKey(t *tableState, te *p4.TableEntry) ([]*p4.FieldMatch, error) {
	sc := &p.core.scratch
	match, err := sc.parseMatch(t.fields, t.fieldByID, t.keyLen, te.GetMatch())
	if err != nil {
		return nil, err
	}
	switch prio := te.GetPriority(); {
	case t.needsPriority && prio <= 0:
		return nil, rpc.Invalidf("priority is %d; entries of this table need one above 0", prio)
	case !t.needsPriority && prio != 0:
		return nil, rpc.Invalidf("priority is %d; this table has no ternary, range or optional field, so it must be 0", prio)
	}
	sc.key = binary.BigEndian.AppendUint32(sc.key, uint32(te.GetPriority()))
	return match, nil
}

// findEntry returns the entry that a request's key names.
func (p *pipeline) findEntry(t *tableState, te *p4.TableEntry) (*entry, error) {
	if len(t.fields) == 0 {
		return nil, rpc.Invalidf("the table has no key, so it has a default entry only")
	}
	if _, err := p.parseKey(t, te); err != nil {
		return nil, err
	}
	e := t.byKey[string(p.core.scratch.key)]
	if e == nil {
		return nil, rpc.NotFoundf("no entry has this match and priority")
	}
	return e, nil
}

func (t *tableState) addEntry(p *pipeline, e *entry) {
	e.index, e.deleted = len(t.list), false
	t.list = append(t.list, e)
	t.byKey[e.key] = e
	t.countEntry(e, 1)
	*t.metadata += len(e.metadata)
	p.onUndo(func() { t.removeEntry(e) })
}

// removeEntry removes e; the last entry takes its place in the list.
func (t *tableState) removeEntry(e *entry) {
	last := t.list[len(t.list)-1]
	t.list[e.index] = last
	last.index = e.index
	t.list[len(t.list)-1] = nil
	t.list = t.list[:len(t.list)-1]
	delete(t.byKey, e.key)
	t.countEntry(e, -1)
	*t.metadata -= len(e.metadata)
	e.deleted = true
}

// restoreEntry undoes remove.
func (t *tableState) restoreEntry(e *entry) {
	if e.index < len(t.list) {
		moved := t.list[e.index]
		moved.index = len(t.list)
		t.list = append(t.list, moved)
		t.list[e.index] = e
	} else {
		t.list = append(t.list, e)
	}
	t.byKey[e.key] = e
	t.countEntry(e, 1)
	*t.metadata += len(e.metadata)
	e.deleted = false
}

// writeTable carries out one update of a table entry.
func (p *pipeline) writeTable(r *role, typ p4.Update_Type, te *p4.TableEntry) error {
	t, err := p.tableFor(r, te.GetTableId())
	if err != nil {
		return err
	}
	switch {
	case typ != p4.Update_DELETE && te.GetIsConst():
		err = rpc.Invalidf("is_const is for reads only")
	case te.GetIsDefaultAction():
		err = p.writeDefault(t, typ, te)
	case typ == p4.Update_INSERT:
		err = p.insertEntry(t, te)
	case typ == p4.Update_MODIFY:
		err = p.modifyEntry(t, te)
	case typ == p4.Update_DELETE:
		err = p.deleteEntry(t, te)
	default:
		err = rpc.Invalidf("update type %v", typ)
	}
	if err == nil && t.affectsPortEvents {
		p.portTables = true
	}
	return rpc.PrefixError("table "+t.name, err)
}

// checkEntry refuses fields that no INSERT or MODIFY of an entry may have.
func (p *pipeline) checkEntry(t *tableState, te *p4.TableEntry) error {
	if err := p.checkMetadata(te.GetMetadata()); err != nil {
		return err
	}
	switch {
	case te.GetTimeSinceLastHit() != nil:
		return rpc.Invalidf("time_since_last_hit is for reads only")
	case te.GetIdleTimeoutNs() < 0:
		return rpc.Invalidf("idle_timeout_ns is %d; it must not be negative", te.GetIdleTimeoutNs())
	case te.GetIdleTimeoutNs() != 0 && !t.idleTimeout:
		return rpc.Invalidf("the table does not support idle timeouts; leave idle_timeout_ns 0")
	}
	return t.checkDirect(te)
}

// checkMetadata checks stored metadata against the budget.
func (p *pipeline) checkMetadata(b []byte) error {
	if n, most := len(b), p.core.budget.MetadataBytesPerEntry; n > most {
		return rpc.LimitError("metadata", n, most, "keep it elsewhere")
	}
	if n, most := p.metadata+len(b), p.core.budget.MetadataBytes; n > most && len(b) > 0 {
		return rpc.LimitError("all-metadata", n, most, "delete entries with metadata first")
	}
	return nil
}

func (p *pipeline) insertEntry(t *tableState, te *p4.TableEntry) error {
	if t.constTable {
		return rpc.Errorf(codes.PermissionDenied, "the entries are constant in the P4 program")
	}
	if len(t.fields) == 0 {
		return rpc.Invalidf("the table has no key; modify its default entry")
	}
	if err := p.checkEntry(t, te); err != nil {
		return err
	}
	if te.GetAction() == nil {
		return rpc.Invalidf("action is not set")
	}
	match, err := p.parseKey(t, te)
	if err != nil {
		return err
	}
	sc := &p.core.scratch
	if t.byKey[string(sc.key)] != nil {
		return rpc.Errorf(codes.AlreadyExists, "an entry with this match and priority is in the table")
	}
	e := &entry{
		key: string(sc.key), priority: te.GetPriority(), cookie: te.GetControllerMetadata(),
		metadata: te.GetMetadata(), idleNs: te.GetIdleTimeoutNs(), idleFrom: p.core.dataplaneNow(), meter: te.GetMeterConfig(),
	}
	be := interp.Entry{Match: sc.match, Priority: e.priority, IdleTimeoutNs: e.idleNs}
	var action *p4.TableAction
	if be.Target, action, err = p.acquireTarget(t, te.GetAction(), e); err != nil {
		return err
	}
	if err := p.checkRestrictions(t, match, e.priority, action); err != nil {
		p.releaseTarget(t, action, e.group)
		return err
	}
	if e.handle, err = p.sw.Insert(t.tid, be); err != nil {
		p.releaseTarget(t, action, e.group)
		return fromSwitch(err)
	}
	if err := p.initDirect(t, e, te); err != nil {
		p.sw.Delete(t.tid, e.handle) //nolint:errcheck // it was just inserted
		p.releaseTarget(t, action, e.group)
		return err
	}
	e.given = t.givenEntry(match, action)
	t.addEntry(p, e)
	p.countReferences(p.referencesOf(t, match, action), 1)
	p.armIdle(t, e)
	return nil
}

func (p *pipeline) modifyEntry(t *tableState, te *p4.TableEntry) error {
	e, err := p.findEntry(t, te)
	if err != nil {
		return err
	}
	if err := p.checkEntry(t, te); err != nil {
		return err
	}
	if e.isConst || t.constTable {
		if te.GetAction() != nil {
			return rpc.Errorf(codes.PermissionDenied, "the entry is constant in the P4 program; only its counter and meter can be set, with action unset")
		}
		return p.modifyDirect(t, e, te)
	}
	if te.GetAction() != nil {
		next := &entry{}
		target, action, err := p.acquireTarget(t, te.GetAction(), next)
		if err != nil {
			return err
		}
		match, before := t.matchOf(e), p.actionOf(t, e)
		if err := p.checkRestrictions(t, match, e.priority, action); err != nil {
			p.releaseTarget(t, action, next.group)
			return err
		}
		if err := p.sw.Modify(t.tid, e.handle, target); err != nil {
			p.releaseTarget(t, action, next.group)
			return fromSwitch(err)
		}
		given, group := e.given, e.group
		p.onUndo(func() { e.given, e.group = given, group })
		e.given, e.group = t.givenEntry(match, action), next.group
		p.countReferences(p.referencesOf(t, match, action), 1)
		p.countReferences(p.referencesOf(t, match, before), -1)
		p.releaseTarget(t, before, group)
	}
	if e.idleNs != te.GetIdleTimeoutNs() {
		if err := p.sw.SetIdleTimeout(t.tid, e.handle, te.GetIdleTimeoutNs()); err != nil {
			return fromSwitch(err)
		}
	}
	old := *e
	p.onUndo(func() {
		*t.metadata += len(old.metadata) - len(e.metadata)
		e.cookie, e.metadata, e.idleNs, e.idleFrom = old.cookie, old.metadata, old.idleNs, old.idleFrom
		p.armIdle(t, e)
	})
	*t.metadata += len(te.GetMetadata()) - len(e.metadata)
	e.cookie, e.metadata = te.GetControllerMetadata(), te.GetMetadata()
	e.idleNs, e.idleFrom = te.GetIdleTimeoutNs(), p.core.dataplaneNow()
	p.armIdle(t, e)
	return p.modifyDirect(t, e, te)
}

func (p *pipeline) deleteEntry(t *tableState, te *p4.TableEntry) error {
	if t.constTable {
		return rpc.Errorf(codes.PermissionDenied, "the entries are constant in the P4 program")
	}
	e, err := p.findEntry(t, te)
	if err != nil {
		return err
	}
	if e.isConst {
		return rpc.Errorf(codes.PermissionDenied, "the entry is constant in the P4 program")
	}
	if err := t.refuseIfReferenced(e); err != nil {
		return err
	}
	action, references := p.actionOf(t, e), p.referencesOfEntry(t, e)
	if err := p.sw.Delete(t.tid, e.handle); err != nil {
		return fromSwitch(err)
	}
	t.removeEntry(e)
	p.onUndo(func() { t.restoreEntry(e) })
	p.countReferences(references, -1)
	p.releaseTarget(t, action, e.group)
	return nil
}

// writeDefault carries out an update of the default entry.
func (p *pipeline) writeDefault(t *tableState, typ p4.Update_Type, te *p4.TableEntry) error {
	switch {
	case typ != p4.Update_MODIFY:
		return rpc.Invalidf("the default entry is always there; it can be modified only")
	case len(te.GetMatch()) != 0:
		return rpc.Invalidf("the default entry has no match; leave match empty")
	case te.GetPriority() != 0:
		return rpc.Invalidf("the default entry has no priority; leave it 0")
	case te.GetIdleTimeoutNs() != 0 || te.GetTimeSinceLastHit() != nil:
		return rpc.Invalidf("the default entry has no idle timeout")
	case len(te.GetMetadata()) > p.core.budget.MetadataBytesPerEntry:
		return p.checkMetadata(te.GetMetadata())
	}
	if err := t.checkDirect(te); err != nil {
		return err
	}
	if t.constDefault {
		if te.GetAction() != nil || te.GetCounterData() == nil && te.GetMeterConfig() == nil {
			return rpc.Errorf(codes.PermissionDenied, "the default action is constant in the P4 program; only its counter and meter can be set, with action unset")
		}
		return p.modifyDirect(t, &t.miss, te)
	}
	if err := p.writeDefaultAction(t, te); err != nil {
		return err
	}
	return p.modifyDirect(t, &t.miss, te)
}

// writeDefaultAction sets the default action, or with none the program's.
func (p *pipeline) writeDefaultAction(t *tableState, te *p4.TableEntry) error {
	old := t.dflt
	if te.GetAction() == nil {
		if err := p.sw.ResetDefault(t.tid); err != nil {
			return fromSwitch(err)
		}
		p.onUndo(func() { t.dflt = old })
		t.dflt = defaultEntry{}
		p.countReferences(p.referencesOf(t, nil, old.action), -1)
		return nil
	}
	if t.profile != nil {
		return rpc.Errorf(codes.PermissionDenied, "the default action of a table with an action profile is constant")
	}
	a := te.GetAction().GetAction()
	if a == nil {
		return rpc.Invalidf("the action of the default entry is %T; it must be an action", te.GetAction().GetType())
	}
	call, a, err := p.core.scratch.parseAction(t.actions, a, true)
	if err != nil {
		return err
	}
	action := &p4.TableAction{Type: &p4.TableAction_Action{Action: a}}
	refs := p.referencesOf(t, nil, action)
	if err := p.permitAction(a); err != nil {
		return err
	}
	if err := p.checkReferences(refs); err != nil {
		return err
	}
	if err := p.sw.SetDefault(t.tid, interp.Target{Kind: interp.ByAction, Call: call}); err != nil {
		return fromSwitch(err)
	}
	p.onUndo(func() { t.dflt = old })
	t.dflt = defaultEntry{action: action, cookie: te.GetControllerMetadata(), metadata: slices.Clone(te.GetMetadata())}
	p.countReferences(refs, 1)
	p.countReferences(p.referencesOf(t, nil, old.action), -1)
	return nil
}
