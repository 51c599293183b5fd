package stf

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// add executes: add TABLE [PRIORITY] FIELD:VALUE... ACTION(ARG:VALUE, ...) [= LABEL]
func (r *run) add(w []string) error {
	t, err := r.table(w[0])
	if err != nil {
		return err
	}
	info := r.prog.Tables[t].Info
	text := strings.Join(w[1:], " ")
	open := strings.IndexByte(text, '(')
	end := strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return fmt.Errorf("the action lacks its parentheses")
	}
	fields := strings.Fields(text[:open])
	if len(fields) == 0 {
		return fmt.Errorf("the action lacks a name")
	}
	e := interp.Entry{Match: make([]program.FieldMatch, len(info.Key))}
	name := fields[len(fields)-1]
	fields = fields[:len(fields)-1]
	if len(fields) > 0 && !strings.Contains(fields[0], ":") {
		n, err := strconv.ParseInt(fields[0], 0, 31)
		if err != nil {
			return fmt.Errorf("priority %q is not a number", fields[0])
		}
		if info.NeedsPriority() {
			e.Priority = int32(n)
		}
		fields = fields[1:]
	}
	for i, k := range info.Key {
		// What is not mentioned: 0 in an exact field, anything in others.
		e.Match[i] = program.FieldMatch{Any: k.Kind != program.Exact, Value: []byte{0}}
	}
	for _, f := range fields {
		key, val, ok := strings.Cut(f, ":")
		if !ok {
			return fmt.Errorf("%q is not FIELD:VALUE", f)
		}
		i, err := keyField(info.Key, key)
		if err != nil {
			return err
		}
		if e.Match[i], err = match(info.Key[i], val); err != nil {
			return fmt.Errorf("field %q: %w", key, err)
		}
	}
	if e.Target, err = r.action(info, name, text[open+1:end]); err != nil {
		return err
	}
	h, err := r.sw.Insert(t, e)
	if name, ok := strings.CutPrefix(strings.TrimSpace(text[end+1:]), "="); ok {
		r.labels[strings.TrimSpace(name)] = entryLabel{t, h}
	}
	return err
}

func (r *run) setDefault(w []string) error {
	t, err := r.table(w[0])
	if err != nil {
		return err
	}
	text := strings.Join(w[1:], " ")
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return fmt.Errorf("the action lacks its parentheses")
	}
	g, err := r.action(r.prog.Tables[t].Info, strings.TrimSpace(text[:open]), text[open+1:end])
	if err != nil {
		return err
	}
	return r.sw.SetDefault(t, g)
}

func (r *run) removeAll(w []string) error {
	if strings.ToLower(w[0]) != "all" {
		return fmt.Errorf("only all can be removed")
	}
	for t := range r.prog.Tables {
		var hs []interp.Handle
		for h, e := range r.sw.Entries(program.TableID(t)) {
			if !e.Const {
				hs = append(hs, h)
			}
		}
		for _, h := range hs {
			if err := r.sw.Delete(program.TableID(t), h); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) table(name string) (program.TableID, error) {
	return find("table", name, r.prog.TableByName, namesOf(r.prog.Tables, func(t program.Table) string { return t.Info.Name }))
}

var stackIndex = regexp.MustCompile(`^(.*)\$([0-9]+)(.*)$`)

// keyField finds a key field by the name that a script gives it.
func keyField(key []program.KeyField, name string) (int, error) {
	if m := stackIndex.FindStringSubmatch(name); m != nil {
		name = m[1] + "[" + m[2] + "]" + m[3]
	}
	is := func(n string) int { return slices.IndexFunc(key, func(k program.KeyField) bool { return k.Name == n }) }
	for _, n := range []string{name, name + "$", name + ".$valid$", strings.TrimSuffix(name, "valid") + "$valid$"} {
		if i := is(n); i >= 0 {
			return i, nil
		}
	}
	at := slices.IndexFunc(key, func(k program.KeyField) bool {
		return strings.HasSuffix(k.Name, "."+name) || strings.HasSuffix(k.Name, "."+name+"$") ||
			(name == "valid" && strings.HasSuffix(k.Name, "$valid$"))
	})
	if at < 0 {
		return 0, fmt.Errorf("the key has no field %q, only %v", name, namesOf(key, func(k program.KeyField) string { return k.Name }))
	}
	return at, nil
}

// value reads a number whose digits may be *; mask has ones where they are not.
func value(s string) (val, mask []byte, err error) {
	base, bits := 10, 0
	d := s
	for p, b := range map[string]int{"0x": 16, "0b": 2, "0o": 8} {
		if t, ok := strings.CutPrefix(strings.ToLower(s), p); ok {
			d, base = t, b
			bits = map[int]int{16: 4, 2: 1, 8: 3}[b]
		}
	}
	v, ok := new(big.Int).SetString(strings.ReplaceAll(d, "*", "0"), base)
	if !ok || v.Sign() < 0 || (bits == 0 && strings.Contains(d, "*")) {
		return nil, nil, fmt.Errorf("%q is not a number", s)
	}
	m := new(big.Int)
	for _, c := range d {
		m.Lsh(m, uint(bits))
		if c != '*' {
			m.Or(m, big.NewInt(1<<bits-1))
		}
	}
	return v.Bytes(), m.Bytes(), nil
}

// match reads a field's value as its kind has it.
func match(k program.KeyField, s string) (program.FieldMatch, error) {
	var m program.FieldMatch
	head, tail, slash := strings.Cut(s, "/")
	v, mask, err := value(head)
	if err != nil {
		return m, err
	}
	m.Value = v
	if len(v) == 0 {
		m.Value = []byte{0}
	}
	switch k.Kind {
	case program.LPM:
		m.PrefixLen = k.Width
		if slash {
			if m.PrefixLen, err = strconv.Atoi(tail); err != nil {
				return m, fmt.Errorf("prefix length %q is not a number", tail)
			}
		} else if i := strings.IndexByte(head, '*'); i > 1 {
			m.PrefixLen = i - 2
			if strings.HasPrefix(head, "0x") {
				m.PrefixLen *= 4
			}
		}
	case program.Ternary, program.Optional:
		if len(mask) > 0 { // of a number with a base: the digits that are given
			fit := new(big.Int).SetBytes(mask)
			fit.And(fit, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(k.Width)), big.NewInt(1)))
			m.Mask = fit.FillBytes(make([]byte, (k.Width+7)/8))
		}
	case program.Range:
		m.High = m.Value
	}
	return m, nil
}

