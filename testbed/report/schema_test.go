package report

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

type schema struct {
	Type        any                `json:"type"`
	Description string             `json:"description"`
	Required    []string           `json:"required"`
	Properties  map[string]*schema `json:"properties"`
	Additional  *bool              `json:"additionalProperties"`
	Items       *schema            `json:"items"`
	Enum        []string           `json:"enum"`
}

// TestSchema walks the Result type and its schema together.
func TestSchema(t *testing.T) {
	data, err := os.ReadFile("result.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s schema
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	walk(t, &s, reflect.TypeFor[Result](), "")
	for _, c := range []struct {
		got  []string
		want []string
	}{
		{s.Properties["timeline"].Items.Properties["kind"].Enum, texts(Kinds())},
		{s.Properties["end"].Enum, texts([]End{Finished, Deadline, Stalled, Interrupted})},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("the schema has %v, the package %v", c.got, c.want)
		}
	}
}

// TestLostMeansOneThing: the schema, the table and the page define it alike.
func TestLostMeansOneThing(t *testing.T) {
	data, err := os.ReadFile("result.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s schema
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	if got := s.Properties["lost_to_failure"].Description; got != lostMeans {
		t.Errorf("the schema says %q, the page %q", got, lostMeans)
	}
}

func texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

func walk(t *testing.T, s *schema, typ reflect.Type, path string) {
	if s.Additional == nil || *s.Additional {
		t.Errorf("%s: the schema lets unknown keys through", path)
	}
	var keys []string
	for f := range typ.Fields() {
		key := f.Tag.Get("json")
		keys = append(keys, key)
		p := s.Properties[key]
		if p == nil || p.Description == "" {
			t.Errorf("%s.%s: not described in the schema", path, key)
			continue
		}
		if got, want := fmt.Sprint(p.Type), jsonType(f.Type); got != want {
			t.Errorf("%s.%s: type %s in the schema, %s in the package", path, key, got, want)
		}
		if f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct {
			walk(t, p, f.Type.Elem(), path+"."+key)
		}
		if f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct {
			walk(t, p.Items, f.Type.Elem(), path+"."+key+"[]")
		}
	}
	if len(s.Properties) != len(keys) {
		t.Errorf("%s: %d keys in the schema, %d in the package", path, len(s.Properties), len(keys))
	}
	if !slices.Equal(s.Required, keys) {
		t.Errorf("%s: the schema requires %v, the package writes %v", path, s.Required, keys)
	}
}

func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return "[" + jsonType(t.Elem()) + " null]"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "array"
	case reflect.Struct, reflect.Map:
		return "object"
	}
	return "integer"
}

// TestKeys holds the keys that every consumer of the JSON may rely on.
func TestKeys(t *testing.T) {
	var b strings.Builder
	r := made(demoFabric)[5]
	if err := Encode(&b, r); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n"); n != 1 || !strings.HasSuffix(b.String(), "\n") {
		t.Errorf("%d lines, want 1", n)
	}
	dec := json.NewDecoder(strings.NewReader(b.String()))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"scenario", "scheme", "collective", "notifier", "seed", "cct_us", "bound_us",
		"uplink_bytes_max", "uplink_bytes_mean", "qps_per_host_max", "drops", "retransmissions", "lost_to_failure",
		"last_flip_us", "events_sha256"} {
		got, err := dec.Token()
		if err != nil || got != want {
			t.Fatalf("key %v (%v), want %s", got, err, want)
		}
		v, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		if want == "cct_us" && v != nil {
			t.Errorf("cct_us is %v for a run that did not finish, want null", v)
		}
	}
}
