package interp

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// The compiled expressions are checked against an evaluator that works as
// BMv2's does: on integers without bound.

type exprField struct {
	name   string
	width  int
	signed bool
}

var exprFields = []exprField{
	{"u1", 1, false}, {"u7", 7, false}, {"u8", 8, false}, {"u16", 16, false}, {"u31", 31, false}, {"u32", 32, false},
	{"u48", 48, false}, {"u63", 63, false}, {"u64", 64, false}, {"u65", 65, false}, {"u100", 100, false}, {"u128", 128, false},
	{"s8", 8, true}, {"s16", 16, true}, {"s33", 33, true}, {"s64", 64, true}, {"s100", 100, true},
}

// exprProgram is a program with one action that assigns expr to the field dst.
func exprProgram(t interface{ Fatalf(string, ...any) }, dst, expr string) *program.Program {
	var fs []string
	for _, f := range exprFields {
		fs = append(fs, fmt.Sprintf(`[%q,%d,%v]`, f.name, f.width, f.signed))
	}
	src := fmt.Sprintf(`{
 "header_types":[
  {"name":"sm_t","id":0,"fields":[["ingress_port",9],["egress_spec",9],["egress_port",9],["instance_type",32],["packet_length",32]]},
  {"name":"m_t","id":1,"fields":[%s]}],
 "headers":[{"name":"standard_metadata","id":0,"header_type":"sm_t","metadata":true},{"name":"m","id":1,"header_type":"m_t","metadata":true}],
 "parsers":[{"name":"parser","id":0,"init_state":null,"parse_states":[]}],
 "actions":[{"name":"a","id":0,"runtime_data":[],"primitives":[{"op":"assign","parameters":[
   {"type":"field","value":["m",%q]},{"type":"expression","value":%s}]}]}],
 "pipelines":[{"name":"ingress","init_table":null}],"deparsers":[]}`, strings.Join(fs, ","), dst, expr)
	p, err := program.Load([]byte(src))
	if err != nil {
		t.Fatalf("Load: %v\n%s", err, src)
	}
	return p
}

func (f exprField) truncate(v *big.Int) *big.Int {
	v = new(big.Int).And(v, new(big.Int).Sub(program.Pow2(f.width), big.NewInt(1)))
	if f.signed && v.Bit(f.width-1) == 1 {
		v.Sub(v, program.Pow2(f.width))
	}
	return v
}

// exprNode is an expression as p4c's JSON has it.
type exprNode struct {
	Type, Op          string
	Value             json.RawMessage
	Left, Right, Cond *exprNode
}

// unwrap takes off the wrappers of type expression.
func (e *exprNode) unwrap() (*exprNode, error) {
	for e != nil && e.Type == "expression" {
		in := &exprNode{}
		if err := json.Unmarshal(e.Value, in); err != nil {
			return nil, err
		}
		e = in
	}
	if e == nil {
		return nil, errors.New("operand is missing")
	}
	return e, nil
}

func parseHex(s string) (*big.Int, error) {
	v, ok := new(big.Int).SetString(strings.Replace(s, "0x", "", 1), 16)
	if !ok {
		return nil, fmt.Errorf("%q is no hexadecimal number", s)
	}
	return v, nil
}

// wordsOf is a number in n words, least significant first.
func wordsOf(v *big.Int, n int) []uint64 {
	w := make([]uint64, n)
	rest := new(big.Int).And(v, new(big.Int).Sub(program.Pow2(64*n), big.NewInt(1)))
	for i := range w {
		w[i] = new(big.Int).And(rest, new(big.Int).SetUint64(^uint64(0))).Uint64()
		rest.Rsh(rest, 64)
	}
	return w
}

