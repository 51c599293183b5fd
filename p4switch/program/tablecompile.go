package program

import (
	"fmt"
	"math/big"
	"slices"
)

// MaxKeyWords is the largest number of 64-bit words of a table's packed key.
const MaxKeyWords = 64

// compileTables collects all tables and profiles, without their control flow.
func (c *compiler) compileTables() error {
	for i := range c.j.Pipelines {
		jp := &c.j.Pipelines[i]
		for k := range jp.Profiles {
			pr := &jp.Profiles[k]
			p := Profile{Info: ProfileInfo{Name: pr.Name, Size: pr.MaxSize, Selector: pr.Selector != nil}, Calculation: -1}
			if pr.Selector != nil {
				ca, err := c.compileCalculation(pr.Selector.Algo, pr.Selector.Input)
				if err != nil {
					return fmt.Errorf("action profile %q: selector: %w", pr.Name, err)
				}
				p.Calculation = len(c.calcs)
				c.calcUses[p.Calculation]++
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
	t := Table{LPM: -1, Default: -1, IndexOf: map[ActionID]int{}, Timeout: jt.SupportTimeout}
	t.Info = TableInfo{
		Name: jt.Name, Size: jt.MaxSize, Profile: -1, DirectMeter: -1, HasDirectCounter: jt.WithCounters,
		SupportsTimeout: jt.SupportTimeout, ConstEntries: len(jt.Entries) > 0,
	}
	for i := range c.j.CounterArrays {
		if k := &c.j.CounterArrays[i]; k.IsDirect && k.Binding == jt.Name {
			t.Info.DirectCounter = k.Name
		}
	}
	if jt.MaxSize < 0 || jt.MaxSize > maxCells {
		return fmt.Errorf("max_size %d; at most %d is possible", jt.MaxSize, maxCells)
	}
	t.Info.Hidden = len(jt.Key) == 0 && len(jt.ActionIDs) == 1 && jt.DefaultEntry != nil && jt.DefaultEntry.EntryConst
	if err := c.tableKey(jt, &t); err != nil {
		return err
	}
	if len(jt.ActionIDs) == 0 && len(jt.Actions) > 0 { // the old format names them only
		for _, n := range jt.Actions {
			for i := range c.actions {
				if c.actions[i].Info.Name == n {
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
		t.IndexOf[ActionID(i)] = len(t.Info.Actions)
		t.Info.Actions = append(t.Info.Actions, c.actions[i].Info)
		t.ArgMax = max(t.ArgMax, c.actions[i].Words)
	}
	if jt.DirectMeters != nil && *jt.DirectMeters != "" {
		i, ok := c.meterByName[*jt.DirectMeters]
		if !ok || c.meterTarget[i].Field == nil {
			return fmt.Errorf("there is no direct meter array %q", *jt.DirectMeters)
		}
		t.Info.DirectMeter, t.MeterTo = MeterID(i), c.meterTarget[i]
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
		t.Default, t.DefaultArgs = t.IndexOf[i], args
		t.Info.ConstDefault = d.EntryConst || d.ActionConst
	}
	if err := c.constEntries(jt, &t); err != nil {
		return err
	}
	c.tableIndex[jt.Name] = id
	c.tables = append(c.tables, t)
	return nil
}

func (c *compiler) tableKey(jt *jTable, t *Table) error {
	t.Kind = Exact
	for i := range jt.Key {
		k := &jt.Key[i]
		p := KeyPiece{Guard: SlotOne, Width: 1}
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
			p.Slot = c.headers[h].ValidSlot()
			if c.headers[h].Meta {
				p.Slot = SlotOne
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
			if r.Field.Varbit {
				return fmt.Errorf("%w: key field %d is a varbit", ErrUnsupported, i)
			}
			p.Slot, p.Guard, p.Width = r.Slot(), r.Guard(), r.Field.Width
			if s[1] == "$valid$" {
				p.Guard = SlotOne
			}
			if kf.Name == "" {
				kf.Name = s[0] + "." + s[1]
			}
		default:
			return fmt.Errorf("%w: key field %d has match type %q", ErrUnsupported, i, k.MatchType)
		}
		switch k.MatchType {
		case "lpm":
			if t.LPM >= 0 {
				return fmt.Errorf("%w: two lpm fields", ErrUnsupported)
			}
			kf.Kind, t.LPM = LPM, i
			t.Kind = max(t.Kind, LPM)
		case "ternary":
			kf.Kind = Ternary
			t.Kind = max(t.Kind, Ternary)
		case "range":
			kf.Kind = Range
			t.Ranges = append(t.Ranges, i)
			t.Kind = Range
		}
		kf.Width = p.Width
		var mask *big.Int
		if k.Mask != nil {
			m, err := parseHex(*k.Mask)
			if err != nil {
				return fmt.Errorf("key field %q: mask: %w", kf.Name, err)
			}
			mask = m
		}
		t.masks = append(t.masks, mask)
		t.Key = append(t.Key, p)
		t.Info.Key = append(t.Info.Key, kf)
	}
	// The table says ternary also where only its lpm field is.
	if jt.MatchType == "ternary" && t.Kind == LPM {
		t.Kind = Ternary
	}
	t.Words = layPieces(t.Key)
	if t.Words > MaxKeyWords {
		return fmt.Errorf("%w: a key of more than %d bits", ErrUnsupported, MaxKeyWords*64)
	}
	return nil
}

func (c *compiler) tableProfile(jt *jTable, t *Table, id TableID) error {
	name := jt.ActionProfile
	if name == "" {
		name = jt.ActProfName
	}
	i, ok := c.profileByName[name]
	if !ok && jt.ActionProfile == "" && name != "" { // the old format declares it here
		p := Profile{Info: ProfileInfo{Name: name, Selector: jt.Selector != nil}, Calculation: -1}
		if jt.Selector != nil {
			ca, err := c.compileCalculation(jt.Selector.Algo, jt.Selector.Input)
			if err != nil {
				return fmt.Errorf("selector: %w", err)
			}
			p.Calculation = len(c.calcs)
			c.calcUses[p.Calculation]++
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
	if jt.Type == "indirect_ws" && p.Calculation < 0 {
		return fmt.Errorf("action profile %q has no selector", name)
	}
	p.Info.Tables = append(p.Info.Tables, id)
	t.Info.Profile, t.Info.Selector = ProfileID(i), p.Calculation >= 0
	for _, a := range t.Info.Actions {
		found := false
		for _, b := range p.Actions {
			found = found || a.ID == b
		}
		if !found {
			p.Actions = append(p.Actions, a.ID)
		}
	}
	return nil
}

// entryAction resolves an action with its arguments as the JSON gives them.
func (c *compiler) entryAction(t *Table, id int, data []string) (ActionID, []uint64, error) {
	i, ok := c.actionByID[id]
	if !ok {
		return 0, nil, fmt.Errorf("there is no action with id %d", id)
	}
	a := &c.actions[i]
	if _, ok := t.IndexOf[ActionID(i)]; !ok {
		return 0, nil, fmt.Errorf("action %q is not one of the table's", a.Info.Name)
	}
	if len(data) != len(a.Params) {
		return 0, nil, fmt.Errorf("action %q has %d parameters, not %d", a.Info.Name, len(a.Params), len(data))
	}
	var args []uint64
	for k, s := range data {
		v, err := parseHex(s)
		if err != nil {
			return 0, nil, fmt.Errorf("action %q: %w", a.Info.Name, err)
		}
		v.And(v, new(big.Int).Sub(Pow2(a.Params[k].Width), bigOne))
		args = append(args, wordsOf(v, a.Params[k].Words)...)
	}
	return ActionID(i), args, nil
}

func (c *compiler) constEntries(jt *jTable, t *Table) error {
	if len(jt.Entries) == 0 {
		return nil
	}
	if t.Info.Profile >= 0 {
		return fmt.Errorf("%w: entries of a table with an action profile", ErrUnsupported)
	}
	t.Info.Size = max(t.Info.Size, len(jt.Entries))
	var ranks []int // of the priorities: BMv2's smallest number wins
	for i := range jt.Entries {
		ranks = append(ranks, jt.Entries[i].Priority)
	}
	slices.Sort(ranks)
	ranks = slices.Compact(ranks)
	for i := range jt.Entries {
		je := &jt.Entries[i]
		if len(je.MatchKey) != len(t.Key) {
			return fmt.Errorf("entry %d: %d match fields where the key has %d", i, len(je.MatchKey), len(t.Key))
		}
		e := ConstEntry{}
		if t.Kind == Ternary || t.Kind == Range {
			// As P4Runtime has it: of N entries the first has N, the next N-1, and so on.
			rank, _ := slices.BinarySearch(ranks, je.Priority)
			e.Priority = int32(len(jt.Entries) - rank)
		}
		for k := range je.MatchKey {
			m, err := constMatch(&t.Info.Key[k], je.MatchKey[k].MatchType, je.MatchKey[k].Key, je.MatchKey[k].Mask, je.MatchKey[k].PrefixLen, je.MatchKey[k].Start, je.MatchKey[k].End)
			if err != nil {
				return fmt.Errorf("entry %d: field %q: %w", i, t.Info.Key[k].Name, err)
			}
			e.Match = append(e.Match, m)
		}
		var err error
		if e.Action, e.Args, err = c.entryAction(t, je.ActionEntry.ActionID, je.ActionEntry.ActionData); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		t.Consts = append(t.Consts, e)
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
		return v.And(v, new(big.Int).Sub(Pow2(kf.Width), bigOne)).FillBytes(make([]byte, (kf.Width+7)/8)), nil
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
