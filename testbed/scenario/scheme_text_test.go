package scenario

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseScheme(t *testing.T) {
	for text, want := range map[string]Scheme{
		"ecmp":         {Name: "ecmp"},
		" drb ":        {Name: "drb"},
		"mp-rdma()":    {},
		"(a=b)":        {},
		"":             {},
		"spray(mode)":  {},
		"spray(=x)":    {},
		"spray(a=b":    {},
		"reps(a=1)b":   {},
		"x(a=1,a=2)":   {},
		"jsq(bins=)":   {Name: "jsq", Params: map[string]string{"bins": ""}},
		"reps(a=b=c )": {Name: "reps", Params: map[string]string{"a": "b=c"}},
		"switch-spray(reshuffle=0, acks=hash)": {
			Name: "switch-spray", Params: map[string]string{"reshuffle": "0", "acks": "hash"},
		},
		"jsq(bins=5,10, 20)":       {Name: "jsq", Params: map[string]string{"bins": "5,10,20"}},
		`jsq(bins="5,10,20")`:      {Name: "jsq", Params: map[string]string{"bins": "5,10,20"}},
		"x(bins=5,10,20,gap=16us)": {Name: "x", Params: map[string]string{"bins": "5,10,20", "gap": "16us"}},
	} {
		got, err := ParseScheme(text)
		if d := cmp.Diff(want, got); d != "" || (err == nil) != (want.Name != "") {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, d)
		}
		if err != nil && !strings.Contains(err.Error(), ";") {
			t.Errorf("%q: %v says no remedy", text, err)
		}
		if err != nil {
			continue
		}
		if again, err := ParseScheme(got.String()); err != nil || again.String() != got.String() {
			t.Errorf("%q: %v is read back as %v: %v", text, got, again, err)
		}
	}
}

func TestSplitSchemes(t *testing.T) {
	for text, want := range map[string][]string{
		"ecmp":       {"ecmp"},
		"ecmp, reps": {"ecmp", "reps"},
		"switch-spray(reshuffle=0,acks=hash),jsq":  {"switch-spray(reshuffle=0,acks=hash)", "jsq"},
		"drb,jsq(bins=5,10,20),spray(mode=random)": {"drb", "jsq(bins=5,10,20)", "spray(mode=random)"},
		"ecmp,": {"ecmp", ""},
		"a),b":  {"a)", "b"},
	} {
		if d := cmp.Diff(want, SplitSchemes(text)); d != "" {
			t.Errorf("%q (-want +got):\n%s", text, d)
		}
	}
}

// TestOverrideSchemes names schemes as a command line does: those of the scenario,
// by name or with parameters in any order, and others.
func TestOverrideSchemes(t *testing.T) {
	s := load(t, demo)
	s.Schemes = []Scheme{
		{Name: "jsq"}, {Name: "switch-spray", Params: map[string]string{"acks": "hash", "reshuffle": "0"}},
		{Name: "spray", Params: map[string]string{"mode": "random"}},
	}
	o, err := s.Override(Override{Schemes: []string{
		"switch-spray(reshuffle=0,acks=hash)", "spray", "jsq(bins=5,10,20)",
	}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range o.Schemes {
		got = append(got, c.String())
	}
	if d := cmp.Diff([]string{"switch-spray(acks=hash,reshuffle=0)", "spray(mode=random)", "jsq(bins=5,10,20)"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for text, want := range map[string]string{
		"jsq(bins=5":          "does not end with its parenthesis",
		"jsq(bins=a,b)":       "percentages",
		"switch-spray(packs)": "is no parameter",
		"ecmp(ways=2)":        "unknown parameter",
	} {
		if _, err := s.Override(Override{Schemes: []string{text}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