func (r *run) action(info program.TableInfo, name, args string) (interp.Target, error) {
	at := slices.IndexFunc(info.Actions, func(a program.ActionInfo) bool { return a.Name == name })
	if at < 0 {
		var err error
		if at, err = bySuffix("action", name, namesOf(info.Actions, func(a program.ActionInfo) string { return a.Name })); err != nil {
			return interp.Target{}, err
		}
	}
	a := info.Actions[at]
	c := interp.ActionCall{Action: a.ID, Args: make([][]byte, len(a.Params))}
	given := 0
	for arg := range strings.SplitSeq(args, ",") {
		if arg = strings.TrimSpace(arg); arg == "" {
			continue
		}
		n, v, ok := strings.Cut(arg, ":")
		i := slices.IndexFunc(a.Params, func(p program.Param) bool { return p.Name == strings.TrimSpace(n) })
		if !ok || i < 0 {
			return interp.Target{}, fmt.Errorf("action %q has no parameter %q", a.Name, n)
		}
		b, _, err := value(strings.TrimSpace(v))
		if err != nil {
			return interp.Target{}, err
		}
		c.Args[i] = b
		given++
	}
	if given != len(a.Params) {
		return interp.Target{}, fmt.Errorf("action %q has %d parameters, %d are given", a.Name, len(a.Params), given)
	}
	return interp.Target{Call: c}, nil
}

var counterCheck = regexp.MustCompile(`^([\w.$\[\]]+) *\( *(\$?\w+) *\)(?: +(bytes|packets) *(==|!=|<=|<|>=|>) *(\w+))?$`)

// checkCounter executes: check_counter NAME(INDEX) packets == N, or of a direct counter NAME($LABEL)
func (r *run) checkCounter(line int, s string) error {
	m := counterCheck.FindStringSubmatch(s)
	if m == nil {
		return fmt.Errorf("%q is not NAME(INDEX) or NAME($LABEL) packets|bytes OP NUMBER", s)
	}
	p, b, err := r.counter(m[1], m[2])
	if err != nil || m[3] == "" {
		return err
	}
	got := p
	if m[3] == "bytes" {
		got = b
	}
	n, err := number(m[5], 32)
	if err != nil {
		return err
	}
	want := uint64(n)
	ok := map[string]bool{"==": got == want, "!=": got != want, "<": got < want, "<=": got <= want, ">": got > want, ">=": got >= want}[m[4]]
	if !ok {
		r.failf("line %d: counter %s(%s): %s is %d, expected %s %d", line, m[1], m[2], m[3], got, m[4], want)
	}
	return nil
}

// counter reads a counter at an index or at the entry with a label.
func (r *run) counter(name, at string) (packets, bytes uint64, err error) {
	if of, ok := strings.CutPrefix(at, "$"); ok {
		l, ok := r.labels[of]
		if !ok {
			return 0, 0, fmt.Errorf("no entry has the label %q; write = %s behind its add", of, of)
		}
		if full := r.prog.Tables[l.table].Info.DirectCounter; full != name && !strings.HasSuffix(full, "."+name) {
			return 0, 0, fmt.Errorf("%q is no direct counter of table %s", name, r.prog.Tables[l.table].Info.Name)
		}
		return r.sw.DirectCounter(l.table, l.entry)
	}
	id, err := find("counter", name, r.prog.CounterByName, namesOf(r.prog.Counters, func(c program.CounterInfo) string { return c.Name }))
	if err != nil {
		return 0, 0, err
	}
	idx, err := number(at, 31)
	if err != nil {
		return 0, 0, err
	}
	return r.sw.Counter(id, int(idx))
}
