package program

import (
	"fmt"
	"math/big"
	"slices"
)

// Table is a compiled table.
type Table struct {
	Info        TableInfo
	Key         []KeyPiece
	masks       []*big.Int // static masks of the key fields, nil: none
	Words       int
	Kind        MatchKind // Exact, LPM, Ternary or Range: how it is matched
	LPM         int       // index of the LPM field in the key, or -1
	Ranges      []int     // indices of the range fields in the key
	nextHit     []int32   // program counters by index into info.Actions
	nextDef     []int32   // the same after a miss
	MissPC      int32     // where to continue after a miss without a default action
	ArgMax      int       // number of slots of the longest argument list
	Default     int       // default action, as an index into info.Actions, or -1
	DefaultArgs []uint64
	IndexOf     map[ActionID]int
	Consts      []ConstEntry
	MeterTo     Place // where the direct meter writes the colour
	Timeout     bool
	KeyMask     []uint64      // the static masks as a mask of the packed key, nil: none
	Actions     []TableAction // by index into info.Actions
	Local       []int32       // index into info.Actions by ActionID, -1: not the table's
}

// ConstEntry is a table entry defined by the P4 program.
type ConstEntry struct {
	Match    []FieldMatch
	Priority int32
	Action   ActionID
	Args     []uint64
}

// TableAction is the code and jump targets of one of a table's actions.
type TableAction struct {
	PC    uint32 // address of the action's code
	Words int32  // number of slots of the arguments
	Hit   int32  // address at which the pipeline continues after a hit
	Miss  int32  // where to continue after a miss
}

// Profile is a compiled action profile.
type Profile struct {
	Info        ProfileInfo
	Calculation int // index of the selector's hash, or -1
	Actions     []ActionID
}

// compilePipeline compiles one control into code; it returns where it starts.
func (c *compiler) compilePipeline(name string) (uint32, error) {
	var jp *jPipeline
	for i := range c.j.Pipelines {
		if c.j.Pipelines[i].Name == name {
			jp = &c.j.Pipelines[i]
		}
	}
	if jp == nil || jp.InitTable == nil {
		return uint32(c.emitInst(Inst{Op: OpHalt})), nil
	}
	nodes, err := c.controlNodes(jp)
	if err != nil {
		return 0, err
	}
	order, err := topological(nodes, *jp.InitTable)
	if err != nil {
		return 0, err
	}
	start := len(c.code)
	pcs := map[string]int32{}
	var l links
	for k, name := range order {
		n := nodes[name]
		pcs[name] = int32(len(c.code))
		follows := func(t *string) bool { return t != nil && k+1 < len(order) && order[k+1] == *t }
		switch {
		case n.cond != nil:
			err = c.compileConditional(name, n, follows, &l)
		case n.table != nil:
			err = c.compileTableNode(name, n, follows, &l)
		case n.call != nil:
			i, ok := c.actionByID[n.call.ActionID]
			if !ok || len(c.actions[i].Params) > 0 {
				return 0, fmt.Errorf("action call %q: there is no action with id %d, or it has parameters", name, n.call.ActionID)
			}
			// Inline: the action's code runs and returns here.
			l.code = append(l.code, pendingLink{pc: c.emitInst(Inst{Op: OpCallAction, A: c.actions[i].PC}), target: n.call.NextNode})
		}
		if err != nil {
			return 0, err
		}
	}
	end := int32(c.emitInst(Inst{Op: OpHalt}))
	l.resolveLinks(c.code, pcs, end)
	if len(order) == 0 {
		return uint32(end), nil
	}
	return uint32(start), nil
}

