package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/internal/goldentest"
)

func TestTable(t *testing.T) {
	seeds := made(demoFabric, 1, 2)[:4]
	odd := made(demoFabric)[:2]
	odd[0].CCT, odd[0].End, odd[0].EndTime, odd[0].Bound = nil, Stalled, 12.5, nil
	odd[1].CCT, odd[1].End, odd[1].Scheme = nil, Interrupted, "reps(entropies=8)"
	for name, rs := range map[string][]*Result{"demo": made(demoFabric), "seeds": seeds, "odd": odd, "none": nil} {
		var b bytes.Buffer
		if err := Table(&b, rs); err != nil {
			t.Fatal(err)
		}
		goldentest.Compare(t, "testdata/"+name+".txt", b.Bytes())
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.1234: "0.123", 1.5: "1.500", 12.345: "12.35", 318.06: "318.1", 20000: "20000", -12.5: "-12.50"} {
		if got := fourDigits(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

// Times of a slow fabric are in seconds, and sizes that no unit divides are rounded.
func TestTableUnits(t *testing.T) {
	us := func(v float64) *float64 { return &v }
	var b bytes.Buffer
	slow := &Result{Scenario: "s", Failure: "healthy", Notifier: "none", Scheme: "ethereal", Seed: 1, Collective: "mygpt", Bytes: 3422552064,
		CCT: us(2577844.3), Bound: us(1e6)}
	if err := Table(&b, []*Result{slow}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mygpt 3.423 GB  (lower bound 1.000 s)", " 2.578 "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
