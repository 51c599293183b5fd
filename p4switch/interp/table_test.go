package interp

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

type keySpec struct {
	width int
	kind  string
}

// tableProgram has one table, keyed on metadata fields k0, k1, ..., whose
// action writes its argument to m.out and egress_spec.
func tableProgram(t testing.TB, keys []keySpec, size int) *program.Program {
	t.Helper()
	var fs, ks []string
	match := "exact"
	rank := map[string]int{"exact": 0, "lpm": 1, "ternary": 2, "range": 3}
	for i, k := range keys {
		fs = append(fs, fmt.Sprintf(`["k%d",%d]`, i, k.width))
		ks = append(ks, fmt.Sprintf(`{"match_type":%q,"name":"k%d","target":["m","k%d"],"mask":null}`, k.kind, i, i))
		if rank[k.kind] > rank[match] {
			match = k.kind
		}
	}
	src := fmt.Sprintf(`{
 "header_types":[
  {"name":"sm_t","id":0,"fields":[["ingress_port",9],["egress_spec",9],["egress_port",9],["instance_type",32],["packet_length",32]]},
  {"name":"m_t","id":1,"fields":[["out",32],%s]}],
 "headers":[{"name":"standard_metadata","id":0,"header_type":"sm_t","metadata":true},{"name":"m","id":1,"header_type":"m_t","metadata":true}],
 "parsers":[{"name":"parser","id":0,"init_state":null,"parse_states":[]}],
 "actions":[{"name":"set","id":0,"runtime_data":[{"name":"x","bitwidth":32}],"primitives":[{"op":"assign","parameters":[
   {"type":"field","value":["m","out"]},{"type":"runtime_data","value":0}]}]},
  {"name":"NoAction","id":1,"runtime_data":[],"primitives":[]}],
 "pipelines":[{"name":"ingress","init_table":"t","tables":[{"name":"t","id":0,"key":[%s],"match_type":%q,"type":"simple","max_size":%d,
   "with_counters":true,"support_timeout":true,"direct_meters":null,"action_ids":[0,1],"actions":["set","NoAction"],
   "base_default_next":null,"next_tables":{"set":null,"NoAction":null},
   "default_entry":{"action_id":1,"action_const":false,"action_data":[],"action_entry_const":false}}]}],"deparsers":[]}`,
		strings.Join(fs, ","), strings.Join(ks, ","), match, size)
	p, err := program.Load([]byte(src))
	if err != nil {
		t.Fatalf("Load: %v\n%s", err, src)
	}
	return p
}

// hit applies the table to key values; it returns what the action wrote, 0 on a miss.
func hit(s *Switch, keys []keySpec, vals []*big.Int) uint64 {
	q := s.newPacket()
	defer s.recycle(q)
	clear(q.v[s.p.PHVLo:s.p.PHVHi])
	h := &s.p.Headers[1]
	for i := range keys {
		f := &h.Type.Fields[i+1]
		copy(q.v[h.Base+f.Offset:], wordsOf(vals[i], f.Words))
	}
	s.runCode(q, s.p.Ingress)
	return q.v[h.Base+h.Type.Fields[0].Offset]
}

// matches is the reference for one entry.
func matches(keys []keySpec, e *Entry, vals []*big.Int) bool {
	for i, k := range keys {
		f, v := &e.Match[i], vals[i]
		if f.Any {
			continue
		}
		want := new(big.Int).SetBytes(f.Value)
		ok := false
		switch k.kind {
		case "exact":
			ok = v.Cmp(want) == 0
		case "lpm":
			n := uint(k.width - f.PrefixLen)
			ok = new(big.Int).Rsh(v, n).Cmp(new(big.Int).Rsh(want, n)) == 0
		case "ternary":
			m := new(big.Int).SetBytes(f.Mask)
			ok = new(big.Int).And(v, m).Cmp(new(big.Int).And(want, m)) == 0
		case "range":
			ok = v.Cmp(want) >= 0 && v.Cmp(new(big.Int).SetBytes(f.High)) <= 0
		}
		if !ok {
			return false
		}
	}
	return true
}