// controlNodes returns the tables, conditionals and calls of a control by name.
func (c *compiler) controlNodes(jp *jPipeline) (map[string]node, error) {
	nodes := map[string]node{}
	add := func(n string, x node) error {
		if _, dup := nodes[n]; dup {
			return fmt.Errorf("node %q is declared twice", n)
		}
		nodes[n] = x
		return nil
	}
	for i := range jp.Tables {
		t := &jp.Tables[i]
		if err := add(t.Name, node{table: t, id: c.tableIndex[t.Name]}); err != nil {
			return nil, err
		}
	}
	for i := range jp.Conditionals {
		if err := add(jp.Conditionals[i].Name, node{cond: &jp.Conditionals[i]}); err != nil {
			return nil, err
		}
	}
	for i := range jp.ActionCalls {
		if err := add(jp.ActionCalls[i].Name, node{call: &jp.ActionCalls[i]}); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// links are the jumps to nodes whose addresses are not known yet; no name: the end of the pipeline.
type links struct {
	code   []pendingLink
	tables []tabFix
}

type pendingLink struct {
	pc     int
	target *string
}

type tabFix struct {
	at     *int32
	target *string
}

func (l *links) resolveLinks(code []Inst, pcs map[string]int32, end int32) {
	where := func(t *string) int32 {
		if t == nil {
			return end
		}
		return pcs[*t]
	}
	for _, f := range l.code {
		code[f.pc].Imm = uint64(where(f.target))
	}
	for _, f := range l.tables {
		*f.at = where(f.target)
	}
}

func (c *compiler) compileConditional(name string, n node, follows func(*string) bool, l *links) error {
	t, f := n.cond.TrueNext, n.cond.FalseNext
	sense := follows(f)
	away, stay := f, t
	if sense {
		away, stay = t, f
	}
	jumps, err := c.jumpIf(&n.cond.Expression, sense)
	if err != nil {
		return fmt.Errorf("conditional %q: %w", name, err)
	}
	c.freeTemps()
	for _, j := range jumps {
		l.code = append(l.code, pendingLink{pc: j, target: away})
	}
	if !follows(stay) {
		l.code = append(l.code, pendingLink{pc: c.emitInst(Inst{Op: OpJmp}), target: stay})
	}
	return nil
}

func (c *compiler) compileTableNode(name string, n node, follows func(*string) bool, l *links) error {
	t := &c.tables[n.id]
	if next, ok := c.inlineTable(n.table, t); ok {
		if !follows(next) {
			l.code = append(l.code, pendingLink{pc: c.emitInst(Inst{Op: OpJmp}), target: next})
		}
		t.MissPC = -1
		return nil
	}
	c.emitInst(Inst{Op: OpTable, Imm: uint64(n.id)})
	hit, hasHit := n.table.NextTables["__HIT__"]
	miss := n.table.NextTables["__MISS__"]
	t.nextHit = make([]int32, len(t.Info.Actions))
	t.nextDef = make([]int32, len(t.Info.Actions))
	for i, a := range t.Info.Actions {
		h, m := hit, miss
		if !hasHit {
			var ok bool
			if h, ok = n.table.NextTables[a.Name]; !ok {
				return fmt.Errorf("table %q: next_tables lacks the action %q", name, a.Name)
			}
			m = h
		}
		l.tables = append(l.tables, tabFix{&t.nextHit[i], h}, tabFix{&t.nextDef[i], m})
	}
	if !hasHit {
		miss = n.table.BaseNext
	}
	l.tables = append(l.tables, tabFix{&t.MissPC, miss})
	return nil
}

// inlineTable puts a table that can only ever run one action, as the compiler
// makes them for statements, into the code.
func (c *compiler) inlineTable(jt *jTable, t *Table) (next *string, ok bool) {
	if len(t.Key) > 0 || t.Default < 0 || !t.Info.ConstDefault || t.Info.Profile >= 0 {
		return nil, false
	}
	a := t.Info.Actions[t.Default]
	next, ok = jt.NextTables["__MISS__"]
	if !ok {
		if next, ok = jt.NextTables[a.Name]; !ok {
			return nil, false
		}
	}
	return next, c.inlineAction(a.ID, t.DefaultArgs)
}

type node struct {
	table *jTable
	cond  *jConditional
	call  *jActionCall
	id    int
}

func (n node) successors() []*string {
	switch {
	case n.cond != nil:
		return []*string{n.cond.TrueNext, n.cond.FalseNext}
	case n.call != nil:
		return []*string{n.call.NextNode}
	}
	names := make([]string, 0, len(n.table.NextTables))
	for k := range n.table.NextTables {
		names = append(names, k)
	}
	slices.Sort(names)
	var out []*string
	for _, k := range names {
		out = append(out, n.table.NextTables[k])
	}
	return append(out, n.table.BaseNext)
}

// topological orders the nodes reachable from start so that each comes before
// those it leads to. A cycle is an error: it would never end.
func topological(nodes map[string]node, start string) ([]string, error) {
	const busy, done = 1, 2
	state := map[string]int{}
	var order []string
	type frame struct {
		name string
		next []*string
	}
	push := func(stack []frame, n string) ([]frame, error) {
		x, ok := nodes[n]
		if !ok {
			return nil, fmt.Errorf("there is no table, conditional or action call %q", n)
		}
		state[n] = busy
		return append(stack, frame{n, x.successors()}), nil
	}
	st, err := push(nil, start)
	if err != nil {
		return nil, err
	}
	for len(st) > 0 {
		f := &st[len(st)-1]
		if len(f.next) == 0 {
			state[f.name] = done
			order = append(order, f.name)
			st = st[:len(st)-1]
			continue
		}
		n := f.next[len(f.next)-1] // last first: the first branch then follows its parent
		f.next = f.next[:len(f.next)-1]
		if n == nil || state[*n] == done {
			continue
		}
		if state[*n] == busy {
			return nil, fmt.Errorf("control flow loops through %q", *n)
		}
		if st, err = push(st, *n); err != nil {
			return nil, err
		}
	}
	slices.Reverse(order)
	return order, nil
}
