package bmv2

import (
	"fmt"
	"iter"
	"maps"
	"slices"
)

// SetTime moves the switch's clock, for control operations between packets:
// inserted entries and new meters start from it. ns since the switch started.
func (s *Switch) SetTime(now int64) { s.now = now }

// Begin starts a transaction: Rollback undoes every control operation since,
// Commit keeps them. Packets must not be processed meanwhile if they are not
// to see half of it. Transactions do not nest: a second Begin commits the
// first.
func (s *Switch) Begin() {
	s.Commit()
	s.inTx = true
}

// Commit ends a transaction and keeps what it did.
func (s *Switch) Commit() {
	s.inTx = false
	for _, f := range s.done {
		f()
	}
	s.endTx()
}

// Rollback ends a transaction and undoes what it did, counters and meters
// that it wrote included.
func (s *Switch) Rollback() {
	s.inTx = false
	for _, f := range slices.Backward(s.undo) {
		f()
	}
	s.endTx()
}

func (s *Switch) endTx() {
	clear(s.done)
	clear(s.undo)
	s.done, s.undo = s.done[:0], s.undo[:0]
}

// onRollback remembers how to undo.
func (s *Switch) onRollback(f func()) {
	if s.inTx {
		s.undo = append(s.undo, f)
	}
}

// SetDefault changes a table's default action. ErrConst: the program fixes it.
func (s *Switch) SetDefault(id TableID, g Target) error {
	ts, err := s.table(id)
	if err != nil {
		return err
	}
	fail := func(err error) error {
		return fmt.Errorf("bmv2: table %q: default: %w", ts.t.info.Name, err)
	}
	if ts.t.info.ConstDefault {
		return fail(fmt.Errorf("%w: the program fixes it", ErrConst))
	}
	d := defaultEntry{set: true, kind: g.Kind, args: make([]uint64, ts.t.argMax)}
	if g.Kind == ByAction && ts.t.info.Profile >= 0 {
		// The default of a table with a profile may be a plain action.
		plain := *ts.t
		plain.info.Profile = -1
		d.target, err = s.resolve(&plain, g)
	} else {
		d.target, err = s.resolve(ts.t, g)
	}
	if err != nil {
		return fail(err)
	}
	if err := s.putArgs(d.args, ts.t, g); err != nil {
		return fail(err)
	}
	s.setDefault(ts, d)
	return nil
}

func (s *Switch) setDefault(ts *tableState, d defaultEntry) {
	old := ts.def
	swap := func(from, to defaultEntry) {
		if from.set {
			s.hold(ts.t, from.kind, from.target, -1)
		}
		ts.def = to
		if to.set {
			s.hold(ts.t, to.kind, to.target, 1)
		}
	}
	swap(old, d)
	s.onRollback(func() { swap(d, old) })
}

// ResetDefault restores the program's default action.
func (s *Switch) ResetDefault(id TableID) error {
	ts, err := s.table(id)
	if err != nil {
		return err
	}
	d := defaultEntry{}
	if ts.t.defAct >= 0 {
		d = defaultEntry{set: true, target: int32(ts.t.defAct), args: ts.t.defArgs}
	}
	s.setDefault(ts, d)
	return nil
}

// Default reads a table's default action; false when it has none.
func (s *Switch) Default(id TableID) (Target, bool) {
	ts, err := s.table(id)
	if err != nil || !ts.def.set {
		return Target{}, false
	}
	return s.target(ts.t, ts.def.kind, ts.def.target, ts.def.args), true
}

// SetIdleTimeout changes an entry's idle timeout; 0 is none.
func (s *Switch) SetIdleTimeout(id TableID, h Handle, ns int64) error {
	ts, i, err := s.mutable(id, h, "idle timeout")
	if err != nil {
		return err
	}
	old := ts.entries[i].timeout
	ts.entries[i].timeout = ns
	s.onRollback(func() { ts.entries[i].timeout = old })
	return nil
}

