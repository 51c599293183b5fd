package p4runtime

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// @refers_to(TABLE, FIELD) at a match field or a parameter requires that an entry of TABLE has that value. Several
// annotations of one entry that name different fields of one table require one entry of it. The table may be
// builtin::multicast_group_table, whose field is multicast_group_id; @referenced_by(builtin::multicast_group_table,
// replica.port or replica.instance) at a match field requires the same of the replicas of multicast groups. An
// entry that others refer to cannot be deleted.

const (
	multicastTable = "builtin::multicast_group_table"
	multicastField = "multicast_group_id"
	replicaPort    = "replica.port"
	replicaNumber  = "replica.instance"
)

// referent is a set of fields of a table to which others refer.
type referent struct {
	table  *tableSchema // nil: multicast groups
	fields []int        // of table.fields
}

func (r *referent) String() string {
	if r.table == nil {
		return multicastTable
	}
	return "table " + r.table.name
}

// valueSource is the origin of a reference's value.
type valueSource struct {
	param bool   // of the action, not of the key
	index int    // of the fields or parameters
	part  string // of a replica
}

// reference has a source for each field of a referent.
type reference struct {
	to      int // of schema.referents
	sources []valueSource
}

// refersTo is one refersTorefers_to annotation.
type refersTo struct {
	table  *tableSchema
	field  int
	source valueSource
}

// bindReferences resolves the annotations. It skips one whose table or field the program does not have: P4Info has
// the tables of one program, but several programs share headers with annotations.
func (b *schemaBuilder) bindReferences() error {
	byName := map[string]*tableSchema{}
	for _, t := range b.info.GetTables() {
		if ts := b.tables.byID[t.GetPreamble().GetId()]; ts != nil {
			byName[t.GetPreamble().GetName()], byName[t.GetPreamble().GetAlias()] = ts, ts
		}
	}
	links := func(annotations []string, at valueSource) (out []refersTo) {
		for _, to := range annotationPairs(annotations, "refers_to") {
			if to[0] == multicastTable && to[1] == multicastField {
				out = append(out, refersTo{nil, 0, at})
			} else if ts := byName[to[0]]; ts != nil {
				if i := slices.IndexFunc(ts.fields, func(f *fieldSchema) bool { return f.name == to[1] }); i >= 0 {
					out = append(out, refersTo{ts, i, at})
				}
			}
		}
		return out
	}
	byAction := map[uint32][]refersTo{}
	for _, a := range b.info.GetActions() {
		as := b.actions.byID[a.GetPreamble().GetId()]
		for i, q := range a.GetParams() {
			byAction[as.id] = append(byAction[as.id], links(q.GetAnnotations(), valueSource{param: true, index: i})...)
		}
		as.references = b.gatherReferences(byAction[as.id])
	}
	for _, t := range b.info.GetTables() {
		ts := b.tables.byID[t.GetPreamble().GetId()]
		if ts == nil {
			continue
		}
		var own, replicas []refersTo
		for i, f := range t.GetMatchFields() {
			own = append(own, links(f.GetAnnotations(), valueSource{index: i})...)
			for _, by := range annotationPairs(f.GetAnnotations(), "referenced_by") {
				if by[0] == multicastTable && (by[1] == replicaPort || by[1] == replicaNumber) {
					replicas = append(replicas, refersTo{ts, i, valueSource{part: by[1]}})
				}
			}
		}
		b.replicaReferences = append(b.replicaReferences, b.gatherReferences(replicas)...)
		ts.references = map[uint32][]reference{0: b.gatherReferences(own)}
		for id := range ts.actions {
			ts.references[id] = b.gatherReferences(slices.Concat(own, byAction[id]))
		}
	}
	return nil
}

// annotationPairs returns the two arguments of all annotations with a name.
func annotationPairs(annotations []string, name string) (out [][2]string) {
	for _, a := range annotations {
		rest, ok := strings.CutPrefix(a, "@"+name+"(")
		if !ok {
			continue
		}
		table, field, _ := strings.Cut(strings.TrimSuffix(rest, ")"), ",")
		clean := func(s string) string { return strings.NewReplacer(" ", "", `"`, "").Replace(s) }
		out = append(out, [2]string{clean(table), clean(field)})
	}
	return out
}

