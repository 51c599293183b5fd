package p4rt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/controller/targets"
)

// ErrName is wrapped if a program has no object of a name, or a value does not fit; the text names the choices.
var ErrName = errors.New("p4rt: not in the program")

// NamedClient reads and writes one switch by the names of its program, whatever program it is. It is safe for
// concurrent use.
type NamedClient struct {
	client p4.P4RuntimeClient
	device uint64
	info   *p4config.P4Info
}

// NewNamedClient asks a switch for its program's P4Info.
func NewNamedClient(ctx context.Context, client p4.P4RuntimeClient, device uint64) (*NamedClient, error) {
	r, err := client.GetForwardingPipelineConfig(ctx, &p4.GetForwardingPipelineConfigRequest{
		DeviceId: device, ResponseType: p4.GetForwardingPipelineConfigRequest_P4INFO_AND_COOKIE,
	})
	if err != nil {
		return nil, fmt.Errorf("p4rt: asking device %d for its program: %w", device, err)
	}
	if r.GetConfig().GetP4Info() == nil {
		return nil, fmt.Errorf("p4rt: device %d runs no program; push one, as ethereal controller does", device)
	}
	if proto.Size(r.GetConfig().GetP4Info()) == 0 {
		return nil, fmt.Errorf("p4rt: device %d has a program without its P4Info, so without names; "+
			"start ethereal switch with --p4info FILE, or push the program", device)
	}
	return &NamedClient{client, device, r.GetConfig().GetP4Info()}, nil
}

// NamedEntry is an entry of a table, of a counter or of a register, with names and readable values.
type NamedEntry struct {
	Of       string            `json:"of"` // name of the table, counter or register
	Index    *int64            `json:"index,omitempty"`
	Match    map[string]string `json:"match,omitempty"` // by key field; omitted fields match anything
	Priority int32             `json:"priority,omitempty"`
	Default  bool              `json:"default,omitempty"` // it is the table's default action
	Actions  []string          `json:"actions,omitempty"` // ACTION(PARAM=VALUE, ...), several for a group
	Value    string            `json:"value,omitempty"`   // value of a register's cell
	Packets  *int64            `json:"packets,omitempty"`
	Bytes    *int64            `json:"bytes,omitempty"`
}

func (e NamedEntry) String() string {
	parts := []string{e.Of}
	if e.Index != nil {
		parts[0] += fmt.Sprintf("[%d]", *e.Index)
	}
	if e.Default {
		parts = append(parts, "default")
	}
	for _, k := range slices.Sorted(maps.Keys(e.Match)) {
		parts = append(parts, k+"="+e.Match[k])
	}
	if len(e.Actions) > 0 {
		parts = append(parts, "->", strings.Join(e.Actions, " | "))
	}
	if e.Priority != 0 {
		parts = append(parts, fmt.Sprintf("priority %d", e.Priority))
	}
	if e.Value != "" {
		parts = append(parts, e.Value)
	}
	if e.Packets != nil {
		parts = append(parts, fmt.Sprintf("%d packets", *e.Packets))
	}
	if e.Bytes != nil {
		parts = append(parts, fmt.Sprintf("%d bytes", *e.Bytes))
	}
	return strings.Join(parts, " ")
}

// Read returns the entries of tables and the cells of counters and registers with these names; without names, of
// all tables.
func (n *NamedClient) Read(ctx context.Context, names ...string) ([]NamedEntry, error) {
	var asked []*p4.Entity
	if len(names) == 0 {
		for _, t := range n.info.GetTables() {
			asked = append(asked, tableEntities(t)...)
		}
	}
	for _, name := range names {
		es, err := n.entities(name)
		if err != nil {
			return nil, err
		}
		asked = append(asked, es...)
	}
	return n.read(ctx, asked)
}

// Counters returns the cells of indirect and direct counters with these names; without names, of all.
func (n *NamedClient) Counters(ctx context.Context, names ...string) ([]NamedEntry, error) {
	all := n.counters()
	var asked []*p4.Entity
	if len(names) == 0 {
		asked = slices.Collect(maps.Values(all))
	}
	for _, name := range names {
		e, err := choose(all, "counter", name)
		if err != nil {
			return nil, err
		}
		asked = append(asked, e)
	}
	out, err := n.read(ctx, asked)
	slices.SortStableFunc(out, func(a, b NamedEntry) int { return strings.Compare(a.Of, b.Of) })
	return out, err
}

