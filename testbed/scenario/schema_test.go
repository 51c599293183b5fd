package scenario

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/goldentest"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// schema is a JSON schema, as far as ours uses them.
type schema struct {
	Ref                  string             `json:"$ref"`
	Type                 any                `json:"type"` // a name or several
	Description          string             `json:"description"`
	Default              any                `json:"default"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties any                `json:"additionalProperties"`
	Required             []string           `json:"required"`
	Items                *schema            `json:"items"`
	MinItems             int                `json:"minItems"`
	MinLength            int                `json:"minLength"`
	AnyOf                []*schema          `json:"anyOf"`
	Enum                 []any              `json:"enum"`
	Pattern              string             `json:"pattern"`
	Minimum              *float64           `json:"minimum"`
	Maximum              *float64           `json:"maximum"`
	ExclusiveMinimum     *float64           `json:"exclusiveMinimum"`
	Title                string             `json:"title"`
	Schema               string             `json:"$schema"`
	Defs                 map[string]*schema `json:"$defs"`
}

const schemaFile = "../scenarios/scenario.schema.json"

func readSchema(t *testing.T) *schema {
	t.Helper()
	file, err := os.Open(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	dec := json.NewDecoder(file)
	dec.DisallowUnknownFields() // a keyword that this test would ignore
	var s schema
	if err := dec.Decode(&s); err != nil {
		t.Fatal(err)
	}
	return &s
}

func (s *schema) resolve(root *schema) *schema {
	if s.Ref == "" {
		return s
	}
	return root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")]
}

// find returns s, or the one of its alternatives, that describes an object or
// list.
func (s *schema) find(root *schema, typ string) *schema {
	s = s.resolve(root)
	if s.Type == typ {
		return s
	}
	for _, a := range s.AnyOf {
		if f := a.find(root, typ); f != nil {
			return f
		}
	}
	return nil
}

// TestSchemaKeys walks the Go types and the schema together: the same keys,
// required keys and defaults.
func TestSchemaKeys(t *testing.T) {
	root := readSchema(t)
	walkSchema(t, root, root, reflect.ValueOf(Default()), "")
}

func walkSchema(t *testing.T, root, s *schema, v reflect.Value, path string) {
	object := s.find(root, "object")
	if object == nil {
		t.Fatalf("%s: the schema has no object here", path)
	}
	if object.AdditionalProperties != false {
		t.Errorf("%s: the schema lets unknown keys through", path)
	}
	var keys, required []string
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if key == "-" {
			continue
		}
		keys = append(keys, key)
		_, must := f.Tag.Lookup("required")
		if must || f.Type == reflect.TypeFor[string]() && key == "kind" {
			required = append(required, key)
		}
		p := path + "." + key
		prop := object.Properties[key]
		if prop == nil {
			t.Errorf("%s: not in the schema", p)
			continue
		}
		if prop.Description == "" && prop.resolve(root).Description == "" && prop.resolve(root).Type != "object" {
			t.Errorf("%s: no description in the schema", p)
		}
		checkDefault(t, prop, v.Field(i), p)
		switch ft := f.Type; {
		case ft.Kind() == reflect.Struct && ft != reflect.TypeFor[Amount]():
			walkSchema(t, root, prop, v.Field(i), p)
		case ft != reflect.TypeFor[Moments]() && ft.Kind() == reflect.Slice && ft.Elem().Kind() == reflect.Struct:
			walkSchema(t, root, prop.find(root, "array").Items, reflect.Zero(ft.Elem()), p+"[]")
		}
	}
	slices.Sort(keys)
	slices.Sort(required)
	if got := slices.Sorted(maps.Keys(object.Properties)); !slices.Equal(got, keys) {
		t.Errorf("%s: the schema has keys %v, the package %v", path, got, keys)
	}
	if got := slices.Sorted(slices.Values(object.Required)); !slices.Equal(got, required) {
		t.Errorf("%s: the schema requires %v, the package %v", path, got, required)
	}
}

// checkDefault compares a schema's default with the value in Default.
func checkDefault(t *testing.T, s *schema, v reflect.Value, path string) {
	if s.Default == nil {
		return
	}
	var want string
	switch d := s.Default.(type) {
	case string:
		want = d
	default:
		want = fmt.Sprint(d)
	}
	got := fmt.Sprint(v.Interface())
	switch x := v.Interface().(type) {
	case Seeds:
		got = strings.Trim(got, "[]")
	case fabric.Rate: // zero means what New fills in
		if x == 0 {
			got = fabric.DefaultRate.String()
		}
	case fabric.Bytes:
		var b fabric.Bytes
		if err := b.UnmarshalText([]byte(want)); err != nil {
			t.Errorf("%s: default %q: %v", path, want, err)
		}
		want = b.String()
	case fabric.Time:
		var w fabric.Time
		if err := w.UnmarshalText([]byte(want)); err != nil {
			t.Errorf("%s: default %q: %v", path, want, err)
		}
		if want = w.String(); x == 0 {
			got = fabric.DefaultDelay.String()
		}
	}
	if got != want {
		t.Errorf("%s: default %s in the schema, %s in the package", path, want, got)
	}
}

// schemaEnums are the schema's lists of names, by where they stand.
func schemaEnums() map[string][]string {
	notifiers := []string{string(NotifyTimeout), string(NotifyQuench), string(NotifyGNMI), string(NotifyAll)}
	return map[string][]string{
		"properties preset":                         presetNames(),
		"properties opponents":                      OpponentForms(),
		"properties schemes items anyOf 0":          SchemeNames(),
		"$defs scheme properties name":              SchemeNames(),
		"$defs collective properties kind":          collectiveKinds(),
		"$defs collective properties algorithm":     collective.Algorithms(collective.AllReduce),
		"$defs servers properties wiring":           {string(Rack), string(Rail)},
		"$defs servers properties cross_rail":       {string(BySpine), string(ByServer)},
		"$defs fabric properties kind":              {fabric.KindFatTree, fabric.KindLeafSpine, fabric.KindDragonfly},
		"$defs host properties congestion_control":  Controls(),
		"$defs host properties receiver":            Receivers(),
		"$defs host properties completion":          {string(OnArrival), string(OnAck)},
		"$defs host properties carrier":             Carriers(),
		"$defs event properties action":             actionNames(),
		"$defs event properties direction":          {string(Upward), string(Downward)},
		"properties notifiers items":                notifiers,
		"properties fast_forward":                   {string(Repeats)},
		"$defs failure properties notifiers items":  notifiers,
		"$defs expectation properties that":         measureNames(),
		"$defs expectation properties worlds items": WorldNames(),
	}
}

// TestSchemaEnums holds the schema's lists of names to the registries; -rewrite writes them.
func TestSchemaEnums(t *testing.T) {
	text, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node // JSON is YAML, and a node knows its place
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	lines, enums := strings.Split(string(text), "\n"), schemaEnums()
	var walk func(n *yaml.Node, path string)
	walk = func(n *yaml.Node, path string) {
		for i, c := range n.Content {
			switch {
			case n.Kind == yaml.SequenceNode:
				walk(c, path+" "+strconv.Itoa(i))
			case i%2 == 0:
			case n.Content[i-1].Value != "enum":
				walk(c, strings.TrimSpace(path+" "+n.Content[i-1].Value))
			default:
				names, err := json.Marshal(enums[path])
				if err != nil || enums[path] == nil {
					t.Fatalf("%s: the package has no such list (%v)", path, err)
				}
				line := &lines[c.Line-1]
				from := len((*line)[:strings.Index(*line, `"enum": [`)]) + len(`"enum": `)
				to := from + strings.Index((*line)[from:], "]") + 1
				*line = (*line)[:from] + strings.ReplaceAll(string(names), ",", ", ") + (*line)[to:]
				delete(enums, path)
			}
		}
	}
	walk(doc.Content[0], "")
	for path := range enums {
		t.Errorf("%s: the schema has no list of names", path)
	}
	goldentest.Compare(t, schemaFile, strings.Join(lines, "\n"))
}

// TestSchemaAccepts checks every good scenario against the schema, and that the
// schema refuses what the file of misspelt keys has.
func TestSchemaAccepts(t *testing.T) {
	root := readSchema(t)
	check := func(path string) []string {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := yaml.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		return root.violations(root, v, "")
	}
	for _, path := range scenarioFiles(t) {
		if got := check(path); len(got) > 0 {
			t.Errorf("%s: %s", path, strings.Join(got, "\n"))
		}
	}
	for _, name := range []string{"typos", "types", "missing", "list", "nothing"} {
		if got := check("testdata/bad/" + name + ".yaml"); len(got) == 0 {
			t.Errorf("%s.yaml: the schema has no complaint", name)
		}
	}
}

// violations says how v breaks the schema.
func (s *schema) violations(root *schema, v any, path string) []string {
	bad := func(format string, args ...any) []string { return []string{path + ": " + fmt.Sprintf(format, args...)} }
	if s.Ref != "" {
		s = s.resolve(root)
	}
	if len(s.AnyOf) > 0 {
		var all []string
		for _, a := range s.AnyOf {
			out := a.violations(root, v, path)
			if len(out) == 0 {
				return nil
			}
			all = append(all, out...)
		}
		return all
	}
	if n, ok := v.(int); ok {
		v = float64(n)
	}
	if s.Type != nil && !slices.Contains(names(s.Type), typeOf(v)) && (typeOf(v) != "integer" || !slices.Contains(names(s.Type), "number")) {
		return bad("%v is not a %v", v, s.Type)
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		return bad("%v is not one of %v", v, s.Enum)
	}
	var out []string
	switch x := v.(type) {
	case string:
		if len(x) < s.MinLength || s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(x) {
			return bad("%q does not match %q", x, s.Pattern)
		}
	case float64:
		if s.Minimum != nil && x < *s.Minimum || s.Maximum != nil && x > *s.Maximum || s.ExclusiveMinimum != nil && x <= *s.ExclusiveMinimum {
			return bad("%v is out of range", x)
		}
	case []any:
		if len(x) < s.MinItems {
			return bad("is too short")
		}
		for i, e := range x {
			out = append(out, s.Items.violations(root, e, path+"["+strconv.Itoa(i)+"]")...)
		}
	case map[string]any:
		for _, k := range s.Required {
			if _, ok := x[k]; !ok {
				out = append(out, bad("%s is missing", k)...)
			}
		}
		for k, e := range x {
			if p := s.Properties[k]; p != nil {
				out = append(out, p.violations(root, e, path+"."+k)...)
			} else if s.AdditionalProperties == false {
				out = append(out, bad("%s is unknown", k)...)
			}
		}
	}
	return out
}

func names(t any) []string {
	if s, ok := t.(string); ok {
		return []string{s}
	}
	var out []string
	for _, n := range t.([]any) {
		out = append(out, n.(string))
	}
	return out
}

func typeOf(v any) string {
	switch x := v.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if x == math.Trunc(x) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "null"
}
