package report

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestRoundTrip(t *testing.T) {
	want := made(demoFabric, 1, 2)
	var b bytes.Buffer
	for _, r := range want {
		if err := Encode(&b, r); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(b.String(), "null,\"timeline") || !strings.Contains(b.String(), `"flip_records":[]`) {
		t.Error("a list without items is not written as a list")
	}
	got, err := Decode(&b, "memory")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestDecodeErrors(t *testing.T) {
	for text, want := range map[string]string{
		"{}\n\n{":           "x.jsonl:3: ",
		`{"cct": 1}`:        `x.jsonl:1: json: unknown field "cct"`,
		"{} {}":             "x.jsonl:1: more than one value",
		`{"seed": "seven"}`: "x.jsonl:1: ",
	} {
		_, err := Decode(strings.NewReader(text), "x.jsonl")
		if !errors.Is(err, ErrResult) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	var b bytes.Buffer
	r := made(demoFabric)[6]
	r.Links, r.Timeline = r.Links[:2], r.Timeline[:3]
	if err := Encode(&b, r); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"timeline":[{"t_us":-1,"kind":"cut"},{"t_us":1e300,"kind":"quench"}],"cct_us":-5,"bound_us":0}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rs, err := Decode(bytes.NewReader(data), "fuzz")
		if err != nil {
			return
		}
		var table, page bytes.Buffer
		if err := Table(&table, rs); err != nil {
			t.Error(err)
		}
		if err := HTML(&page, rs, Page{}); err != nil {
			t.Error(err)
		}
		for _, bad := range []string{"NaN", "Inf\""} {
			if bytes.Contains(page.Bytes(), []byte("=\""+bad)) {
				t.Errorf("the page has a coordinate that is %s", bad)
			}
		}
	})
}
