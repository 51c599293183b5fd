package stf_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/stf"
)

func load(t *testing.T, name string) *program.Program {
	t.Helper()
	b, err := os.ReadFile("../interp/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := program.Load(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const tables = `
# entries of every kind; names by suffix
add exact_t op:0x09 b:0x0102 In.forward(port:5)
add lpm_t d:0x20010db8000000000000000000000000/32 metered(port:6)
add ternary_t 7 a:0x0* op:9 note(n:8)
add sel_t op:6 forward(port:1)
`

func TestRun(t *testing.T) {
	script := strings.Replace(tables, "add sel_t op:6 forward(port:1)\n", "", 1) + `
packet 0 0900 0102 00000000 00000000 00000000 00000000 00000000
expect 5 0900 0000 00000000 00000000 00 00 4009 0900 0102 **
packet 0 0100 0000 00000007 20010db8 00000000 00000000 00000001
expect 6 01** **** ******** 00000007
check_counter In.ops(1) packets == 2
check_counter ops(1) bytes > 100
add lpm_t d:0x20010db9000000000000000000000000/32 metered(port:6) = A
packet 0 0100 0000 00000007 20010db9 00000000 00000000 00000001
expect 6 01** **** ******** 0000000e
check_counter lpm_hits($A) packets == 1
expect 0
register_write sums 2 0x10
register_read sums 2
meter_set_rates In.rate 1 0.001:2 0.002:4
mc_mgrp_create 1
mc_node_create 3 4 5
mc_node_associate 1 0
mirroring_add_mc 9 1
mirroring_get 9
remove all
`
	sc, err := stf.Parse("t.stf", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	rep, err := sc.Run(load(t, "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"line 12: counter ops(1): bytes is 48, expected > 100",
		"port 0: expected some packet, got none\n  t.stf:17: expect 0", // the line is quoted
	}
	for i, f := range rep.Failures {
		rep.Failures[i], _, _ = strings.Cut(f, "\n  way of ")
	}
	if d := cmp.Diff(want, rep.Failures); d != "" {
		t.Error(d)
	}
	if rep.Passed() || rep.Sent != 3 || rep.Received != 3 || rep.Expected != 3 {
		t.Errorf("%+v", rep)
	}
	if rep.Log[0] != "sums[2] = 00000010" {
		t.Errorf("log %q", rep.Log)
	}
}

func TestDifferences(t *testing.T) {
	for _, c := range []struct{ expect, fail string }{
		{"expect 5 0900 0000", ""},
		{"expect 5 09", ""},
		{"expect 5 0901", "port 5: packet 0 (line 3): digit 3 is 0, expected 1"},
		{"expect 5 0900$", "port 5: packet 0 (line 3): 80 digits, expected exactly 4"},
		{"expect 5 " + strings.Repeat("00", 60), "port 5: packet 0 (line 3): 80 digits, expected 120"},
		{"expect 4 09", "port 4: expected 1 packets, got 0 "},
	} {
		src := "add exact_t op:9 b:1 forward(port:5)\npacket 0 0900 0001 " + strings.Repeat("00", 20) + "\n" + c.expect
		sc, err := stf.Parse("t.stf", []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		rep, err := sc.Run(load(t, "state.json"))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(rep.Failures, "\n")
		if c.fail != "" && !strings.Contains(got, "\n  t.stf:3: "+c.expect) {
			t.Errorf("%s: the expected line is not quoted:\n%s", c.expect, got)
		}
		if c.fail != "" && !strings.Contains(got, "\n  way of line 2's packet: port 0: parser start;") {
			t.Errorf("%s: the packet's way is not shown:\n%s", c.expect, got)
		}
		if got, _, _ = strings.Cut(got, "\n"); got != c.fail {
			t.Errorf("%s: %q, want %q", c.expect, got, c.fail)
		}
	}
}

func TestErrors(t *testing.T) {
	p := load(t, "state.json")
	for src, want := range map[string]string{
		"pocket 1 00":                               `t.stf:1: unknown statement "pocket"`,
		"packet 1":                                  "t.stf:1: packet needs 1 more words",
		"packet 1 000":                              "odd number",
		"packet 1 0g":                               `digit 1 of the packet data is 'g'`,
		"\nadd nix a:1 b()":                         `t.stf:2: add: there is no table "nix"`,
		"add exact_t zz:1 forward(port:1)":          `the key has no field "zz"`,
		"add exact_t op:1 jump(port:1)":             `there is no action "jump"`,
		"add exact_t op:1 forward(prt:1)":           `no parameter "prt"`,
		"add exact_t op:1 forward()":                "1 parameters, 0 are given",
		"add exact_t op:1 forward(port:1":           "lacks its parentheses",
		"register_read sums 99":                     "index 99",
		strings.TrimSpace(tables):                   "name members or groups",
		"mc_node_associate 1 7":                     "there is no node 7",
		"meter_set_rates In.rate 0 1:2":             "1 rates",
		"check_counter ops(1) packets === 2":        "is not NAME(INDEX)",
		"check_counter lpm_hits($B)":                `no entry has the label "B"`,
		"add exact_t op:0x1ff b:1 forward(port:99)": "at most 8 fit",
	} {
		sc, err := stf.Parse("t.stf", []byte(src))
		if err == nil {
			_, err = sc.Run(p)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", src, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(tables))
	f.Add([]byte("packet 1 00\nexpect 2 0*$"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if sc, err := stf.Parse("f", b); err == nil && sc == nil {
			t.Error("neither a script nor an error")
		}
	})
}