func TestLookupAgainstScan(t *testing.T) {
	shapes := [][]keySpec{
		{{16, "exact"}},
		{{9, "exact"}, {48, "exact"}, {7, "exact"}},
		{{32, "lpm"}},
		{{128, "lpm"}},
		{{9, "exact"}, {128, "lpm"}},
		{{32, "ternary"}},
		{{128, "ternary"}, {9, "exact"}, {32, "lpm"}},
		{{16, "range"}},
		{{16, "range"}, {8, "ternary"}, {100, "range"}},
	}
	for _, keys := range shapes {
		name := fmt.Sprint(keys)
		t.Run(name, func(t *testing.T) {
			p := tableProgram(t, keys, 64)
			rapid.Check(t, func(t *rapid.T) { lookupAgainstScan(t, p, keys) })
		})
	}
}

func lookupAgainstScan(t *rapid.T, p *program.Program, keys []keySpec) {
	s := NewSwitch(p, Config{})
	// Few distinct values, so that entries overlap.
	num := func(width int) *big.Int {
		v := new(big.Int).Lsh(big.NewInt(int64(rapid.IntRange(0, 3).Draw(t, "hi"))), uint(max(0, width-2)))
		v.Or(v, big.NewInt(int64(rapid.IntRange(0, 3).Draw(t, "lo"))))
		return v.And(v, new(big.Int).Sub(program.Pow2(width), big.NewInt(1)))
	}
	prio := keys != nil && (&p.Tables[0].Info).NeedsPriority()
	type ref struct {
		e Entry
		x uint64
	}
	live := map[Handle]ref{}
	next := uint64(1)
	target := func() (Target, uint64) {
		next++
		return Target{Call: ActionCall{Action: 0, Args: [][]byte{new(big.Int).SetUint64(next).Bytes()}}}, next
	}
	usedPrio := map[int32]bool{}
	for range rapid.IntRange(1, 40).Draw(t, "ops") {
		switch op := rapid.IntRange(0, 5).Draw(t, "op"); {
		case op <= 2:
			e := Entry{}
			for _, k := range keys {
				f := program.FieldMatch{Value: num(k.width).Bytes()}
				if len(f.Value) == 0 {
					f.Value = []byte{0}
				}
				switch k.kind {
				case "lpm":
					f.PrefixLen = rapid.SampledFrom([]int{0, 1, 2, k.width - 2, k.width - 1, k.width}).Draw(t, "plen")
				case "ternary":
					f.Mask = num(k.width).Bytes()
				case "range":
					f.High = num(k.width).Bytes()
				}
				if k.kind != "exact" && rapid.IntRange(0, 6).Draw(t, "any") == 0 {
					f = program.FieldMatch{Any: true}
				}
				e.Match = append(e.Match, f)
			}
			if prio {
				e.Priority = int32(rapid.IntRange(1, 200).Draw(t, "prio"))
				if usedPrio[e.Priority] {
					continue // equal priorities leave the winner open
				}
			}
			var x uint64
			e.Target, x = target()
			h, err := s.Insert(0, e)
			switch {
			case errors.Is(err, ErrExists):
				if _, ok := s.Find(0, e.Match, e.Priority); !ok {
					t.Fatalf("exists but is not found: %+v", e)
				}
			case errors.Is(err, ErrInvalid): // an empty range
			case err != nil:
				t.Fatalf("insert: %v", err)
			default:
				usedPrio[e.Priority] = true
				live[h] = ref{e, x}
				if got, ok := s.Find(0, e.Match, e.Priority); !ok || got != h {
					t.Fatalf("find after insert: %v %v, want %v", got, ok, h)
				}
			}
		case op == 3:
			for h, r := range live {
				if err := s.Delete(0, h); err != nil {
					t.Fatalf("delete: %v", err)
				}
				delete(live, h)
				delete(usedPrio, r.e.Priority)
				if _, err := s.Entry(0, h); !errors.Is(err, ErrNotFound) {
					t.Fatalf("deleted entry: %v", err)
				}
				break
			}
		case op == 4:
			for h, r := range live {
				var err error
				r.e.Target, r.x = target()
				if err = s.Modify(0, h, r.e.Target); err != nil {
					t.Fatalf("modify: %v", err)
				}
				live[h] = r
				break
			}
		default: // a transaction that is rolled back leaves no trace
			s.Begin()
			for h := range live {
				_ = s.Delete(0, h)
				if rapid.Bool().Draw(t, "stop") {
					break
				}
			}
			s.Rollback()
		}
		if s.Len(0) != len(live) {
			t.Fatalf("%d entries, want %d", s.Len(0), len(live))
		}
		for range 4 {
			var vals []*big.Int
			for _, k := range keys {
				vals = append(vals, num(k.width))
			}
			var want uint64
			best, bestLen := int32(-1), -1
			for _, r := range live {
				if !matches(keys, &r.e, vals) {
					continue
				}
				plen := 0
				for i, k := range keys {
					if k.kind == "lpm" && !r.e.Match[i].Any {
						plen = r.e.Match[i].PrefixLen
					}
				}
				if (prio && r.e.Priority > best) || (!prio && plen > bestLen) {
					best, bestLen, want = r.e.Priority, plen, r.x
				}
			}
			if got := hit(s, keys, vals); got != want {
				t.Fatalf("lookup %v: got %d, want %d", vals, got, want)
			}
		}
	}
}