// LastHit returns when (ns since the switch started) a packet last hit an
// entry, or when it was inserted. It is kept only in tables that support
// timeouts.
func (s *Switch) LastHit(id TableID, h Handle) (int64, error) {
	ts, err := s.table(id)
	if err != nil {
		return 0, err
	}
	i, err := ts.entry(h)
	if err != nil {
		return 0, err
	}
	return ts.entries[i].lastHit, nil
}

// Idle yields the entries whose idle timeout has passed at now, each with the
// time (ns) since its last hit. The table must not change meanwhile.
func (s *Switch) Idle(id TableID, now int64) iter.Seq2[Handle, int64] {
	return func(yield func(Handle, int64) bool) {
		ts, err := s.table(id)
		if err != nil {
			return
		}
		for i := range ts.entries {
			e := &ts.entries[i]
			if e.live && e.timeout > 0 && now-e.lastHit >= e.timeout && !yield(ts.handle(int32(i)), now-e.lastHit) {
				return
			}
		}
	}
}

func indexError(what, name string, i, size int) error {
	return fmt.Errorf("bmv2: %s %q: index %d: %w: 0 to %d exist", what, name, i, ErrNotFound, size-1)
}

func (s *Switch) counter(id CounterID, i int) (*counterArray, error) {
	if id < 0 || int(id) >= len(s.counters) {
		return nil, fmt.Errorf("bmv2: counter %d: %w", id, ErrNotFound)
	}
	if i < 0 || i >= s.p.counters[id].Size {
		return nil, indexError("counter", s.p.counters[id].Name, i, s.p.counters[id].Size)
	}
	return &s.counters[id], nil
}

// Counter reads a cell of an indirect counter.
func (s *Switch) Counter(id CounterID, index int) (packets, bytes uint64, err error) {
	c, err := s.counter(id, index)
	if err != nil {
		return 0, 0, err
	}
	if w := c.cell(uint64(index)); w != nil {
		return w[0], w[1], nil
	}
	return 0, 0, nil
}

// SetCounter writes a cell of an indirect counter.
func (s *Switch) SetCounter(id CounterID, index int, packets, bytes uint64) error {
	c, err := s.counter(id, index)
	if err != nil {
		return err
	}
	s.setCell(c.touch(uint64(index)), packets, bytes)
	return nil
}

func (s *Switch) setCell(w []uint64, packets, bytes uint64) {
	p, b := w[0], w[1]
	w[0], w[1] = packets, bytes
	s.onRollback(func() { w[0], w[1] = p, b })
}

func (s *Switch) direct(id TableID, h Handle) ([]uint64, error) {
	ts, err := s.table(id)
	if err != nil {
		return nil, err
	}
	if !ts.t.info.HasDirectCounter {
		return nil, fmt.Errorf("bmv2: table %q: %w: it has no direct counter", ts.t.info.Name, ErrInvalid)
	}
	i, err := ts.entry(h)
	if err != nil {
		return nil, err
	}
	return ts.counts[2*i : 2*i+2], nil
}

// DirectCounter reads an entry's counter.
func (s *Switch) DirectCounter(id TableID, h Handle) (packets, bytes uint64, err error) {
	w, err := s.direct(id, h)
	if err != nil {
		return 0, 0, err
	}
	return w[0], w[1], nil
}

// SetDirectCounter writes an entry's counter.
func (s *Switch) SetDirectCounter(id TableID, h Handle, packets, bytes uint64) error {
	w, err := s.direct(id, h)
	if err != nil {
		return err
	}
	s.setCell(w, packets, bytes)
	return nil
}

func (s *Switch) meter(id MeterID, i int) (*meterArray, error) {
	if id < 0 || int(id) >= len(s.meters) {
		return nil, fmt.Errorf("bmv2: meter %d: %w", id, ErrNotFound)
	}
	m := &s.p.meters[id]
	if m.Table >= 0 {
		return nil, fmt.Errorf("bmv2: meter %q: %w: it is direct; its cells are the entries of table %q", m.Name, ErrInvalid, s.p.tables[m.Table].info.Name)
	}
	if i < 0 || i >= m.Size {
		return nil, indexError("meter", m.Name, i, m.Size)
	}
	return &s.meters[id], nil
}