// gatherReferences combines annotations to references: annotations to fields of one table are one reference.
func (b *schemaBuilder) gatherReferences(links []refersTo) []reference {
	var groups [][]refersTo
	for _, l := range links {
		i := slices.IndexFunc(groups, func(g []refersTo) bool {
			return g[0].table == l.table && !slices.ContainsFunc(g, func(o refersTo) bool { return o.field == l.field })
		})
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], l)
	}
	var out []reference
	for _, g := range groups {
		slices.SortFunc(g, func(x, y refersTo) int { return x.field - y.field })
		r := reference{}
		to := referent{table: g[0].table}
		for _, l := range g {
			to.fields = append(to.fields, l.field)
			r.sources = append(r.sources, l.source)
		}
		same := func(o *referent) bool { return o.table == to.table && slices.Equal(o.fields, to.fields) }
		if r.to = slices.IndexFunc(b.referents, same); r.to < 0 {
			r.to, b.referents = len(b.referents), append(b.referents, &to)
		}
		out = append(out, r)
	}
	return out
}

// referentState counts, by the values of a referent's fields, the entries with these values and the entries that
// refer to them.
type referentState struct {
	*referent
	present, wanted map[string]int
	initial         map[string]int // required by the program's own entries, which may refer to missing ones
}

// entryReference is a reference (entryReferencerefers_to) of one entry to another table's entry.
type entryReference struct {
	to     *referentState
	values [][]byte
}

func (w *entryReference) key() string {
	var key []byte
	for _, v := range w.values {
		v = canonicalBytes(v)
		key = append(binary.BigEndian.AppendUint32(key, uint32(len(v))), v...)
	}
	return string(key)
}

// valueOf returns a match's value of an exact or optional field; nil if absent.
func (ts *tableSchema) valueOf(match []*p4.FieldMatch, field int) []byte {
	if kind := ts.fields[field].match; kind != p4config.MatchField_EXACT && kind != p4config.MatchField_OPTIONAL {
		return nil
	}
	for _, m := range match {
		if m.GetFieldId() == ts.fields[field].id {
			if x := m.GetExact(); x != nil {
				return x.GetValue()
			}
			return m.GetOptional().GetValue()
		}
	}
	return nil
}

// referencesOf lists an entry's references. An absent optional field makes no reference.
func (p *pipeline) referencesOf(t *tableState, match []*p4.FieldMatch, a *p4.TableAction) (out []entryReference) {
	if len(p.referents) == 0 {
		return nil
	}
	actions := actionsOf(a)
	if len(actions) == 0 {
		return p.resolveReferences(t.references[0], func(s valueSource) []byte { return t.valueOf(match, s.index) })
	}
	for _, x := range actions {
		out = append(out, p.resolveReferences(t.references[x.GetActionId()], func(s valueSource) []byte {
			if s.param {
				return paramOf(p.actions.byID[x.GetActionId()], x, s.index)
			}
			return t.valueOf(match, s.index)
		})...)
	}
	return out
}

// referencesOfEntry returns the references of an entry in the switch.
func (p *pipeline) referencesOfEntry(t *tableState, e *entry) []entryReference {
	if len(p.referents) == 0 {
		return nil
	}
	return p.referencesOf(t, t.matchOf(e), p.actionOf(t, e))
}

func (p *pipeline) referencesOfAction(a *p4.Action) []entryReference {
	as := p.actions.byID[a.GetActionId()]
	return p.resolveReferences(as.references, func(s valueSource) []byte { return paramOf(as, a, s.index) })
}

func (p *pipeline) referencesOfGroup(m *multicast) (out []entryReference) {
	for _, chain := range m.replicas {
		for _, r := range chain {
			out = append(out, p.resolveReferences(p.replicaReferences, func(s valueSource) []byte {
				if s.part == replicaPort {
					return binary.BigEndian.AppendUint32(nil, r.Port)
				}
				return binary.BigEndian.AppendUint16(nil, r.Instance)
			})...)
		}
	}
	return out
}

func paramOf(as *actionSchema, a *p4.Action, index int) []byte {
	for _, q := range a.GetParams() {
		if as.paramByID[q.GetParamId()] == index {
			return q.GetValue()
		}
	}
	return nil
}

func (p *pipeline) resolveReferences(rs []reference, value func(valueSource) []byte) (out []entryReference) {
next:
	for _, r := range rs {
		w := entryReference{to: p.referentStates[r.to]}
		for _, s := range r.sources {
			v := value(s)
			if v == nil {
				continue next
			}
			w.values = append(w.values, v)
		}
		out = append(out, w)
	}
	return out
}

