package constraints

import (
	"strings"
	"testing"
)

var key = []Variable{
	{Name: "valid", Kind: Exact, Width: 1},
	{Name: "ether_type", Kind: Exact, Width: 16},
	{Name: "hdr.ip.dst", Kind: Ternary, Width: 32},
	{Name: "route", Kind: LPM, Width: 32},
	{Name: "port", Kind: Range, Width: 16},
	{Name: "in_port", Kind: Optional, Width: 9},
	{Name: "mac", Kind: Exact, Width: 48},
	{Name: "ip6", Kind: Exact, Width: 128},
	{Name: "name", Kind: Exact},
}

// values is an entry; what is not given is left out of it, or zero.
func values(given map[string]Value) []Value {
	out := make([]Value, len(key))
	for i, k := range key {
		v, ok := given[k.Name]
		v.Wild = !ok
		out[i] = v
	}
	return out
}

func TestCheck(t *testing.T) {
	all := []byte{0xff, 0xff, 0xff, 0xff}
	v := values(map[string]Value{
		"valid": {First: []byte{1}}, "ether_type": {First: []byte{0x86, 0xdd}}, "hdr.ip.dst": {First: []byte{10, 0, 0, 1}, Second: all},
		"route": {First: []byte{10, 0, 0, 0}, PrefixLen: 8}, "port": {First: []byte{80}, Second: []byte{0x1f, 0x90}},
		"in_port": {First: []byte{7}}, "mac": {First: []byte{2, 0, 0, 0, 0, 9}}, "ip6": {First: append(make([]byte, 15), 1)},
	})
	wild := values(map[string]Value{"valid": {First: []byte{0}}, "ether_type": {First: []byte{8, 0}}})
	for _, c := range []struct {
		text   string
		entry  []Value
		broken string // "": it holds
	}{
		{"true", v, ""},
		{"false", v, `"false" must hold`},
		{"!true", v, `"true" must not hold`},
		{"valid == 1", v, ""},
		{"valid::value == 0 || ether_type == 0x0800", v, `"valid::value == 0 || ether_type == 0x0800" must hold; valid is 0x1, ether_type is 0x86dd`},
		{"valid == 1 -> ether_type == 0x86DD; hdr.ip.dst::mask == -1", v, ""},
		{"hdr.ip.dst::mask != 0 -> valid == 0", v, `"hdr.ip.dst::mask != 0 -> valid == 0" must hold; hdr.ip.dst is 0xa000001 &&& 0xffffffff, valid is 0x1`},
		{"(true && (valid == 0)) && true", v, `"(valid == 0)" must hold; valid is 0x1`},
		{"!(valid == 1 || false)", v, `"valid == 1" must not hold`},
		{"hdr.ip.dst == ipv4('10.0.0.1')", v, ""},
		{"hdr.ip.dst == 0x0a000001 && hdr.ip.dst::value < 0x0b000000", v, ""},
		{"hdr.ip.dst == 0", wild, `"hdr.ip.dst == 0" must hold; hdr.ip.dst is not matched`},
		{"hdr.ip.dst::mask == 0 && hdr.ip.dst::value == 0", wild, ""},
		{"route::prefix_length <= 8 && route != 0x0a000000", v, ""},
		{"route::prefix_length > 8", v, `"route::prefix_length > 8" must hold; route is 0xa000000/8`},
		{"route::prefix_length == 0", wild, ""},
		{"port::low == 80 && port::high == 8080 && port != 80", v, ""},
		{"port::low == 80 -> port == 80", v, `"port::low == 80 -> port == 80" must hold; port is 0x50..0x1f90`},
		{"port::high == 0xffff", wild, ""},
		{"in_port == 7 && in_port::mask == -1 && in_port::mask == 0x1ff", v, ""},
		{"in_port::mask == 0", wild, ""},
		{"mac == mac('02:00:00:00:00:09')", v, ""},
		{"mac::value < mac('02:00:00:00:00:09')", v, `must hold; mac is 0x20000000009`},
		{"ip6 == ipv6('::1') && ip6 > ipv6('::')", v, ""},
		{"::priority == 900", v, ""},
		{"::priority < -(-900)", v, `"::priority < -(-900)" must hold; priority is 900`},
		{"true != false; (true == true) == true;", v, ""},
		{"0b101 == 5 && 0o17 == 15 && 0d10 == 10 && 0XfF == 255 && -1 < 0", v, ""},
		{"ether_type == 0x186dd", v, ""}, // modulo 2^16
		{"true // a comment\n && /* one\n more */ valid == 1", v, ""},
		{"false -> false && false", v, ""},
		{"false && false || true", v, ""},
	} {
		con, err := Entry(c.text, key)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		err = con.Check(900, c.entry)
		switch {
		case c.broken == "" && err != nil:
			t.Errorf("%s: %v", c.text, err)
		case c.broken != "" && (err == nil || !strings.Contains(err.Error(), c.broken)):
			t.Errorf("%s: error %v, want %s", c.text, err, c.broken)
		}
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "ends where an operand is wanted",
		"valid == 1 &&":                  "ends where an operand is wanted",
		"valid == 1 extra":               `"extra" stands where an operator is wanted`,
		"(valid == 1":                    `ends where ) is wanted`,
		"valid == 1)":                    `")" stands where end is wanted`,
		"valid == ether_type == 0":       "in a row",
		"true -> true -> true":           "in a row",
		"valid == 0b2":                   `"b2" stands where an operator is wanted`,
		"valid # 1":                      `'#' has no meaning here`,
		"valid == 1 /* comment":          "does not end",
		"mac == mac('02:00":              "does not end",
		"mac == mac('02:00:00:00:00')":   "is no address",
		"hdr.ip.dst == ipv4('::1')":      "is no address",
		"ip6 == ipv6('fe80::1%eth0')":    "is no address",
		"ip6 == ipv5('::1')":             "is no kind of address",
		"valid == mac(1)":                `"1" stands where string is wanted`,
		"absent == 1":                    `there is no key field absent: "absent"`,
		"name == 1":                      "has no bit width",
		"hdr.ip.dst::prefix_length == 1": "ternary<32> has no prefix_length",
		"1::value == 1":                  "int has no value",
		"hdr.ip.dst < 5":                 "ternary<32> has no order",
		"valid == ether_type":            "exact<1> cannot be compared with exact<16>",
		"valid":                          "exact<1> stands where bool is wanted",
		"!1":                             "int stands where bool is wanted",
		"-true == 1":                     "bool stands where int is wanted",
		"-valid == 1":                    "exact<1> stands where int is wanted",
		"valid && true":                  "exact<1> stands where bool is wanted",
		"(true) == 1":                    "bool cannot be compared with int",
		"::hits > 1":                     "there is no attribute hits",
		"hdr. == 1":                      "stands where identifier is wanted",
		"valid:: == 1":                   "stands where identifier is wanted",
		strings.Repeat("(", 100_000):     "nests deeper",
		strings.Repeat("!", 100_000):     "nests deeper",
		strings.Repeat("true&&", 5000):   "more than 2000 operators",
	} {
		if _, err := Entry(text, key); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 600 {
			t.Errorf("%.60s: error %v, want %s", text, err, want)
		}
	}
}