func TestEntryReadsBack(t *testing.T) {
	keys := []keySpec{{9, "exact"}, {32, "lpm"}, {100, "ternary"}, {16, "range"}}
	s := NewSwitch(tableProgram(t, keys, 4), Config{})
	wide := bytes.Repeat([]byte{0xff}, 12)
	in := Entry{
		Match: []program.FieldMatch{
			{Value: []byte{1, 2}},
			{Value: []byte{10, 1, 255, 255}, PrefixLen: 16},
			{Value: []byte{5}, Mask: append([]byte{0x0f}, wide...)},
			{Value: []byte{3}, High: []byte{1, 0}},
		},
		Priority: 7, IdleTimeoutNs: 9,
		Target: Target{Call: ActionCall{Action: 0, Args: [][]byte{{0, 0, 0, 0, 42}}}},
	}
	h, err := s.Insert(0, in)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Entry(0, h)
	if err != nil {
		t.Fatal(err)
	}
	want := in
	want.Match = []program.FieldMatch{
		{Value: []byte{1, 2}},
		{Value: []byte{10, 1, 0, 0}, PrefixLen: 16},
		{Value: append(make([]byte, 12), 5), Mask: append([]byte{0x0f}, wide...)},
		{Value: []byte{0, 3}, High: []byte{1, 0}},
	}
	want.Target.Call.Args = [][]byte{{0, 0, 0, 42}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestInsertRefusals(t *testing.T) {
	keys := []keySpec{{9, "exact"}, {32, "lpm"}}
	s := NewSwitch(tableProgram(t, keys, 2), Config{})
	ok := func() Entry {
		return Entry{Match: []program.FieldMatch{{Value: []byte{1}}, {Value: []byte{10, 0, 0, 0}, PrefixLen: 8}},
			Target: Target{Call: ActionCall{Args: [][]byte{{1}}}}}
	}
	if _, err := s.Insert(0, ok()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Entry)
		want   error
	}{
		"twice":          {func(*Entry) {}, ErrExists},
		"wide value":     {func(e *Entry) { e.Match[0].Value = []byte{2, 0} }, ErrInvalid},
		"no exact value": {func(e *Entry) { e.Match[0] = program.FieldMatch{Any: true} }, ErrInvalid},
		"prefix length":  {func(e *Entry) { e.Match[1].PrefixLen = 33 }, ErrInvalid},
		"fields":         {func(e *Entry) { e.Match = e.Match[:1] }, ErrInvalid},
		"priority":       {func(e *Entry) { e.Priority = 1 }, ErrInvalid},
		"action":         {func(e *Entry) { e.Match[1].PrefixLen = 9; e.Target.Call.Action = 7 }, ErrInvalid},
		"arguments":      {func(e *Entry) { e.Match[1].PrefixLen = 9; e.Target.Call.Args = nil }, ErrInvalid},
		"wide argument":  {func(e *Entry) { e.Match[1].PrefixLen = 9; e.Target.Call.Args = [][]byte{{1, 0, 0, 0, 0}} }, ErrInvalid},
		"member":         {func(e *Entry) { e.Match[1].PrefixLen = 9; e.Target.Kind = ByMember }, ErrInvalid},
	} {
		e := ok()
		c.change(&e)
		if _, err := s.Insert(0, e); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if s.Len(0) != 1 {
		t.Errorf("%d entries after refusals", s.Len(0))
	}
	e := ok()
	e.Match[1].PrefixLen = 16
	if _, err := s.Insert(0, e); err != nil {
		t.Fatal(err)
	}
	e.Match[1].PrefixLen = 24
	if _, err := s.Insert(0, e); !errors.Is(err, ErrFull) {
		t.Errorf("third entry of a table of two: %v", err)
	}
	if _, err := s.Insert(9, e); !errors.Is(err, ErrNotFound) {
		t.Errorf("unknown table: %v", err)
	}
}
