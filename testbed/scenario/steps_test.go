package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
)

const stepped = `
name: small
fabric: {kind: leaf-spine, tors: 2, spines: 2, hosts_per_tor: 2}
collectives: [{kind: all-to-all, bytes: 1MB}]
schemes: [ethereal]
deadline: 10ms
`

// TestStepErrors: what is wrong with steps and expectations is said with its place, and
// keys and actions that had another name with the one they have.
func TestStepErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown action", "steps: [{at: 1us, action: explode}]\n", `bad.yaml:7:19: steps[0].action: "explode" is unknown`},
		{"no link", "steps: [{at: 1us, action: cut, detection: 1us}]\n", "steps[0]: names neither a link nor a node"},
		{"unknown link", "steps: [{at: 1us, action: cut, link: a-b, detection: 1us}]\n", "steps[0].link: "},
		{"host as switch", "steps: [{at: 1us, action: drain, node: h0}]\n", "h0 is a host; name a switch, as in core0"},
		{"switch as host", "steps: [{at: 1us, action: agent-down, node: tor0}]\n", "tor0 is no host"},
		{"link of the controller", "steps: [{at: 1us, action: controller-down, link: tor0-spine0}]\n",
			"steps[0].link: controller-down has none; remove it"},
		{"no agent", "steps: [{at: 1us, action: agent-up}]\n", "steps[0].node: is missing; name a host, as in h0"},
		{"pause as agent", "switch: {pfc: {alpha: 1}}\nsteps: [{at: 1us, action: pause}]\n",
			"steps[0].node: is missing; name a host, as in h0"},
		{"pause of a switch", "switch: {pfc: {alpha: 1}}\nsteps: [{at: 1us, action: pause, node: tor0}]\n", "tor0 is no host"},
		{"pause without PFC", "steps: [{at: 1us, action: pause, node: h0}]\n", "steps[0].action: switches without priority flow control"},
		{"watchdog without PFC", "switch: {pfc: {watchdog: 1ms}}\n", "switch.pfc.watchdog: is given without alpha or xoff"},
		{"unknown measure", "expect: [{that: happiness, min: 1}]\n", `"happiness" is unknown; write one of finished, cct`},
		{"no bound", "expect: [{that: flips}]\n", "expects nothing; add is, min or max"},
		{"unit", "expect: [{that: flips, min: 3us}]\n", "write a number without a unit"},
		{"no unit", "expect: [{that: cct, max: 3}]\n", "write a time with its unit, as in 200us"},
		{"no amount", "expect: [{that: cct, max: soon}]\n", `"soon" is neither a number nor a time`},
		{"of a switch", "expect: [{that: flips, of: tor0, min: 1}]\n", "only flips are known by host"},
		{"world", "expect: [{that: flips, min: 1, worlds: [moon]}]\n", `"moon" is unknown`},
		{"unknown key", "expekt: []\n", "unknown key; did you mean expect?"},
		{"key of a step", "steps: [{at: 1us, action: controller-down, color: red}]\n", "steps[0].color: unknown key"},
		{"failures too", "failures: [{name: x}]\nsteps: [{at: 1us, action: controller-down}]\n",
			"failures: is given beside steps"},
		{"notifiers alone", "notifiers: [gnmi]\n", "notifiers: is given without steps"},
		{"notifier", "notifier: gnmi\nsteps: [{at: 1us, action: controller-down}]\n",
			"notifier: unknown key; it is called notifiers now"},
		{"unknown notifier", "notifiers: [post]\nsteps: [{at: 1us, action: controller-down}]\n",
			`bad.yaml:7:13: notifiers[0]: unknown notifier "post"`},
		{"do", "steps: [{at: 1us, do: link-down, link: tor0-spine0, detection: 1us}]\n",
			"steps[0].do: unknown key; it is called action now"},
		{"link-down", "steps: [{at: 1us, action: link-down, link: tor0-spine0, detection: 1us}]\n",
			`steps[0].action: "link-down" is unknown; it is called cut now`},
		{"rate", "steps: [{at: 1us, action: rate, link: tor0-spine0, rate: 1Gb/s}]\n", `it is called degrade now`},
		{"no rate", "steps: [{at: 1us, action: degrade, link: tor0-spine0}]\n", "steps[0].rate: is missing"},
		{"flap", "steps: [{at: 1us, action: flap, link: tor0-spine0, detection: 1us}]\n", "steps[0].period: is missing"},
		{"twice", "expect: [{that: finished, is: true}]\nexpect: []\n", "expect: was given on line 7 already"},
		{"time", "worlds: {live: {time: -1}}\n", "worlds.live.time: -1 is not a factor"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("bad.yaml", []byte(stepped+c.text), nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %q", err, c.want)
			}
		})
	}
}

