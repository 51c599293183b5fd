package interp

import (
	"fmt"
	"math/big"
)

// compileTables collects all tables and profiles, without their control flow.
func (c *compiler) compileTables() error {
	for i := range c.j.Pipelines {
		jp := &c.j.Pipelines[i]
		for k := range jp.Profiles {
			pr := &jp.Profiles[k]
			p := profile{info: ProfileInfo{Name: pr.Name, Size: pr.MaxSize, Selector: pr.Selector != nil}, calc: -1}
			if pr.Selector != nil {
				ca, err := c.calculation(pr.Selector.Algo, pr.Selector.Input)
				if err != nil {
					return fmt.Errorf("action profile %q: selector: %w", pr.Name, err)
				}
				p.calc = len(c.calcs)
				c.calcUses[p.calc]++
				c.calcs = append(c.calcs, ca)
			}
			if _, dup := c.profileByName[pr.Name]; dup {
				return fmt.Errorf("action profile %q is declared twice", pr.Name)
			}
			c.profileByName[pr.Name] = len(c.profiles)
			c.profiles = append(c.profiles, p)
		}
		for k := range jp.Tables {
			if err := c.compileTable(&jp.Tables[k]); err != nil {
				return fmt.Errorf("table %q: %w", jp.Tables[k].Name, err)
			}
		}
	}
	return nil
}

func (c *compiler) compileTable(jt *jTable) error {
	if _, dup := c.tableIndex[jt.Name]; dup {
		return fmt.Errorf("declared twice")
	}
	id := len(c.tables)
	t := table{lpm: -1, defAct: -1, byID: map[ActionID]int{}, timeout: jt.SupportTimeout}
	t.info = TableInfo{
		Name: jt.Name, Size: jt.MaxSize, Profile: -1, DirectMeter: -1, HasDirectCounter: jt.WithCounters,
		SupportsTimeout: jt.SupportTimeout, ConstEntries: len(jt.Entries) > 0,
	}
	if jt.MaxSize < 0 || jt.MaxSize > maxCells {
		return fmt.Errorf("max_size %d; at most %d is possible", jt.MaxSize, maxCells)
	}
	t.info.Hidden = len(jt.Key) == 0 && len(jt.ActionIDs) == 1 && jt.DefaultEntry != nil && jt.DefaultEntry.EntryConst
	if err := c.tableKey(jt, &t); err != nil {
		return err
	}
	if len(jt.ActionIDs) == 0 && len(jt.Actions) > 0 { // the old format names them only
		for _, n := range jt.Actions {
			for i := range c.actions {
				if c.actions[i].info.Name == n {
					jt.ActionIDs = append(jt.ActionIDs, c.j.Actions[i].ID)
					break
				}
			}
		}
		if len(jt.ActionIDs) != len(jt.Actions) {
			return fmt.Errorf("names actions that do not exist")
		}
	}
	for _, aid := range jt.ActionIDs {
		i, ok := c.actionByID[aid]
		if !ok {
			return fmt.Errorf("there is no action with id %d", aid)
		}
		t.byID[ActionID(i)] = len(t.info.Actions)
		t.info.Actions = append(t.info.Actions, c.actions[i].info)
		t.argMax = max(t.argMax, c.actions[i].words)
	}
	if jt.DirectMeters != nil && *jt.DirectMeters != "" {
		i, ok := c.meterByName[*jt.DirectMeters]
		if !ok || c.meterTarget[i].f == nil {
			return fmt.Errorf("there is no direct meter array %q", *jt.DirectMeters)
		}
		t.info.DirectMeter, t.meterTo = MeterID(i), c.meterTarget[i]
		c.meters[i].Table = TableID(id)
	}
	switch jt.Type {
	case "", "simple":
	case "indirect", "indirect_ws":
		if err := c.tableProfile(jt, &t, TableID(id)); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: table type %q", ErrUnsupported, jt.Type)
	}
	if d := jt.DefaultEntry; d != nil {
		i, args, err := c.entryAction(&t, d.ActionID, d.ActionData)
		if err != nil {
			return fmt.Errorf("default entry: %w", err)
		}
		t.defAct, t.defArgs = t.byID[i], args
		t.info.ConstDefault = d.EntryConst || d.ActionConst
	}
	if err := c.constEntries(jt, &t); err != nil {
		return err
	}
	c.tableIndex[jt.Name] = id
	c.tables = append(c.tables, t)
	return nil
}

