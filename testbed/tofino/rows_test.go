package tofino

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// TestRows: what is written makes the highest row that matches the one that is wanted, whatever was there before.
func TestRows(t *testing.T) {
	tab := &ternaryRows{table: "t", any: ternaryRow{"k:*", "miss()"}}
	a, b, c := ternaryRow{"k:a", "x()"}, ternaryRow{"k:b", "y()"}, ternaryRow{"k:c", "z()"}
	for _, step := range []struct {
		name string
		want []ternaryRow
		out  []string
	}{
		{"two rows", []ternaryRow{a, b}, []string{"add t 0 k:a x()", "add t 1 k:b y()"}},
		{"one above them", []ternaryRow{a, b, c}, []string{"add t 2 k:c z()"}},
		{"nothing new", []ternaryRow{a, b, c}, nil},
		{"the lowest goes: the top is there twice", []ternaryRow{b, c}, []string{"add t 0 k:b y()", "add t 1 k:c z()"}},
		{"all go: what is left does what a miss does", nil,
			[]string{"add t 0 k:* miss()", "add t 1 k:* miss()", "add t 2 k:* miss()"}},
		{"one comes back", []ternaryRow{a}, []string{"add t 0 k:a x()", "add t 1 k:a x()", "add t 2 k:a x()"}},
	} {
		if diff := cmp.Diff(step.out, tab.write(step.want)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestTernary(t *testing.T) {
	lpm := program.KeyField{Name: "dst", Kind: program.LPM, Width: 32}
	label := program.KeyField{Name: "label", Kind: program.Ternary, Width: 14}
	for _, c := range []struct {
		field program.KeyField
		match program.FieldMatch
		want  string
	}{
		{lpm, program.FieldMatch{Value: []byte{10, 0, 1, 0}, PrefixLen: 24}, "dst:0b000010100000000000000001********"},
		{lpm, program.FieldMatch{Value: []byte{0}, PrefixLen: 0}, "dst:0b********************************"},
		{label, program.FieldMatch{Value: []byte{5}, Mask: []byte{7}}, "label:0b***********101"},
		{label, program.FieldMatch{Any: true}, "label:0b**************"},
	} {
		if got := ternary(c.field, c.match); got != c.want {
			t.Errorf("%+v: %s, not %s", c.match, got, c.want)
		}
	}
}