// checkReferences refuses references to missing entries. While a new pipeline inherits the old one's entries, these
// come in any order, and settled checks them at the end.
func (p *pipeline) checkReferences(ws []entryReference) error {
	if p.inheriting {
		return nil
	}
	for _, w := range ws {
		if w.to.present[w.key()] == 0 && !w.implicit() {
			return rpc.Invalidf("@refers_to: %s has no entry with %s; insert it first", w.to, w.describe())
		}
	}
	return nil
}

// implicit reports whether the table's own @entry_restriction forbids the entry: then it exists without having been
// written, such as sai_p4's default VRF.
func (w *entryReference) implicit() bool {
	t := w.to.table
	if t == nil || t.restriction == nil || len(w.to.fields) != len(t.fields) {
		return false
	}
	values := t.values(nil)
	for i, f := range w.to.fields {
		values[f].First, values[f].Wild = w.values[i], false
	}
	return t.restriction.Check(1, values) != nil
}

func (w *entryReference) describe() string {
	var out []string
	for i, v := range w.values {
		name := multicastField
		if w.to.table != nil {
			name = w.to.table.fields[w.to.fields[i]].name
		}
		out = append(out, fmt.Sprintf("%s %s", name, rpc.ShortenBytes(v)))
	}
	return strings.Join(out, ", ")
}

// countReferences adds by, 1 or -1, to the reference counts of the entries that an entry refers to.
func (p *pipeline) countReferences(ws []entryReference, by int) {
	if len(ws) == 0 {
		return
	}
	count := func(by int) {
		for _, w := range ws {
			addCount(w.to.wanted, w.key(), by)
		}
	}
	count(by)
	p.onUndo(func() { count(-by) })
}

func addCount(m map[string]int, key string, by int) {
	if m[key] += by; m[key] == 0 {
		delete(m, key)
	}
}

// countEntry adds by, 1 or -1, to the count of an existing entry.
func (t *tableState) countEntry(e *entry, by int) {
	if len(t.referents) == 0 {
		return
	}
	match := t.matchOf(e)
	for _, r := range t.referents {
		if w, ok := r.referenceTo(match); ok {
			addCount(r.present, w.key(), by)
		}
	}
}

// referenceTo returns the reference that other entries would use for an entry.
func (r *referentState) referenceTo(match []*p4.FieldMatch) (w entryReference, ok bool) {
	w.to = r
	for _, f := range r.fields {
		v := r.table.valueOf(match, f)
		if v == nil {
			return w, false
		}
		w.values = append(w.values, v)
	}
	return w, true
}

// refuseIfReferenced refuses to delete an entry to which others refer.
func (t *tableState) refuseIfReferenced(e *entry) error {
	if len(t.referents) == 0 {
		return nil
	}
	match := t.matchOf(e)
	for _, r := range t.referents {
		if w, ok := r.referenceTo(match); ok {
			if err := w.refuseIfReferenced(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *entryReference) refuseIfReferenced() error {
	key := w.key()
	if n := w.to.wanted[key]; n > 0 && w.to.present[key] <= 1 {
		return rpc.Errorf(codes.FailedPrecondition, "@refers_to: %d entries or members refer to %s; delete them first", n, w.describe())
	}
	return nil
}

// indexGroup counts an existing multicast group.
func (p *pipeline) indexGroup(id uint32, by int) {
	for _, w := range p.groupReferents(id) {
		key := w.key()
		addCount(w.to.present, key, by)
		p.onUndo(func() { addCount(w.to.present, key, -by) })
	}
}

func (p *pipeline) refuseIfGroupReferenced(id uint32) error {
	for _, w := range p.groupReferents(id) {
		if err := w.refuseIfReferenced(); err != nil {
			return err
		}
	}
	return nil
}

func (p *pipeline) groupReferents(id uint32) (out []entryReference) {
	for _, r := range p.referentStates {
		if r.table == nil {
			out = append(out, entryReference{r, [][]byte{binary.BigEndian.AppendUint32(nil, id)}})
		}
	}
	return out
}

// checkInherited refuses unsatisfied references after all entries of an old pipeline have been inherited.
func (p *pipeline) checkInherited() error {
	for _, r := range p.referentStates {
		for key, n := range r.wanted {
			if n <= r.initial[key] {
				continue
			}
			w := entryReference{to: r}
			for b := []byte(key); len(b) > 0; {
				size := binary.BigEndian.Uint32(b)
				w.values, b = append(w.values, b[4:4+size]), b[4+size:]
			}
			if r.present[key] == 0 && !w.implicit() {
				return rpc.Invalidf("@refers_to: %s has no entry with %s, to which %d entries or members refer", r, w.describe(), n)
			}
		}
	}
	return nil
}