func (c *compiler) tableKey(jt *jTable, t *table) error {
	t.kind = Exact
	for i := range jt.Key {
		k := &jt.Key[i]
		p := keyPiece{guard: slotOne, width: 1}
		kf := KeyField{Name: k.Name}
		switch k.MatchType {
		case "valid":
			var hn string
			if err := unmarshal(k.Target, &hn); err != nil {
				return fmt.Errorf("key field %d: %w", i, err)
			}
			h, ok := c.headerByName[hn]
			if !ok {
				return fmt.Errorf("key field %d: there is no header %q", i, hn)
			}
			p.slot = c.headers[h].validSlot()
			if c.headers[h].meta {
				p.slot = slotOne
			}
			if kf.Name == "" {
				kf.Name = hn
			}
		case "exact", "lpm", "ternary", "range":
			var s [2]string
			if err := unmarshal(k.Target, &s); err != nil {
				return fmt.Errorf("key field %d: %w", i, err)
			}
			r, err := c.fieldRef(s[0], s[1])
			if err != nil {
				return fmt.Errorf("key field %d: %w", i, err)
			}
			if r.f.varbit {
				return fmt.Errorf("%w: key field %d is a varbit", ErrUnsupported, i)
			}
			p.slot, p.guard, p.width = r.slot(), r.guard(), r.f.width
			if s[1] == "$valid$" {
				p.guard = slotOne
			}
			if kf.Name == "" {
				kf.Name = s[0] + "." + s[1]
			}
		default:
			return fmt.Errorf("%w: key field %d has match type %q", ErrUnsupported, i, k.MatchType)
		}
		switch k.MatchType {
		case "lpm":
			if t.lpm >= 0 {
				return fmt.Errorf("%w: two lpm fields", ErrUnsupported)
			}
			kf.Kind, t.lpm = LPM, i
			t.kind = max(t.kind, LPM)
		case "ternary":
			kf.Kind = Ternary
			t.kind = max(t.kind, Ternary)
		case "range":
			kf.Kind = Range
			t.ranges = append(t.ranges, i)
			t.kind = Range
		}
		kf.Width = p.width
		var mask *big.Int
		if k.Mask != nil {
			m, err := parseHex(*k.Mask)
			if err != nil {
				return fmt.Errorf("key field %q: mask: %w", kf.Name, err)
			}
			mask = m
		}
		t.masks = append(t.masks, mask)
		t.key = append(t.key, p)
		t.info.Key = append(t.info.Key, kf)
	}
	// The table says ternary also where only its lpm field is.
	if jt.MatchType == "ternary" && t.kind == LPM {
		t.kind = Ternary
	}
	t.words = pack(t.key)
	if t.words > maxKeyWords {
		return fmt.Errorf("%w: a key of more than %d bits", ErrUnsupported, maxKeyWords*64)
	}
	return nil
}

func (c *compiler) tableProfile(jt *jTable, t *table, id TableID) error {
	name := jt.ActionProfile
	if name == "" {
		name = jt.ActProfName
	}
	i, ok := c.profileByName[name]
	if !ok && jt.ActionProfile == "" && name != "" { // the old format declares it here
		p := profile{info: ProfileInfo{Name: name, Selector: jt.Selector != nil}, calc: -1}
		if jt.Selector != nil {
			ca, err := c.calculation(jt.Selector.Algo, jt.Selector.Input)
			if err != nil {
				return fmt.Errorf("selector: %w", err)
			}
			p.calc = len(c.calcs)
			c.calcUses[p.calc]++
			c.calcs = append(c.calcs, ca)
		}
		i, ok = len(c.profiles), true
		c.profileByName[name] = i
		c.profiles = append(c.profiles, p)
	}
	if !ok {
		return fmt.Errorf("there is no action profile %q", name)
	}
	p := &c.profiles[i]
	if jt.Type == "indirect_ws" && p.calc < 0 {
		return fmt.Errorf("action profile %q has no selector", name)
	}
	p.info.Tables = append(p.info.Tables, id)
	t.info.Profile, t.info.Selector = ProfileID(i), p.calc >= 0
	for _, a := range t.info.Actions {
		found := false
		for _, b := range p.acts {
			found = found || a.ID == b
		}
		if !found {
			p.acts = append(p.acts, a.ID)
		}
	}
	return nil
}