// counters returns the read request of each counter, by name.
func (n *NamedClient) counters() map[string]*p4.Entity {
	all := map[string]*p4.Entity{}
	for _, c := range n.info.GetCounters() {
		all[c.GetPreamble().GetName()] = &p4.Entity{Entity: &p4.Entity_CounterEntry{
			CounterEntry: &p4.CounterEntry{CounterId: c.GetPreamble().GetId()},
		}}
	}
	for _, c := range n.info.GetDirectCounters() {
		all[c.GetPreamble().GetName()] = &p4.Entity{Entity: &p4.Entity_DirectCounterEntry{
			DirectCounterEntry: &p4.DirectCounterEntry{TableEntry: &p4.TableEntry{TableId: c.GetDirectTableId()}},
		}}
	}
	return all
}

// choose returns the only object with a name, or with that last part of its name.
func choose[T any](all map[string]T, kind, name string) (T, error) {
	if x, ok := all[name]; ok {
		return x, nil
	}
	known := slices.Sorted(maps.Keys(all))
	found := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return !strings.HasSuffix(k, "."+name) })
	var none T
	switch len(found) {
	case 1:
		return all[found[0]], nil
	case 0:
		if len(known) == 0 {
			return none, fmt.Errorf("%w: %s %s; it has none", ErrName, kind, name)
		}
		return none, fmt.Errorf("%w: %s %s; it has %s", ErrName, kind, name, strings.Join(known, ", "))
	}
	return none, fmt.Errorf("%w: %s %s may be %s; write more of it", ErrName, kind, name, strings.Join(found, ", "))
}

// tableEntities returns the read requests for a table's entries and its default action. A table with constant
// default has it too.
func tableEntities(t *p4config.Table) []*p4.Entity {
	var out []*p4.Entity
	for _, byDefault := range []bool{false, true} {
		if byDefault && t.GetImplementationId() != 0 {
			continue // switches in use do not return its default action
		}
		out = append(out, &p4.Entity{Entity: &p4.Entity_TableEntry{
			TableEntry: &p4.TableEntry{TableId: t.GetPreamble().GetId(), IsDefaultAction: byDefault},
		}})
	}
	return out
}

// entities returns the read requests for an object's name.
func (n *NamedClient) entities(name string) ([]*p4.Entity, error) {
	all := map[string][]*p4.Entity{}
	for _, t := range n.info.GetTables() {
		all[t.GetPreamble().GetName()] = tableEntities(t)
	}
	for k, e := range n.counters() {
		all[k] = []*p4.Entity{e}
	}
	for _, r := range n.info.GetRegisters() {
		all[r.GetPreamble().GetName()] = []*p4.Entity{{Entity: &p4.Entity_RegisterEntry{
			RegisterEntry: &p4.RegisterEntry{RegisterId: r.GetPreamble().GetId()},
		}}}
	}
	return choose(all, "table, counter or register", name)
}

// read requests entities one kind at a time: a switch that lacks one kind refuses the whole request.
func (n *NamedClient) read(ctx context.Context, asked []*p4.Entity) ([]NamedEntry, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream if it is left early
	var out []NamedEntry
	for _, e := range asked {
		stream, err := n.client.Read(ctx, &p4.ReadRequest{DeviceId: n.device, Entities: []*p4.Entity{e}})
		if err == nil {
			err = targets.ReadEntities(stream, func(es []*p4.Entity) {
				for _, e := range es {
					out = append(out, n.decode(e))
				}
			})
		}
		if err != nil {
			return out, fmt.Errorf("p4rt: reading %s: %w", n.decode(e).Of, err)
		}
	}
	return out, nil
}