// checkMeter refuses what BMv2 refuses: a committed rate above the peak rate.
func checkMeter(name string, c MeterConfig) error {
	if c.CIR < 0 || c.PIR < 0 || c.CBurst < 0 || c.PBurst < 0 {
		return fmt.Errorf("bmv2: meter %q: %w: rates and bursts cannot be negative", name, ErrInvalid)
	}
	if c.CIR > c.PIR {
		return fmt.Errorf("bmv2: meter %q: %w: committed rate %d is above the peak rate %d", name, ErrInvalid, c.CIR, c.PIR)
	}
	return nil
}

// SetMeter configures a cell; its buckets start full.
func (s *Switch) SetMeter(id MeterID, index int, c MeterConfig) error {
	a, err := s.meter(id, index)
	if err != nil {
		return err
	}
	if err := checkMeter(s.p.meters[id].Name, c); err != nil {
		return err
	}
	if a.cells == nil {
		a.cells = map[uint64]*meter{}
	}
	putMeter(s, a.cells, uint64(index), newMeter(c, s.now))
	return nil
}

// putMeter sets or, with nil, removes a meter.
func putMeter[K comparable](s *Switch, m map[K]*meter, k K, v *meter) {
	old := m[k]
	set := func(v *meter) {
		if v == nil {
			delete(m, k)
		} else {
			m[k] = v
		}
	}
	set(v)
	s.onRollback(func() { set(old) })
}

// ClearMeter makes a cell unconfigured: every packet is green.
func (s *Switch) ClearMeter(id MeterID, index int) error {
	a, err := s.meter(id, index)
	if err != nil {
		return err
	}
	putMeter(s, a.cells, uint64(index), nil)
	return nil
}

// Meter reads a cell; set is false when it is not configured.
func (s *Switch) Meter(id MeterID, index int) (c MeterConfig, set bool, err error) {
	a, err := s.meter(id, index)
	if err != nil {
		return c, false, err
	}
	if m := a.cells[uint64(index)]; m != nil {
		return m.cfg, true, nil
	}
	return c, false, nil
}

func (s *Switch) directMeterOf(id TableID, h Handle) (*tableState, int32, error) {
	ts, err := s.table(id)
	if err != nil {
		return nil, 0, err
	}
	if ts.t.info.DirectMeter < 0 {
		return nil, 0, fmt.Errorf("bmv2: table %q: %w: it has no direct meter", ts.t.info.Name, ErrInvalid)
	}
	i, err := ts.entry(h)
	return ts, i, err
}

// SetDirectMeter configures an entry's meter.
func (s *Switch) SetDirectMeter(id TableID, h Handle, c MeterConfig) error {
	ts, i, err := s.directMeterOf(id, h)
	if err != nil {
		return err
	}
	if err := checkMeter(s.p.meters[ts.t.info.DirectMeter].Name, c); err != nil {
		return err
	}
	if ts.meters == nil {
		ts.meters = map[int32]*meter{}
	}
	putMeter(s, ts.meters, i, newMeter(c, s.now))
	return nil
}

// ClearDirectMeter makes an entry's meter unconfigured.
func (s *Switch) ClearDirectMeter(id TableID, h Handle) error {
	ts, i, err := s.directMeterOf(id, h)
	if err != nil {
		return err
	}
	putMeter(s, ts.meters, i, nil)
	return nil
}

// DirectMeter reads an entry's meter; set is false when it is not configured.
func (s *Switch) DirectMeter(id TableID, h Handle) (c MeterConfig, set bool, err error) {
	ts, i, err := s.directMeterOf(id, h)
	if err != nil {
		return c, false, err
	}
	if m := ts.meters[i]; m != nil {
		return m.cfg, true, nil
	}
	return c, false, nil
}

func (s *Switch) register(id RegisterID, i int) (*registerArray, error) {
	if id < 0 || int(id) >= len(s.registers) {
		return nil, fmt.Errorf("bmv2: register %d: %w", id, ErrNotFound)
	}
	if i < 0 || i >= s.p.registers[id].Size {
		return nil, indexError("register", s.p.registers[id].Name, i, s.p.registers[id].Size)
	}
	return &s.registers[id], nil
}