// TestIn: times and sizes are a world's own, and the scenario stays as it is.
func TestIn(t *testing.T) {
	s, err := Parse("small.yaml", []byte(stepped+`
steps:
  - {at: 20us, action: flap, link: tor0-spine0, period: 10us, times: 2, detection: 1us}
  - {at: 10%+200us, action: drain, node: spine1}
expect: [{that: last_flip, max: 100us}, {that: flips, max: 3}, {that: qps, max: 9, worlds: [lab]}]
worlds:
  live: {time: 1000, bytes: 100KB, deadline: 9s}
  lab: {skip: there is none}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	live := s.ForWorld(WorldLive)
	if live.Collectives[0].Bytes != 100e3 || live.Deadline != 9*fabric.Second || live.Slowed != wallRate {
		t.Errorf("%v until %v at %v", live.Collectives, live.Deadline, live.Slowed)
	}
	want := []Event{
		{At: 20 * fabric.Millisecond, Action: Flap, Link: "tor0-spine0", Period: 10 * fabric.Millisecond,
			Down: 5 * fabric.Millisecond, Times: 2, Detection: fabric.Microsecond},
		{When: Moments{{Share: 0.1, Plus: 200 * fabric.Millisecond}}, Action: Drain, Node: "spine1"},
	}
	if d := cmp.Diff(want, live.Failures[0].Events); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := live.Expect[0].Max.String() + " " + live.Expect[1].Max.String(); got != "100ms 3" || len(live.Expect) != 2 {
		t.Errorf("%d expectations, of %s", len(live.Expect), got)
	}
	runs, err := live.Expand()
	if err != nil || len(runs) != 1 || runs[0].Notifier != NotifyAll || runs[0].Fabric.Link(0).Rate != wallRate ||
		runs[0].Failure.Name != "small" {
		t.Errorf("%v, %v", runs, err)
	}
	if s.Failures[0].Events[0].At != 20*fabric.Microsecond || s.Collectives[0].Bytes != 1e6 {
		t.Error("the scenario itself was changed")
	}
	if s.Worlds.For(WorldLab).Skip == "" {
		t.Error("the lab is not skipped")
	}
	if s, err = Parse("small.yaml", []byte(stepped), nil); err != nil || s.ForWorld(WorldLive) != s {
		t.Errorf("a scenario that expects nothing: %v", err)
	}
}

// TestScaledRate: a rate is the same share of a link in every world.
func TestScaledRate(t *testing.T) {
	s, err := Parse("small.yaml", []byte(stepped+`
steps:
  - {at: 1us, action: degrade, link: tor0-spine0, rate: 100Gb/s}
  - {at: 2us, action: degrade, link: tor0-spine0, rate: 400Gb/s}
expect: [{that: finished, is: true}]
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for world, want := range map[string][]fabric.Rate{
		WorldVirtual: {100 * fabric.Gbps, 400 * fabric.Gbps},
		WorldLive:    {1250 * fabric.Kbps, 5 * fabric.Mbps},
		WorldMininet: {125 * fabric.Kbps, 500 * fabric.Kbps},
	} {
		var got []fabric.Rate
		for _, e := range s.ForWorld(world).Failures[0].Events {
			got = append(got, e.Rate)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", world, diff)
		}
	}
}

// TestInterventions: what is about links is one a link.
func TestInterventions(t *testing.T) {
	s, err := Parse("small.yaml", []byte(stepped+`
steps:
  - {at: 1us, action: controller-down}
  - {at: 2us, action: cut, link: tor0-spine0, detection: 1us}
  - {at: 3us, action: agent-down, node: h2}
  - {at: 4us, action: drain, node: spine1}
notifiers: [quench, gnmi]
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := s.Expand()
	if err != nil || len(runs) != 2 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	want := []Intervention{
		{At: fabric.Microsecond, Do: ControllerDown}, {At: 3 * fabric.Microsecond, Do: AgentDown, Node: 2},
		{At: 4 * fabric.Microsecond, Do: Drain, Link: 5}, {At: 4 * fabric.Microsecond, Do: Drain, Link: 7},
	}
	if d := cmp.Diff(want, runs[1].Interventions); d != "" || len(runs[1].Events) != 1 {
		t.Errorf("%d events (-want +got):\n%s", len(runs[1].Events), d)
	}
}

// FuzzIn: whatever a file holds, it is refused, or fits every world.
func FuzzIn(f *testing.F) {
	files, err := filepath.Glob("../../mininet/experiments/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text []byte) {
		if s, err := Parse("fuzz.yaml", text, nil); err == nil {
			for _, w := range WorldNames() {
				s.ForWorld(w)
			}
		}
	})
}

// TestRoles: an experiment whose links have roles runs on a fabric of another kind, with
// the rates of its own.
func TestRoles(t *testing.T) {
	there := fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 2, HostsPerToR: 4}
	for link, want := range map[string]string{
		"uplink of tor0": "tor0-spine0", "uplink 2 of tor3": "tor3-spine1", "uplink of h5": "h5-tor1", "host link of h5": "h5-tor1",
		"top uplink 2 of tor1": "tor1-spine1",
	} {
		s, err := Parse("small.yaml", []byte(stepped+"steps: [{at: 2us, action: cut, link: uplink of tor0, detection: "+
			"1us}]\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Fabric = fabric.Spec{Kind: fabric.KindFatTree, K: 4,
			ToRUplink: fabric.LinkSpec{Rate: fabric.Gbps, Delay: fabric.Microsecond}}
		s.Failures[0].Events[0].Link = link
		o, err := s.Override(Override{Fabric: &there})
		if err != nil {
			t.Fatal(err)
		}
		moved := "the fabric is the deployment's, of 16 hosts, 4 ToRs, 0 aggregation switches, 2 core or spine switches and 24 links, instead of 16 hosts, 8 ToRs,"
		if !strings.HasPrefix(o.Moved, moved) || s.Moved != "" {
			t.Errorf("of another fabric it says %q, of its own %q", o.Moved, s.Moved)
		}
		runs, err := o.Expand()
		if err != nil {
			t.Fatal(err)
		}
		f := runs[0].Fabric
		if f.Hosts() != 16 || f.Switches() != 6 || f.Spec().ToRUplink.Rate != fabric.Gbps {
			t.Errorf("%d hosts, %d switches, uplinks of %v", f.Hosts(), f.Switches(), f.Spec().ToRUplink.Rate)
		}
		if got := f.LinkName(runs[0].Events[0].Link); got != want {
			t.Errorf("%s is %s, want %s", link, got, want)
		}
	}
	for link, want := range map[string]string{
		"uplink of tor9": "no node \"tor9\"", "uplink 3 of tor0": "write 1 to 2", "uplink 0 of tor0": "write 1 to 2",
		"host link of tor0": "is no host", "host link 2 of h0": "no host link 2; write 1 to 1", "host link of h99": "no node \"h99\"",
		"uplink x of tor0": "is no role", "downlink of tor0": "is no role", "uplink of spine0": "has no uplink",
	} {
		_, err := Parse("small.yaml", []byte(stepped+"steps: [{at: 2us, action: cut, link: "+link+", detection: 1us}]\n"),
			nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "steps[0].link") {
			t.Errorf("%s: %v, want %s", link, err, want)
		}
	}
}

// TestRolesOfTiers: roles are of both kinds of fabric, and those of nodes are for all that names one.
func TestRolesOfTiers(t *testing.T) {
	clos := func(spec fabric.Spec) *fabric.Fabric {
		f, err := fabric.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	two, three := clos(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 2,
		HostsPerToR: 4}), clos(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	for role, want := range map[string][2]string{
		"uplink of tor0": {"tor0-spine0", "tor0-agg0"}, "top uplink of tor2": {"tor2-spine0", "agg2-core0"},
		"top uplink 2 of tor1": {"tor1-spine1", "agg1-core2"},
	} {
		for i, f := range []*fabric.Fabric{two, three} {
			if l, err := linkNamed(f, role); err != nil || f.LinkName(l) != want[i] {
				t.Errorf("%s: %v, %v; want %s", role, l, err, want[i])
			}
		}
	}
	for role, want := range map[string][2]string{
		"switch above tor0": {"spine0", "agg0"}, "switch 2 above tor3": {"spine1", "agg3"}, "top switch": {"spine0", "core0"},
		"top switch 2": {"spine1", "core1"},
		"tor1":         {"tor1", "tor1"},
	} {
		for i, f := range []*fabric.Fabric{two, three} {
			if n, err := NodeNamed(f, role); err != nil || f.Name(n) != want[i] {
				t.Errorf("%s: %v, %v; want %s", role, n, err, want[i])
			}
		}
	}
	for _, role := range []string{"top switch 3", "top core", "switch 0 above tor0", "host above tor0",
		"switch above spine0"} {
		if n, err := NodeNamed(two, role); err == nil {
			t.Errorf("%s is %s", role, two.Name(n))
		}
	}
}