// decode converts an entity to names.
func (n *NamedClient) decode(e *p4.Entity) NamedEntry {
	switch x := e.GetEntity().(type) {
	case *p4.Entity_TableEntry:
		return n.decodeTable(x.TableEntry)
	case *p4.Entity_DirectCounterEntry:
		d := n.decodeTable(x.DirectCounterEntry.GetTableEntry())
		for _, c := range n.info.GetDirectCounters() {
			if c.GetDirectTableId() == x.DirectCounterEntry.GetTableEntry().GetTableId() {
				d.Of = c.GetPreamble().GetName()
				d.setCounter(c.GetSpec(), x.DirectCounterEntry.GetData())
			}
		}
		return d
	case *p4.Entity_CounterEntry:
		d := NamedEntry{Of: fmt.Sprintf("counter %#x", x.CounterEntry.GetCounterId())}
		for _, c := range n.info.GetCounters() {
			if c.GetPreamble().GetId() == x.CounterEntry.GetCounterId() {
				d.Of = c.GetPreamble().GetName()
				d.setCounter(c.GetSpec(), x.CounterEntry.GetData())
			}
		}
		d.Index = new(x.CounterEntry.GetIndex().GetIndex())
		return d
	case *p4.Entity_RegisterEntry:
		d := NamedEntry{Of: fmt.Sprintf("register %#x", x.RegisterEntry.GetRegisterId())}
		for _, r := range n.info.GetRegisters() {
			if r.GetPreamble().GetId() == x.RegisterEntry.GetRegisterId() {
				d.Of = r.GetPreamble().GetName()
			}
		}
		d.Index = new(x.RegisterEntry.GetIndex().GetIndex())
		d.Value = showValue("", 0, x.RegisterEntry.GetData().GetBitstring())
		return d
	}
	return NamedEntry{Of: fmt.Sprintf("%T", e.GetEntity())}
}

func (e *NamedEntry) setCounter(spec *p4config.CounterSpec, data *p4.CounterData) {
	if spec.GetUnit() != p4config.CounterSpec_BYTES {
		e.Packets = new(data.GetPacketCount())
	}
	if spec.GetUnit() != p4config.CounterSpec_PACKETS {
		e.Bytes = new(data.GetByteCount())
	}
}

func (n *NamedClient) decodeTable(te *p4.TableEntry) NamedEntry {
	d := NamedEntry{Of: fmt.Sprintf("table %#x", te.GetTableId()), Default: te.GetIsDefaultAction(), Priority: te.GetPriority()}
	for _, t := range n.info.GetTables() {
		if t.GetPreamble().GetId() != te.GetTableId() {
			continue
		}
		d.Of = t.GetPreamble().GetName()
		for _, m := range te.GetMatch() {
			for _, f := range t.GetMatchFields() {
				if f.GetId() == m.GetFieldId() {
					if d.Match == nil {
						d.Match = map[string]string{}
					}
					d.Match[f.GetName()] = showMatch(f, m)
				}
			}
		}
	}
	switch a := te.GetAction().GetType().(type) {
	case *p4.TableAction_Action:
		d.Actions = []string{n.showAction(a.Action)}
	case *p4.TableAction_ActionProfileMemberId:
		d.Actions = []string{fmt.Sprintf("member %d", a.ActionProfileMemberId)}
	case *p4.TableAction_ActionProfileGroupId:
		d.Actions = []string{fmt.Sprintf("group %d", a.ActionProfileGroupId)}
	case *p4.TableAction_ActionProfileActionSet:
		for _, x := range a.ActionProfileActionSet.GetActionProfileActions() {
			text := n.showAction(x.GetAction())
			if x.GetWeight() != 1 {
				text += fmt.Sprintf(" weight %d", x.GetWeight())
			}
			d.Actions = append(d.Actions, text)
		}
	}
	return d
}

func (n *NamedClient) showAction(call *p4.Action) string {
	for _, a := range n.info.GetActions() {
		if a.GetPreamble().GetId() != call.GetActionId() {
			continue
		}
		var params []string
		for _, p := range call.GetParams() {
			for _, q := range a.GetParams() {
				if q.GetId() == p.GetParamId() {
					params = append(params, q.GetName()+"="+showValue(q.GetName(), int(q.GetBitwidth()), p.GetValue()))
				}
			}
		}
		return a.GetPreamble().GetName() + "(" + strings.Join(params, ", ") + ")"
	}
	return fmt.Sprintf("action %#x", call.GetActionId())
}

// NamedUpdate is a write, with names.
type NamedUpdate struct {
	Type     p4.Update_Type
	Table    string
	Match    map[string]string
	Priority int32
	Default  bool
	Action   string // the action with its arguments; empty to delete
	Params   map[string]string
}