// evalData and evalBool are the reference.
func evalData(t interface{ Fatalf(string, ...any) }, e *exprNode, env map[string]*big.Int) *big.Int {
	e, err := e.unwrap()
	if err != nil {
		t.Fatalf("%v", err)
	}
	r := new(big.Int)
	switch e.Type {
	case "hexstr":
		var s string
		if err := json.Unmarshal(e.Value, &s); err != nil {
			t.Fatalf("%v", err)
		}
		v, err := parseHex(s)
		if err != nil {
			t.Fatalf("%v", err)
		}
		return v
	case "field":
		var s []string
		if err := json.Unmarshal(e.Value, &s); err != nil {
			t.Fatalf("%v", err)
		}
		return env[s[1]]
	}
	d := func(x *exprNode) *big.Int { return evalData(t, x, env) }
	switch e.Op {
	case "+":
		return r.Add(d(e.Left), d(e.Right))
	case "-":
		return r.Sub(d(e.Left), d(e.Right))
	case "*":
		return r.Mul(d(e.Left), d(e.Right))
	case "&":
		return r.And(d(e.Left), d(e.Right))
	case "|":
		return r.Or(d(e.Left), d(e.Right))
	case "^":
		return r.Xor(d(e.Left), d(e.Right))
	case "~":
		return r.Not(d(e.Right))
	case "<<":
		return r.Lsh(d(e.Left), uint(d(e.Right).Uint64()))
	case ">>":
		return r.Rsh(d(e.Left), uint(d(e.Right).Uint64()))
	case "/", "%":
		x, y := d(e.Left), d(e.Right)
		if y.Sign() == 0 {
			return r
		}
		if e.Op == "/" {
			return r.Quo(x, y)
		}
		return r.Rem(x, y)
	case "two_comp_mod":
		return exprField{width: int(d(e.Right).Int64()), signed: true}.truncate(d(e.Left))
	case "usat_cast", "sat_cast":
		x, w := d(e.Left), int(d(e.Right).Int64())
		lo, hi := new(big.Int), new(big.Int).Sub(program.Pow2(w), big.NewInt(1))
		if e.Op == "sat_cast" {
			hi = new(big.Int).Sub(program.Pow2(w-1), big.NewInt(1))
			lo.Neg(program.Pow2(w - 1))
		}
		switch {
		case x.Cmp(lo) < 0:
			return lo
		case x.Cmp(hi) > 0:
			return hi
		}
		return x
	case "?":
		if evalBool(t, e.Cond, env) {
			return d(e.Left)
		}
		return d(e.Right)
	case "b2d":
		if evalBool(t, e.Right, env) {
			return big.NewInt(1)
		}
		return r
	}
	t.Fatalf("reference lacks %q", e.Op)
	return nil
}

func evalBool(t interface{ Fatalf(string, ...any) }, e *exprNode, env map[string]*big.Int) bool {
	e, err := e.unwrap()
	if err != nil {
		t.Fatalf("%v", err)
	}
	switch e.Op {
	case "and":
		return evalBool(t, e.Left, env) && evalBool(t, e.Right, env)
	case "or":
		return evalBool(t, e.Left, env) || evalBool(t, e.Right, env)
	case "not":
		return !evalBool(t, e.Right, env)
	case "d2b":
		return evalData(t, e.Right, env).Sign() != 0
	}
	c := evalData(t, e.Left, env).Cmp(evalData(t, e.Right, env))
	switch e.Op {
	case "==":
		return c == 0
	case "!=":
		return c != 0
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	case ">=":
		return c >= 0
	}
	t.Fatalf("reference lacks %q", e.Op)
	return false
}

// runExpr evaluates the program's action on the environment.
func runExpr(p *program.Program, env map[string]*big.Int, dst string) *big.Int {
	s := NewSwitch(p, Config{})
	q := s.newPacket()
	h := &p.Headers[1]
	var out program.Field
	for i, f := range exprFields {
		fd := h.Type.Fields[i]
		w := wordsOf(env[f.name], fd.Words)
		maskWords(w, f.width)
		copy(q.v[h.Base+fd.Offset:], w)
		if f.name == dst {
			out = fd
		}
	}
	s.runCode(q, p.Actions[0].PC)
	return bigOf(q.v[h.Base+out.Offset:h.Base+out.Offset+uint32(out.Words)], false)
}

func genEnv(t *rapid.T) map[string]*big.Int {
	env := map[string]*big.Int{}
	for _, f := range exprFields {
		b := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, f.name)
		switch rapid.IntRange(0, 3).Draw(t, "shape") {
		case 0:
			clear(b)
			b[15] &= 3
		case 1:
			for i := range b {
				b[i] = 0xff
			}
		}
		env[f.name] = f.truncate(new(big.Int).SetBytes(b))
	}
	return env
}