func TestAction(t *testing.T) {
	params := []Variable{{Name: "vlan", Width: 12}, {Name: "group", Width: 16}}
	c, err := Action("vlan != 0 && vlan != 4095", params)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(0, []Value{{First: []byte{5}}, {}}); err != nil {
		t.Error(err)
	}
	err = c.Check(0, []Value{{First: []byte{0x0f, 0xff}}, {}})
	if want := `@action_restriction: "vlan != 4095" must hold; vlan is 0xfff`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	for text, want := range map[string]string{"vlan::value == 1": "bit<12> has no value", "::priority == 1": "no attribute priority", "x == 1": "no parameter x"} {
		if _, err := Action(text, params); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", text, err, want)
		}
	}
}

func TestFind(t *testing.T) {
	for _, c := range []struct{ annotation, text, wrong string }{
		{`@entry_restriction("a == 1")`, "a == 1", ""},
		{`@entry_restriction("a == 1;" "b == 2")`, "a == 1;\nb == 2", ""},
		{`@action_restriction("a == 1")`, "", ""},
		{`@entry_restriction(a == 1)`, "", "quotation marks"},
		{`@entry_restriction("a == "1"")`, "", "quotation marks"},
		{`@entry_restriction(" ")`, "", "empty"},
	} {
		text, err := Find([]string{`@name("x")`, c.annotation}, "entry_restriction")
		if text != c.text || (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %q, %v", c.annotation, text, err)
		}
	}
}

// FuzzEntry: no text ends in a panic, and what is accepted can be checked.
func FuzzEntry(f *testing.F) {
	f.Add("hdr.ip.dst::mask != 0 -> (valid == 1 || !(port::low <= 5)); ::priority < -1")
	f.Add("mac == mac('02:00:00:00:00:09') && ip6 > ipv6('::') /* x */ // y")
	f.Add("route == 0x0a && true == false; in_port::mask == 0b1;")
	v := values(map[string]Value{"hdr.ip.dst": {First: []byte{1}, Second: []byte{1}}, "port": {First: []byte{1}, Second: []byte{2}}})
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Entry(text, key)
		if err != nil {
			return
		}
		if err := c.Check(7, v); err != nil && !strings.HasPrefix(err.Error(), "@entry_restriction: ") {
			t.Errorf("%q: %v", text, err)
		}
	})
}