// Write carries out an update, as primary of the switch by an election id.
func (n *NamedClient) Write(ctx context.Context, election uint64, u NamedUpdate) error {
	te, err := n.encode(u)
	if err != nil {
		return err
	}
	w := Writer{DeviceID: n.device, ElectionID: ElectionID{Low: election}.Proto()}
	primary, err := OpenPacketStream(ctx, n.client, new(Schema), w, func(PacketIn) {})
	if errors.Is(err, ErrHeld) {
		return fmt.Errorf("%w; stop that one, or be primary in its place by a higher --election-id", err)
	}
	if err != nil {
		return err
	}
	defer primary.Close()
	_, err = n.client.Write(ctx, &p4.WriteRequest{
		DeviceId: n.device, ElectionId: primary.ElectionID().Proto(),
		Updates: []*p4.Update{{Type: u.Type, Entity: &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: te}}}},
	})
	if err != nil {
		return fmt.Errorf("p4rt: %v %s: %w", u.Type, u.Table, withDetails(err))
	}
	return nil
}

// withDetails returns the switch's error about the only update of a write, if it gives one.
func withDetails(err error) error {
	st, _ := status.FromError(err)
	for _, d := range st.Details() {
		if e, ok := d.(*p4.Error); ok && e.GetMessage() != "" {
			return errors.New(e.GetMessage())
		}
	}
	return err
}

func (n *NamedClient) encode(u NamedUpdate) (*p4.TableEntry, error) {
	tables, actions := map[string]*p4config.Table{}, map[string]*p4config.Action{}
	for _, t := range n.info.GetTables() {
		tables[t.GetPreamble().GetName()] = t
	}
	t, err := choose(tables, "table", u.Table)
	if err != nil {
		return nil, err
	}
	te := &p4.TableEntry{TableId: t.GetPreamble().GetId(), Priority: u.Priority, IsDefaultAction: u.Default}
	fields := map[string]*p4config.MatchField{}
	for _, f := range t.GetMatchFields() {
		fields[f.GetName()] = f
	}
	for _, name := range slices.Sorted(maps.Keys(u.Match)) {
		f, err := choose(fields, "key field of "+t.GetPreamble().GetName()+",", name)
		if err != nil {
			return nil, err
		}
		m, err := parseMatch(f, u.Match[name])
		if err != nil {
			return nil, fmt.Errorf("%w: %s=%s: %w", ErrName, name, u.Match[name], err)
		}
		if m != nil {
			te.Match = append(te.Match, m)
		}
	}
	if u.Action == "" {
		return te, nil
	}
	if t.GetImplementationId() != 0 {
		return nil, fmt.Errorf("%w: table %s has an action selector, which this client does not write", ErrName, t.GetPreamble().GetName())
	}
	for _, a := range n.info.GetActions() {
		if slices.ContainsFunc(t.GetActionRefs(), func(r *p4config.ActionRef) bool { return r.GetId() == a.GetPreamble().GetId() }) {
			actions[a.GetPreamble().GetName()] = a
		}
	}
	a, err := choose(actions, "action of "+t.GetPreamble().GetName()+",", u.Action)
	if err != nil {
		return nil, err
	}
	call := &p4.Action{ActionId: a.GetPreamble().GetId()}
	params := map[string]*p4config.Action_Param{}
	for _, p := range a.GetParams() {
		params[p.GetName()] = p
	}
	for name := range u.Params {
		if _, err := choose(params, "parameter of "+a.GetPreamble().GetName()+",", name); err != nil {
			return nil, err
		}
	}
	for _, p := range a.GetParams() {
		text, ok := u.Params[p.GetName()]
		if !ok {
			return nil, fmt.Errorf("%w: action %s takes %s=VALUE", ErrName, a.GetPreamble().GetName(), p.GetName())
		}
		v, err := parseValue(text, int(p.GetBitwidth()))
		if err != nil {
			return nil, fmt.Errorf("%w: %s=%s: %w", ErrName, p.GetName(), text, err)
		}
		call.Params = append(call.Params, &p4.Action_Param{ParamId: p.GetId(), Value: v})
	}
	te.Action = &p4.TableAction{Type: &p4.TableAction_Action{Action: call}}
	return te, nil
}