func genExpr(t *rapid.T, depth int) string {
	hex := func(v string) string { return fmt.Sprintf(`{"type":"hexstr","value":%q}`, v) }
	if depth == 0 || rapid.IntRange(0, 5).Draw(t, "leaf") == 0 {
		if rapid.Bool().Draw(t, "const") {
			n := rapid.IntRange(1, 33).Draw(t, "digits")
			d := rapid.StringMatching(fmt.Sprintf("[0-9a-f]{%d}", n)).Draw(t, "hex")
			if rapid.IntRange(0, 4).Draw(t, "neg") == 0 {
				return hex("-0x" + d)
			}
			return hex("0x" + d)
		}
		f := rapid.SampledFrom(exprFields).Draw(t, "field")
		return fmt.Sprintf(`{"type":"field","value":["m",%q]}`, f.name)
	}
	sub := func() string { return genExpr(t, depth-1) }
	wrap := func(op, l, r, c string) string {
		e := fmt.Sprintf(`{"op":%q,"left":%s,"right":%s`, op, l, r)
		if c != "" {
			e += `,"cond":` + c
		}
		return fmt.Sprintf(`{"type":"expression","value":%s}}`, e)
	}
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0, 1, 2:
		op := rapid.SampledFrom([]string{"+", "-", "*", "&", "|", "^"}).Draw(t, "op")
		return wrap(op, sub(), sub(), "")
	case 3:
		m := rapid.SampledFrom([]string{"0xff", "0xffff", "0x1ff", "0xffffffffffffffff", "0xffffffffffffffffffffffffffffffff", "0xf0"}).Draw(t, "mask")
		return wrap("&", sub(), hex(m), "")
	case 4:
		return wrap("~", "null", sub(), "")
	case 5:
		n := rapid.SampledFrom([]string{hex("0x0"), hex("0x1"), hex("0x7"), hex("0x40"), hex("0x50"), `{"type":"field","value":["m","u8"]}`}).Draw(t, "count")
		return wrap(rapid.SampledFrom([]string{"<<", ">>"}).Draw(t, "shift"), sub(), n, "")
	case 6:
		w := rapid.SampledFrom([]string{"0x8", "0x10", "0x1f", "0x20", "0x40", "0x41", "0x64"}).Draw(t, "width")
		return wrap(rapid.SampledFrom([]string{"two_comp_mod", "usat_cast", "sat_cast"}).Draw(t, "cast"), sub(), hex(w), "")
	case 7:
		return wrap("?", sub(), sub(), genBool(t, depth-1))
	case 8:
		return wrap("b2d", "null", genBool(t, depth-1), "")
	}
	f := func() string {
		return fmt.Sprintf(`{"type":"field","value":["m",%q]}`, rapid.SampledFrom(exprFields[:12]).Draw(t, "field").name)
	}
	return wrap(rapid.SampledFrom([]string{"/", "%"}).Draw(t, "div"), f(), f(), "")
}

func genBool(t *rapid.T, depth int) string {
	wrap := func(op, l, r string) string {
		return fmt.Sprintf(`{"type":"expression","value":{"op":%q,"left":%s,"right":%s}}`, op, l, r)
	}
	if depth <= 0 {
		return wrap("d2b", "null", genExpr(t, 0))
	}
	switch rapid.IntRange(0, 3).Draw(t, "bool") {
	case 0:
		return wrap("not", "null", genBool(t, depth-1))
	case 1:
		return wrap(rapid.SampledFrom([]string{"and", "or"}).Draw(t, "op"), genBool(t, depth-1), genBool(t, depth-1))
	}
	return wrap(rapid.SampledFrom([]string{"==", "!=", "<", "<=", ">", ">="}).Draw(t, "cmp"), genExpr(t, depth-1), genExpr(t, depth-1))
}

func TestExpressionsAgainstBigInts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := genExpr(t, 4)
		dst := rapid.SampledFrom(exprFields).Draw(t, "dst")
		p := exprProgram(t, dst.name, src)
		var e exprNode
		if err := json.Unmarshal([]byte(src), &e); err != nil {
			t.Fatalf("%v", err)
		}
		for range 3 {
			env := genEnv(t)
			want := evalData(t, &e, env)
			want = new(big.Int).And(want, new(big.Int).Sub(program.Pow2(dst.width), big.NewInt(1)))
			if got := runExpr(p, env, dst.name); got.Cmp(want) != 0 {
				t.Fatalf("%s = %s\n env %v\n got %x want %x", dst.name, src, env, got, want)
			}
		}
	})
}
