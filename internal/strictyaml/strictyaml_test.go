package strictyaml

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// sample has a field of every kind that is read.
type sample struct {
	Name    string            `yaml:"name" required:"it goes into every result"`
	Count   int               `yaml:"count" was:"number"`
	Port    uint16            `yaml:"port"`
	Share   float64           `yaml:"share"`
	On      bool              `yaml:"on"`
	Level   level             `yaml:"level"`
	List    []int             `yaml:"list"`
	Params  map[string]string `yaml:"params"`
	Inner   map[string]inner  `yaml:"inner"`
	Pointer *inner            `yaml:"pointer"`
	Raw     yaml.Node         `yaml:"raw"`

	hidden int
}

type inner struct {
	ID uint32 `yaml:"id"`
}

// level is high or low.
type level bool

func (l *level) UnmarshalText(text []byte) error {
	if s := string(text); s != "high" && s != "low" {
		return fmt.Errorf("strictyaml: level %q is unknown; write high or low", s)
	}
	*l = string(text) == "high"
	return nil
}

func TestDecode(t *testing.T) {
	const text = `
name: x
count: 0x10
port: 65535
share: 0.5
on: true
level: high
list: [1, 2]
params: {a: 1, b: text}
inner: {tor0: {id: 7}, tor1: {}}
pointer: &p {id: 3}
raw: {of: *p}
`
	got := sample{hidden: 4}
	if err := Decode("f.yaml", []byte(text), "a sample", &got); err != nil {
		t.Fatal(err)
	}
	if raw := got.Raw.Content[1]; raw.Kind != yaml.MappingNode || raw.Content[1].Value != "3" {
		t.Errorf("raw: %+v, want what the alias stands for", raw)
	}
	got.Raw = yaml.Node{}
	want := sample{
		Name: "x", Count: 16, Port: math.MaxUint16, Share: 0.5, On: true, Level: true, List: []int{1, 2},
		Params: map[string]string{"a": "1", "b": "text"}, Inner: map[string]inner{"tor0": {7}, "tor1": {}}, Pointer: &inner{3}, hidden: 4,
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(sample{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "f.yaml:1:1: the file is empty; write a sample",
		"count: 1":                        "f.yaml:1:1: name: is missing; add it; it goes into every result",
		"name: x\ncuont: 1":               "f.yaml:2:1: cuont: unknown key; did you mean count? (one of name, count, port, share, on, level, list, params, inner, pointer, raw)",
		"name: x\nnumber: 1":              "f.yaml:2:1: number: unknown key; it is called count now",
		"name: x\nname: y":                "f.yaml:2:1: name: was given on line 1 already; keep one of the two",
		"name: x\nport: 65536":            `f.yaml:2:7: port: "65536" is not a whole number from 0 to 65535; write for example 4`,
		"name: x\nport: -1":               `f.yaml:2:7: port: "-1" is not a whole number from 0 to 65535; write for example 4`,
		"name: x\nlevel: mid":             `f.yaml:2:8: level: level "mid" is unknown; write high or low`,
		"name: x\nlist: 4":                `f.yaml:2:7: list: "4" where a list belongs; write one item a line, each after a dash`,
		"name: x\ninner: {tor0: {no: 1}}": "f.yaml:2:16: inner.tor0.no: unknown key; write one of id",
		"name: x\ninner: [a]":             "f.yaml:2:8: inner: a list where a mapping belongs; write key: value pairs",
		"name: x\npointer: {id: x}":       `f.yaml:2:15: pointer.id: "x" is not a whole number from 0 to 4294967295; write for example 4`,
		"name: x\n---\nname: y":           "f.yaml:2:1: a second document begins; keep one document per file",
		"name: x\n\tcount: 1":             "f.yaml:2:1: not YAML: a tab in the indentation; indent with spaces",
		"[1]":                             "f.yaml:1:1: a list where a mapping belongs; write key: value pairs (name, count, port, share, on, level, list, params, inner, pointer, raw)",
	} {
		var s sample
		err := Decode("f.yaml", []byte(text), "a sample", &s)
		if !errors.Is(err, ErrContent) {
			t.Errorf("%q: %v is no error about content", text, err)
			continue
		}
		if d := cmp.Diff(want, err.Error()); d != "" {
			t.Errorf("%q (-want +got):\n%s", text, d)
		}
	}
}

// TestAliases: what aliases stand for is bounded, also when they stand for what they
// are a part of.
func TestAliases(t *testing.T) {
	for _, text := range []string{
		"name: x\nraw: &a {b: *a}\n",
		"name: x\nraw: [&a [1,1,1,1,1,1,1,1], &b [*a,*a,*a,*a,*a,*a,*a,*a], &c [*b,*b,*b,*b,*b,*b,*b,*b], &d [*c,*c,*c,*c,*c,*c,*c,*c], " +
			"&e [*d,*d,*d,*d,*d,*d,*d,*d], [*e,*e,*e,*e,*e,*e,*e,*e]]\n",
	} {
		var s sample
		if err := Decode("f.yaml", []byte(text), "a sample", &s); err == nil || !strings.Contains(err.Error(), "too much to read") {
			t.Errorf("%.40q: %v, want that it is too much", text, err)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"collectives", "schemes", "seeds", "host"}
	for word, want := range map[string]string{
		"colectives": "collectives", "Schemes": "schemes", "sheme": "schemes", "sedes": "seeds", "hsot": "host", "zzz": "", "": "",
	} {
		if got := Nearest(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("name: x\ncount: 1\nport: 2\nlevel: low\ninner: {a: {id: 4}}\nraw: [1, {a: b}]\n"))
	f.Add([]byte("name: &a x\nparams: {*a : *a}\npointer: {<<: *a}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s sample
		err := Decode("f.yaml", data, "a sample", &s)
		var es Errors
		if err != nil && (!errors.As(err, &es) || len(es) == 0) {
			t.Fatalf("error %T %v, want Errors", err, err)
		}
		for _, e := range es {
			if e.Line < 1 || e.Problem == "" {
				t.Errorf("error without place or text: %+v", e)
			}
		}
	})
}