// Register reads a cell as ceil(width/8) bytes.
func (s *Switch) Register(id RegisterID, index int) ([]byte, error) {
	r, err := s.register(id, index)
	if err != nil {
		return nil, err
	}
	return bytesOfWords(r.cell(uint64(index)), r.width), nil
}

// SetRegister writes a cell.
func (s *Switch) SetRegister(id RegisterID, index int, value []byte) error {
	r, err := s.register(id, index)
	if err != nil {
		return err
	}
	w := make([]uint64, r.words)
	if err := putValue(w, value, r.width); err != nil {
		return fmt.Errorf("bmv2: register %q: %w", s.p.registers[id].Name, err)
	}
	c := r.touch(uint64(index))
	old := slices.Clone(c)
	copy(c, w)
	s.onRollback(func() { copy(c, old) })
	return nil
}

// put changes a map entry, undone on rollback; a nil pointer removes it.
func put[V any](s *Switch, m map[uint32]*V, k uint32, v *V) {
	old := m[k]
	set := func(v *V) {
		if v == nil {
			delete(m, k)
		} else {
			m[k] = v
		}
	}
	set(v)
	s.onRollback(func() { set(old) })
}

// SetCloneSession makes or replaces a clone (mirror) session. Ids are 0 to
// 32767, as in simple_switch.
func (s *Switch) SetCloneSession(id uint32, c CloneSession) error {
	if id >= cloneFlag {
		return fmt.Errorf("bmv2: clone session %d: %w: ids go up to %d", id, ErrInvalid, cloneFlag-1)
	}
	if c.Truncate < 0 {
		return fmt.Errorf("bmv2: clone session %d: %w: truncation to %d bytes", id, ErrInvalid, c.Truncate)
	}
	c.Replicas = slices.Clone(c.Replicas)
	if s.clones == nil {
		s.clones = map[uint32]*CloneSession{}
	}
	put(s, s.clones, id, &c)
	return nil
}

// DeleteCloneSession removes a clone session.
func (s *Switch) DeleteCloneSession(id uint32) error {
	if s.clones[id] == nil {
		return fmt.Errorf("bmv2: clone session %d: %w", id, ErrNotFound)
	}
	put(s, s.clones, id, nil)
	return nil
}

// CloneSession reads a clone session.
func (s *Switch) CloneSession(id uint32) (CloneSession, error) {
	c := s.clones[id]
	if c == nil {
		return CloneSession{}, fmt.Errorf("bmv2: clone session %d: %w", id, ErrNotFound)
	}
	out := *c
	out.Replicas = slices.Clone(c.Replicas)
	return out, nil
}

// CloneSessions yields all clone sessions in the order of their ids.
func (s *Switch) CloneSessions() iter.Seq2[uint32, CloneSession] {
	return func(yield func(uint32, CloneSession) bool) {
		for _, id := range slices.Sorted(maps.Keys(s.clones)) {
			if !yield(id, *s.clones[id]) {
				return
			}
		}
	}
}

// SetMulticastGroup makes or replaces a multicast group. Id 0 means no
// multicast to a program and is refused.
func (s *Switch) SetMulticastGroup(id uint32, replicas []Replica) error {
	if id == 0 {
		return fmt.Errorf("bmv2: multicast group 0: %w: a program's mcast_grp of 0 means no multicast", ErrInvalid)
	}
	r := slices.Clone(replicas)
	if s.groups == nil {
		s.groups = map[uint32]*[]Replica{}
	}
	put(s, s.groups, id, &r)
	return nil
}

// DeleteMulticastGroup removes a multicast group.
func (s *Switch) DeleteMulticastGroup(id uint32) error {
	if s.groups[id] == nil {
		return fmt.Errorf("bmv2: multicast group %d: %w", id, ErrNotFound)
	}
	put(s, s.groups, id, nil)
	return nil
}

// MulticastGroup reads a multicast group.
func (s *Switch) MulticastGroup(id uint32) ([]Replica, error) {
	r := s.groups[id]
	if r == nil {
		return nil, fmt.Errorf("bmv2: multicast group %d: %w", id, ErrNotFound)
	}
	return slices.Clone(*r), nil
}