// entryAction resolves an action with its arguments as the JSON gives them.
func (c *compiler) entryAction(t *table, id int, data []string) (ActionID, []uint64, error) {
	i, ok := c.actionByID[id]
	if !ok {
		return 0, nil, fmt.Errorf("there is no action with id %d", id)
	}
	a := &c.actions[i]
	if _, ok := t.byID[ActionID(i)]; !ok {
		return 0, nil, fmt.Errorf("action %q is not one of the table's", a.info.Name)
	}
	if len(data) != len(a.params) {
		return 0, nil, fmt.Errorf("action %q has %d parameters, not %d", a.info.Name, len(a.params), len(data))
	}
	var args []uint64
	for k, s := range data {
		v, err := parseHex(s)
		if err != nil {
			return 0, nil, fmt.Errorf("action %q: %w", a.info.Name, err)
		}
		v.And(v, new(big.Int).Sub(pow2(a.params[k].width), bigOne))
		args = append(args, wordsOf(v, a.params[k].words)...)
	}
	return ActionID(i), args, nil
}

func (c *compiler) constEntries(jt *jTable, t *table) error {
	if len(jt.Entries) == 0 {
		return nil
	}
	if t.info.Profile >= 0 {
		return fmt.Errorf("%w: entries of a table with an action profile", ErrUnsupported)
	}
	t.info.Size = max(t.info.Size, len(jt.Entries))
	for i := range jt.Entries {
		je := &jt.Entries[i]
		if len(je.MatchKey) != len(t.key) {
			return fmt.Errorf("entry %d: %d match fields where the key has %d", i, len(je.MatchKey), len(t.key))
		}
		e := constEntry{}
		if t.kind == Ternary || t.kind == Range {
			// BMv2: the smallest number wins; here the largest.
			e.prio = int32(1<<31 - 1 - min(max(je.Priority, 0), 1<<31-2))
		}
		for k := range je.MatchKey {
			m, err := constMatch(&t.info.Key[k], je.MatchKey[k].MatchType, je.MatchKey[k].Key, je.MatchKey[k].Mask, je.MatchKey[k].PrefixLen, je.MatchKey[k].Start, je.MatchKey[k].End)
			if err != nil {
				return fmt.Errorf("entry %d: field %q: %w", i, t.info.Key[k].Name, err)
			}
			e.match = append(e.match, m)
		}
		var err error
		if e.act, e.args, err = c.entryAction(t, je.ActionEntry.ActionID, je.ActionEntry.ActionData); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		t.consts = append(t.consts, e)
	}
	return nil
}

func constMatch(kf *KeyField, kind string, key jRaw, mask string, plen int, start, end string) (FieldMatch, error) {
	hex := func(s string) ([]byte, error) {
		v, err := parseHex(s)
		if err != nil {
			return nil, err
		}
		if v.Sign() < 0 {
			return nil, fmt.Errorf("%q is negative", s)
		}
		return v.And(v, new(big.Int).Sub(pow2(kf.Width), bigOne)).FillBytes(make([]byte, (kf.Width+7)/8)), nil
	}
	str := func() ([]byte, error) {
		var s string
		if err := unmarshal(key, &s); err != nil {
			return nil, err
		}
		return hex(s)
	}
	var m FieldMatch
	var err error
	switch kind {
	case "valid":
		var b bool
		if err := unmarshal(key, &b); err != nil {
			return m, err
		}
		m.Value = []byte{0}
		if b {
			m.Value[0] = 1
		}
	case "exact":
		m.Value, err = str()
	case "lpm":
		m.PrefixLen = plen
		m.Value, err = str()
	case "ternary":
		if m.Value, err = str(); err == nil {
			m.Mask, err = hex(mask)
		}
	case "range":
		if m.Value, err = hex(start); err == nil {
			m.High, err = hex(end)
		}
	default:
		err = fmt.Errorf("%w: match type %q", ErrUnsupported, kind)
	}
	return m, err
}
