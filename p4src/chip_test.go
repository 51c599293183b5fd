package p4src

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/encoding/prototext"
)

// chips are the architectures of tna/ethereal.p4, by the folder of build/tna.
var chips = []string{"tofino", "tofino2"}

func chipP4Info(t *testing.T, chip string) *p4config.P4Info {
	t.Helper()
	text, err := os.ReadFile("build/tna/" + chip + ".p4info.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	info := new(p4config.P4Info)
	if err := prototext.Unmarshal(text, info); err != nil {
		t.Fatalf("%s: %v", chip, err)
	}
	return info
}

const perLabel = "take_uplink is ecmp's action too, so that it cannot count for source_route: counted by label"

// onlyV1Model is what v1model's program has and the chips' has not, with why.
// An entry covers the lines that begin with it.
var onlyV1Model = map[string]string{
	"direct counter source_route_counter":               perLabel,
	"table source_route: resource source_route_counter": perLabel,
	"table own_segment":                                 "micro segments",
	"table route_v6: action forward_uplink":             "micro segments",
	"table balancer":                                    "balancers other than ECMP",
	"table uplink_slot":                                 "balancers other than ECMP",
	"table uplink_group":                                "balancers other than ECMP",
	"table rotation_v4":                                 "balancers other than ECMP",
	"table rotation_v6":                                 "balancers other than ECMP",
	"table port_of_uplink":                              "the selector finds the way round a dead uplink",
	"table first_live":                                  "the selector finds the way round a dead uplink",
	"register dead_uplinks":                             "the selector finds the way round a dead uplink",
	"register uplink_depth":                             "balancers other than ECMP",
	"register uplink_rank":                              "balancers other than ECMP",
	"register robin_":                                   "balancers other than ECMP",
	"register rotation_":                                "balancers other than ECMP",
	"register flowset":                                  "balancers other than ECMP",
	"register notice_last ":                             "us in 48 bits; the chip's register has 32, of 1.024 us",
	"register quench_last ":                             "us in 48 bits; the chip's register has 32, of 1.024 us",
}

// onlyChip is what the chips' program has and v1model's has not, with why.
var onlyChip = map[string]string{
	"counter source_route_counter": perLabel,
	"table port_state":             "both accesses of register port_down must be in one stage",
	"table foreign_source":         "the chip compares addresses in a table, not in a condition",
	"table ecn_curve":              "the chip cannot multiply: the line between kmin and kmax is a staircase",
	"register port_epoch":          "the packet generator's port-down events have no epoch",
	"register ecmp_live":           "the live members of the selector",
	"register notice_last ":        "as above",
	"register quench_last ":        "as above",
}

// inventory lists what of a program a controller sees: a line for each table, key,
// action, parameter, action selector, counter, register and field of its packets. Sizes are left out:
// they are a matter of the compilation.
func inventory(info *p4config.P4Info) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	name := func(p *p4config.Preamble) string { return strings.TrimPrefix(p.GetName(), ".") }
	actions := map[uint32]*p4config.Action{}
	for _, a := range info.GetActions() {
		actions[a.GetPreamble().GetId()] = a
	}
	resources := map[uint32]string{}
	for _, p := range info.GetActionProfiles() {
		resources[p.GetPreamble().GetId()] = name(p.GetPreamble())
		add("action profile %s: selector %v, at most %d shares a group", name(p.GetPreamble()), p.GetWithSelector(), p.GetMaxGroupSize())
	}
	for _, c := range info.GetDirectCounters() {
		resources[c.GetPreamble().GetId()] = name(c.GetPreamble())
		add("direct counter %s: %v", name(c.GetPreamble()), c.GetSpec().GetUnit())
	}
	for _, table := range info.GetTables() {
		n := name(table.GetPreamble())
		add("table %s", n)
		for _, f := range table.GetMatchFields() {
			add("table %s: key %s, %d bits, %v", n, f.GetName(), f.GetBitwidth(), f.GetMatchType())
		}
		for _, ref := range table.GetActionRefs() {
			a := actions[ref.GetId()]
			add("table %s: action %s, %v", n, name(a.GetPreamble()), ref.GetScope())
			for _, p := range a.GetParams() {
				add("table %s: action %s: parameter %d %s, %d bits", n, name(a.GetPreamble()), p.GetId(), p.GetName(), p.GetBitwidth())
			}
		}
		if id := table.GetImplementationId(); id != 0 {
			add("table %s: implementation %s", n, resources[id])
		}
		for _, id := range table.GetDirectResourceIds() {
			add("table %s: resource %s", n, resources[id])
		}
	}
	for _, c := range info.GetCounters() {
		add("counter %s: %v, %d", name(c.GetPreamble()), c.GetSpec().GetUnit(), c.GetSize())
	}
	for _, r := range info.GetRegisters() {
		add("register %s of %d bits: %d", name(r.GetPreamble()), r.GetTypeSpec().GetBitstring().GetBit().GetBitwidth(), r.GetSize())
	}
	for _, h := range info.GetControllerPacketMetadata() {
		for _, m := range h.GetMetadata() {
			add("%s: field %d %s, %d bits", name(h.GetPreamble()), m.GetId(), m.GetName(), m.GetBitwidth())
		}
	}
	slices.Sort(lines)
	return lines
}