// MulticastGroups yields all multicast groups in the order of their ids.
func (s *Switch) MulticastGroups() iter.Seq2[uint32, []Replica] {
	return func(yield func(uint32, []Replica) bool) {
		for _, id := range slices.Sorted(maps.Keys(s.groups)) {
			if !yield(id, slices.Clone(*s.groups[id])) {
				return
			}
		}
	}
}

// SetValueSet replaces the members of a parser value set. Each matches on the
// fields of [ValueSetInfo.Widths]: Value, with Mask or PrefixLen when those
// are set; Any matches everything.
func (s *Switch) SetValueSet(id ValueSetID, members [][]FieldMatch) error {
	if id < 0 || int(id) >= len(s.vsets) {
		return fmt.Errorf("bmv2: value set %d: %w", id, ErrNotFound)
	}
	info := &s.p.vsets[id]
	vals := map[int][]uint64{}
	for u := range s.p.vsetUses {
		use := &s.p.vsetUses[u]
		if use.set != int(id) {
			continue
		}
		for _, m := range members {
			kv, err := use.pack(m)
			if err != nil {
				return fmt.Errorf("bmv2: value set %q: %w", info.Name, err)
			}
			vals[u] = append(vals[u], kv...)
		}
	}
	old, oldVals := s.vsets[id], maps.Clone(vals)
	for u := range vals {
		oldVals[u] = s.vsetVals[u]
	}
	for u := range s.p.vsetUses {
		if s.p.vsetUses[u].set == int(id) {
			oldVals[u] = s.vsetVals[u]
			s.vsetVals[u] = vals[u]
		}
	}
	s.vsets[id] = slices.Clone(members)
	s.onRollback(func() {
		s.vsets[id] = old
		for u, v := range oldVals {
			s.vsetVals[u] = v
		}
	})
	return nil
}

// pack returns a member's value and mask in the packed form of a select key.
func (u *vsetUse) pack(m []FieldMatch) ([]uint64, error) {
	if len(m) != len(u.key) {
		return nil, fmt.Errorf("%w: a member of %d fields; the set has %d", ErrInvalid, len(m), len(u.key))
	}
	out := make([]uint64, 2*u.words)
	for i := range m {
		k, f := &u.key[i], &m[i]
		v, w := make([]uint64, k.words), make([]uint64, k.words)
		prefixMask(w, k.width, k.width)
		if err := putValue(v, f.Value, k.width); err != nil {
			return nil, fmt.Errorf("field %d: %w", i, err)
		}
		switch {
		case f.Any:
			clear(w)
		case f.High != nil:
			return nil, fmt.Errorf("field %d: %w: ranges in value sets; use a mask", i, ErrUnsupported)
		case f.Mask != nil:
			if err := putValue(w, f.Mask, k.width); err != nil {
				return nil, fmt.Errorf("field %d: %w", i, err)
			}
		case f.PrefixLen > 0 && f.PrefixLen <= k.width:
			prefixMask(w, k.width, f.PrefixLen)
		}
		for j := range v {
			out[int(k.word)+j] |= v[j] << k.shift
			out[u.words+int(k.word)+j] |= w[j] << k.shift
		}
	}
	for j := range u.words {
		out[u.words+j] &= u.mask[j]
		out[j] &= out[u.words+j]
	}
	return out, nil
}

// inValueSet reports whether a packed select key is in the set of a use.
func (s *Switch) inValueSet(use int, key []uint64) bool {
	w := len(key)
next:
	for vals := s.vsetVals[use]; len(vals) > 0; vals = vals[2*w:] {
		for i, x := range key {
			if x&vals[w+i] != vals[i] {
				continue next
			}
		}
		return true
	}
	return false
}

// ValueSet reads a value set's members.
func (s *Switch) ValueSet(id ValueSetID) ([][]FieldMatch, error) {
	if id < 0 || int(id) >= len(s.vsets) {
		return nil, fmt.Errorf("bmv2: value set %d: %w", id, ErrNotFound)
	}
	return slices.Clone(s.vsets[id]), nil
}
