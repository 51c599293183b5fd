package program

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestValues compares the reader of values with encoding/json's tree of the same bytes: over all values of the test
// programs, and over forms that p4c does not write.
func TestValues(t *testing.T) {
	values := []string{
		`{"type":"hexstr","value":"0x0a"}`, ` { "type" : "field" , "value" : [ "h" , "a\"}b" ] } `, `7`, `-7`, `7.5`, `1e2`, `"7"`, `true`, `null`, `[]`, `{}`,
		`{"value":{"op":"+","left":null,"right":{"type":"hexstr","value":"0x1"}},"type":"expression"}`,
		`{"value":{"op":"+"},"type":"header"}`, `{"type":"expression","value":3}`, `{"type":"expression","value":[3]}`, `{"type":"expression","value":null}`,
		`{"t\u0079pe":"bool","value":true}`, `{"type":null,"op":null,"bitwidth":"8"}`, `{"bitwidth":8,"cond":{"type":"bool","value":false}}`,
		`{"type":7}`, `{"op":[]}`, `{"bitwidth":1.5}`, `{"left":"x"}`, `{"left":{"right":{"type":{}}},"op":"?"}`, `{"other":{"a":["]}",{}]},"op":"x"}`,
		`{"type":"expression","value":{"left":"x"}}`, `{"type":"a","type":"b","value":1,"value":2}`,
	}
	programs, _ := filepath.Glob("../../p4src/build/*.json")
	more, _ := filepath.Glob("../interp/testdata/*.json")
	for _, name := range append(programs, more...) {
		values = append(values, valuesOf(t, name)...)
	}
	if len(values) < 3000 {
		t.Fatalf("only %d values: where are the programs?", len(values))
	}
	for _, text := range values {
		want, err := treeOf(text)
		got := new(jVal)
		if e := got.UnmarshalJSON([]byte(text)); (e == nil) != (err == nil) {
			t.Fatalf("%s: error %v, by the tree %v", text, e, err)
		}
		if err != nil {
			continue
		}
		if diff := cmp.Diff(want, plain(got)); diff != "" {
			t.Fatalf("%s: tree -, reader +:\n%s", text, diff)
		}
	}
}

// valuesOf are the outermost values of a program.
func valuesOf(t *testing.T, name string) (out []string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var j struct {
		Actions []struct {
			Primitives []struct {
				Parameters []json.RawMessage `json:"parameters"`
			} `json:"primitives"`
		} `json:"actions"`
		Pipelines []struct {
			Conditionals []struct {
				Expression json.RawMessage `json:"expression"`
			} `json:"conditionals"`
		} `json:"pipelines"`
	}
	if err := json.Unmarshal(b, &j); err != nil {
		t.Fatal(err)
	}
	for _, a := range j.Actions {
		for _, p := range a.Primitives {
			for _, v := range p.Parameters {
				out = append(out, string(v))
			}
		}
	}
	for _, p := range j.Pipelines {
		for _, c := range p.Conditionals {
			out = append(out, string(c.Expression))
		}
	}
	return out
}

// plainValue is a [jVal] as a tree tells it.
type plainValue struct {
	Type, Op, Value   string
	Bitwidth, Num     int
	Left, Right, Cond *plainValue
	Inner             *plainValue
}

func plain(v *jVal) *plainValue {
	if v == nil {
		return nil
	}
	p := &plainValue{Type: v.Type, Op: v.Op, Bitwidth: v.Bitwidth, Num: v.num,
		Left: plain(v.Left), Right: plain(v.Right), Cond: plain(v.Cond), Inner: plain(v.inner)}
	if v.inner == nil && v.Value != nil {
		var b bytes.Buffer
		json.Compact(&b, v.Value) //nolint:errcheck // what is no JSON differs from the tree's
		p.Value = b.String()
	}
	return p
}

func treeOf(text string) (*plainValue, error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	return fromTree(tree)
}

func fromTree(tree any) (*plainValue, error) {
	if n, ok := tree.(json.Number); ok {
		i, err := strconv.Atoi(n.String())
		return &plainValue{Type: "number", Num: i}, err
	}
	o, ok := tree.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("neither an object nor a number")
	}
	v := &plainValue{}
	for name, to := range map[string]*string{"type": &v.Type, "op": &v.Op} {
		if o[name] == nil {
			continue
		}
		if *to, ok = o[name].(string); !ok {
			return nil, fmt.Errorf("%q is not a string", name)
		}
	}
	var err error
	if o["bitwidth"] != nil {
		if v.Bitwidth, err = strconv.Atoi(fmt.Sprint(o["bitwidth"])); err != nil {
			return nil, err
		}
	}
	for name, to := range map[string]**plainValue{"left": &v.Left, "right": &v.Right, "cond": &v.Cond} {
		if o[name] == nil {
			continue
		}
		if *to, err = fromTree(o[name]); err != nil {
			return nil, err
		}
	}
	value, ok := o["value"]
	if !ok {
		return v, nil
	}
	if v.Type == "expression" {
		if v.Inner, err = fromTree(value); err == nil {
			return v, nil
		}
		v.Inner = nil
	}
	b, err := json.Marshal(value)
	v.Value = string(b)
	return v, err
}

// BenchmarkLoad compiles Ethereal's program from p4c's JSON.
func BenchmarkLoad(b *testing.B) {
	data, err := os.ReadFile("../../p4src/build/ethereal.json")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load(data); err != nil {
			b.Fatal(err)
		}
	}
}
