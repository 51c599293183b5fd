package constraints_test

import (
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/ethereal-fabric/ethereal/p4switch/constraints"
)

// theirs is a checkout of p4lang/p4-constraints, whose tests these are.
func theirs(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("P4_CONSTRAINTS")
	if dir == "" {
		t.Skip("no tests of others: P4_CONSTRAINTS names a checkout of p4lang/p4-constraints")
	}
	return dir
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// p4Info compiles one of their programs with P4C, a p4c-bm2-ss.
func p4Info(t *testing.T, dir, program string) *p4config.P4Info {
	t.Helper()
	p4c := os.Getenv("P4C")
	if p4c == "" {
		t.Skip("no p4c: P4C names a p4c-bm2-ss")
	}
	out := filepath.Join(t.TempDir(), "p4info.txtpb")
	args := append(strings.Fields(os.Getenv("P4C_FLAGS")), "--p4runtime-files", out, "-o", out+".json", program)
	cmd := exec.Command(p4c, args...)
	cmd.Dir = filepath.Join(dir, "e2e_tests")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	info := &p4config.P4Info{}
	if err := prototext.Unmarshal([]byte(read(t, out)), info); err != nil {
		t.Fatal(err)
	}
	return info
}

var kinds = map[p4config.MatchField_MatchType]constraints.Kind{
	p4config.MatchField_EXACT: constraints.Exact, p4config.MatchField_TERNARY: constraints.Ternary, p4config.MatchField_LPM: constraints.LPM,
	p4config.MatchField_RANGE: constraints.Range, p4config.MatchField_OPTIONAL: constraints.Optional,
}

func compile(table *p4config.Table) (*constraints.Constraint, error) {
	text, err := constraints.Find(table.GetPreamble().GetAnnotations(), "entry_restriction")
	if err != nil || text == "" {
		return nil, err
	}
	var key []constraints.Variable
	for _, f := range table.GetMatchFields() {
		key = append(key, constraints.Variable{Name: f.GetName(), Kind: kinds[f.GetMatchType()], Width: int(f.GetBitwidth())})
	}
	return constraints.Entry(text, key)
}

// TestTheirEntries checks their table entries, and compares with what their program says of each.
func TestTheirEntries(t *testing.T) {
	dir := theirs(t)
	info := p4Info(t, dir, "valid_constraints.p4")
	n := 0
	for _, part := range strings.Split(read(t, dir, "e2e_tests", "valid_constraints.expected.output"), "=== Input Table Entry File ===\n")[1:] {
		file, output, _ := strings.Cut(part, "\n=== Output ===\n")
		var te p4.TableEntry
		if err := prototext.Unmarshal([]byte(read(t, dir, file)), &te); err != nil {
			t.Fatal(err)
		}
		var table *p4config.Table
		for _, x := range info.GetTables() {
			if x.GetPreamble().GetId()&0xffffff == te.GetTableId()&0xffffff {
				table = x
			}
		}
		if table == nil {
			continue // unknown_table_entry: the server refuses it before
		}
		c, err := compile(table)
		if err != nil {
			t.Fatalf("%s: %v", table.GetPreamble().GetName(), err)
		}
		err = c.Check(te.GetPriority(), entryValues(table, &te))
		t.Logf("%s: %v", filepath.Base(file), err)
		if good := strings.HasPrefix(output, "Constraint satisfied"); good != (err == nil) {
			t.Errorf("%s: error %v; theirs:\n%s", file, err, output)
		}
		n++
	}
	if n < 8 {
		t.Errorf("only %d entries found", n)
	}
}

func entryValues(table *p4config.Table, te *p4.TableEntry) []constraints.Value {
	out := make([]constraints.Value, len(table.GetMatchFields()))
	for i, f := range table.GetMatchFields() {
		out[i].Wild = true
		for _, m := range te.GetMatch() {
			if m.GetFieldId() != f.GetId() {
				continue
			}
			switch x := m.GetFieldMatchType().(type) {
			case *p4.FieldMatch_Exact_:
				out[i] = constraints.Value{First: x.Exact.GetValue()}
			case *p4.FieldMatch_Optional_:
				out[i] = constraints.Value{First: x.Optional.GetValue()}
			case *p4.FieldMatch_Ternary_:
				out[i] = constraints.Value{First: x.Ternary.GetValue(), Second: x.Ternary.GetMask()}
			}
		}
	}
	return out
}

// TestTheirMistakes: every constraint that their compiler refuses is refused.
func TestTheirMistakes(t *testing.T) {
	dir := theirs(t)
	refused := 0
	for _, table := range p4Info(t, dir, "invalid_constraints.p4").GetTables() {
		_, err := compile(table)
		t.Logf("%s: %v", table.GetPreamble().GetName(), err)
		if err != nil {
			refused++
		}
	}
	expected := read(t, dir, "e2e_tests", "invalid_constraints.expected.output")
	if want := strings.Count("\n"+expected, "\n- "); refused != want || want == 0 {
		t.Errorf("%d constraints refused, theirs %d", refused, want)
	}
}

// TestTheirReasons compares what is quoted of constraints that entries break.
func TestTheirReasons(t *testing.T) {
	dir := theirs(t)
	names := []string{"exact32", "ternary32", "lpm32", "range32", "optional32"}
	var key []constraints.Variable
	for i, name := range names {
		key = append(key, constraints.Variable{Name: name, Kind: constraints.Kind(i), Width: 32})
	}
	keyLine := regexp.MustCompile(`Key:"(\w+)" -> Value: \w+\{\.\w+ = (\d+)(?:, \.\w+ = (\d+))?\}`)
	quoted := regexp.MustCompile(`(?m)^\s*\d* \| ( *)(\^+)$`)
	bytes := func(decimal string) []byte {
		n, _ := new(big.Int).SetString(decimal, 10)
		return n.Bytes()
	}
	n := 0
	golden := read(t, dir, "p4_constraints", "backend", "interpreter_golden_test_runner.expected")
	for _, part := range strings.Split(golden, "=== INPUT ===\n")[1:] {
		text, rest, ok := strings.Cut(strings.TrimPrefix(part, "--- Table Constraint ---\n"), "--- Table Entry Info ---\n")
		entry, output, _ := strings.Cut(rest, "=== OUTPUT ===\n")
		if !ok || !strings.HasPrefix(part, "--- Table Constraint ---") || strings.Contains(entry, "Action Name") {
			continue // of actions
		}
		values := make([]constraints.Value, len(key))
		for _, m := range keyLine.FindAllStringSubmatch(entry, -1) {
			for i, name := range names {
				if name != m[1] {
					continue
				}
				values[i] = constraints.Value{First: bytes(m[2])}
				if m[3] != "" {
					values[i].Second, values[i].PrefixLen = bytes(m[3]), int(new(big.Int).SetBytes(bytes(m[3])).Int64())
				}
				values[i].Wild = name == "optional32" && m[3] == "0"
			}
		}
		c, err := constraints.Entry(text, key)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		err = c.Check(0, values)
		n++
		if strings.HasPrefix(output, "<empty>") {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s: no error; theirs:\n%s", text, output)
			continue
		}
		t.Log(err)
		at := quoted.FindStringSubmatchIndex(output)
		if at == nil {
			continue // of several lines
		}
		before := strings.Split(strings.TrimRight(output[:at[0]], "\n"), "\n")
		line := before[len(before)-1]
		from := strings.Index(line, "| ") + 2 + at[3] - at[2]
		if want := line[from : from+at[5]-at[4]]; !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; theirs quotes %s", text, err, want)
		}
	}
	if n < 5 {
		t.Errorf("only %d cases found", n)
	}
}