// without returns the lines of a that b has not, less those that a key of named
// begins. It marks the keys it used.
func without(a, b []string, named map[string]string, used map[string]bool) []string {
	var out []string
	for _, line := range a {
		if slices.Contains(b, line) {
			continue
		}
		known := false
		for prefix := range named {
			if strings.HasPrefix(line, prefix) {
				known, used[prefix] = true, true
			}
		}
		if !known {
			out = append(out, line)
		}
	}
	return out
}

// TestChipProgramsAreV1Models holds what a controller sees of the chips' programs
// against v1model's: they differ in what is named above, and in nothing else.
func TestChipProgramsAreV1Models(t *testing.T) {
	v1model := inventory(V1ModelP4Info())
	for _, chip := range chips {
		t.Run(chip, func(t *testing.T) {
			got := inventory(chipP4Info(t, chip))
			hold(t, "the chip's program lacks", v1model, got, onlyV1Model)
			hold(t, "v1model's program lacks", got, v1model, onlyChip)
		})
	}
}

// hold reports the lines of a that b has not, unless named says so, and what named says and is not so.
func hold(t *testing.T, problem string, a, b []string, named map[string]string) {
	t.Helper()
	used := map[string]bool{}
	if lines := without(a, b, named, used); len(lines) > 0 {
		t.Errorf("%s:\n%s", problem, strings.Join(lines, "\n"))
	}
	for prefix := range named {
		if !used[prefix] {
			t.Errorf("%q is named as a difference and is none", prefix)
		}
	}
}

// TestChipsDifferInNothing holds the two chips' programs against each other, without and with CSIG.
func TestChipsDifferInNothing(t *testing.T) {
	for _, csig := range []string{"", "-csig"} {
		if diff := cmp.Diff(inventory(chipP4Info(t, chips[0]+csig)), inventory(chipP4Info(t, chips[1]+csig))); diff != "" {
			t.Errorf("-%s%s +%s%s:\n%s", chips[0], csig, chips[1], csig, diff)
		}
	}
}

// csigOnly is what a chip's program has with CSIG only, with what it is for.
var csigOnly = map[string]string{
	"table csig_port":      "a port's place and capacity",
	"table csig_bytes":     "the accesses of register port_bytes in one stage",
	"table csig_load":      "the accesses of register port_load in one stage",
	"register port_window": "the window in which a port last sent",
	"register port_bytes":  "what it sent in it",
	"register port_load":   "what it sent in the window before",
}

// TestChipsWithCSIG holds the chips' programs with CSIG against those without.
func TestChipsWithCSIG(t *testing.T) {
	for _, chip := range chips {
		plain, csig := inventory(chipP4Info(t, chip)), inventory(chipP4Info(t, chip+"-csig"))
		hold(t, chip+" with CSIG lacks", plain, csig, nil)
		hold(t, chip+" with CSIG has", csig, plain, csigOnly)
	}
}
