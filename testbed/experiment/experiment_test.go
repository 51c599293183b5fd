package experiment_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/experiment"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// TestShipped carries out the experiments that the repository has.
func TestShipped(t *testing.T) {
	if testing.Short() {
		t.Skip("all experiments: skipped with -short")
	}
	files, err := filepath.Glob("../../mininet/experiments/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no experiments", err)
	}
	world := experiment.NewVirtual(virtual.Runner())
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			t.Parallel()
			e, err := experiment.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			o, err := experiment.Run(t.Context(), e, world)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range o.Verdicts {
				if !v.Held {
					t.Error(v)
				}
			}
			if len(o.Record.All()) == 0 {
				t.Error("nothing was recorded")
			}
		})
	}
}

const small = `
name: small
fabric: {kind: leaf-spine, tors: 2, spines: 2, hosts_per_tor: 2}
collectives: [{kind: all-to-all, bytes: 1MB}]
schemes: [ethereal]
deadline: 10ms
`

// TestFails: an expectation that does not hold says so.
func TestFails(t *testing.T) {
	e, err := experiment.Parse("small.yaml", []byte(small+`
steps:
  - {at: 3us, do: link-down, link: tor0-spine0, detection: 1us}
expect:
  - {that: finished, is: true}
  - {that: flips, max: 0, why: nobody flips}
  - {that: cct, max: 1us}
  - {that: quenches, min: 1}
  - {that: flips, min: 1000, worlds: [live]}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	o, err := experiment.Run(t.Context(), e, experiment.NewVirtual(virtual.Runner()))
	if err != nil {
		t.Fatal(err)
	}
	var held []bool
	for _, v := range o.Verdicts {
		held = append(held, v.Held)
	}
	if diff := cmp.Diff([]bool{true, false, false, true}, held); diff != "" || o.Held() {
		t.Errorf("%v\n%s", o.Verdicts, diff)
	}
	if s := o.Verdicts[1].String(); !strings.HasSuffix(s, "(<= 0): nobody flips") {
		t.Error(s)
	}
}

// TestErrors: what is wrong in a file is said with its place.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no expectation", "steps: []\n", "nothing is expected"},
		{"unknown action", "steps: [{at: 1us, do: explode}]\nexpect: [{that: finished, is: true}]\n", `bad.yaml:7:19: steps[0].do: "explode" is unknown`},
		{"no link", "steps: [{at: 1us, do: link-down}]\nexpect: [{that: finished, is: true}]\n", "steps[0].link: is missing; name a link, as in tor0-agg0"},
		{"unknown link", "steps: [{at: 1us, do: link-down, link: a-b}]\nexpect: [{that: finished, is: true}]\n", "steps[0].link: "},
		{"host as switch", "steps: [{at: 1us, do: node-down, node: h0}]\nexpect: [{that: finished, is: true}]\n", "h0 is a host; name a switch, as in core0"},
		{"switch as host", "steps: [{at: 1us, do: agent-down, node: tor0}]\nexpect: [{that: finished, is: true}]\n", "tor0 is no host"},
		{"unknown measure", "expect: [{that: happiness, min: 1}]\n", `"happiness" is unknown; write one of finished, cct`},
		{"no bound", "expect: [{that: flips}]\n", "expects nothing; add is, min or max"},
		{"unit", "expect: [{that: flips, min: 3us}]\n", "write a number without a unit"},
		{"no unit", "expect: [{that: cct, max: 3}]\n", "write a time with its unit, as in 200us"},
		{"no amount", "expect: [{that: cct, max: soon}]\n", `"soon" is neither a number nor a time`},
		{"of a switch", "expect: [{that: flips, of: tor0, min: 1}]\n", "only flips are known by host"},
		{"world", "expect: [{that: flips, min: 1, worlds: [moon]}]\n", `"moon" is unknown`},
		{"unknown key", "expekt: []\n", "unknown key"},
		{"key of a step", "steps: [{at: 1us, do: controller-down, color: red}]\nexpect: [{that: finished, is: true}]\n", "unknown key"},
		{"failures", "failures: [{name: x, events: [{at: 1us, link: tor0-spine0, action: cut, detection: 1us}], notifiers: [all]}]\nexpect: [{that: finished, is: true}]\n", "an experiment has steps instead"},
		{"rate", "steps: [{at: 1us, do: rate, link: tor0-spine0}]\nexpect: [{that: finished, is: true}]\n", "steps[0].rate: 0b/s is no rate"},
		{"flap", "steps: [{at: 1us, do: flap, link: tor0-spine0}]\nexpect: [{that: finished, is: true}]\n", "a flap has times"},
		{"twice", "expect: [{that: finished, is: true}]\nexpect: []\n", "expect"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := experiment.Parse("bad.yaml", []byte(small+c.text), nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %q", err, c.want)
			}
		})
	}
}

// TestStretch: times and sizes are a world's own.
func TestStretch(t *testing.T) {
	e, err := experiment.Parse("small.yaml", []byte(small+`
steps:
  - {at: 200us, do: link-up, link: tor0-spine0}
  - {at: 20us, do: flap, link: tor0-spine0, period: 10us, times: 2}
expect: [{that: last_flip, max: 100us}, {that: flips, max: 3}]
worlds:
  live: {time: 1000, bytes: 100KB, deadline: 9s}
  lab: {skip: there is none}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	live := e.In(experiment.Live)
	if got := live.Scenario.Collectives[0].Bytes; got != 100e3 {
		t.Errorf("bytes %v", got)
	}
	if got := live.Scenario.Deadline; got != 9*fabric.Second {
		t.Errorf("deadline %v", got)
	}
	if s := live.Steps[0]; s.At != 20*fabric.Millisecond || s.Period != 10*fabric.Millisecond || s.Do != experiment.Flap {
		t.Errorf("first step %v at %v", s, s.At)
	}
	if x := live.Expect[0].Max.String(); x != "100ms" {
		t.Errorf("max %s", x)
	}
	if x := live.Expect[1].Max.String(); x != "3" {
		t.Errorf("max %s", x)
	}
	if e.Steps[0].At != 200*fabric.Microsecond || e.Scenario.Collectives[0].Bytes != 1e6 {
		t.Error("the experiment itself was changed")
	}
	o, err := experiment.Run(t.Context(), e, nowhere{})
	if err != nil || o.Skipped != "there is none" || !o.Held() {
		t.Errorf("%+v, %v", o, err)
	}
}

// nowhere is a world in which nothing can be run.
type nowhere struct{}

func (nowhere) Name() string { return experiment.Lab }
func (nowhere) Run(context.Context, *experiment.Experiment, *experiment.Record) (*report.Result, error) {
	panic("it was to be skipped")
}

// TestScaledRate: a rate is the same share of a link in every world.
func TestScaledRate(t *testing.T) {
	const text = small + `
steps:
  - {at: 1us, do: rate, link: tor0-spine0, rate: 100Gb/s}
  - {at: 2us, do: rate, link: tor0-spine0, rate: 400Gb/s}
expect: [{that: finished, is: true}]
`
	e, err := experiment.Parse("small.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	for world, want := range map[string][]fabric.Rate{
		experiment.Virtual: {100 * fabric.Gbps, 400 * fabric.Gbps},
		experiment.Live:    {1250 * fabric.Kbps, 0},
		experiment.Mininet: {125 * fabric.Kbps, 0},
	} {
		var got []fabric.Rate
		for _, s := range e.In(world).Steps {
			got = append(got, s.Rate)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", world, diff)
		}
	}
}

// broken is a world in which every experiment but the first fails.
type broken struct{ ran int }

func (*broken) Name() string { return experiment.Virtual }
func (b *broken) Run(context.Context, *experiment.Experiment, *experiment.Record) (*report.Result, error) {
	if b.ran++; b.ran > 1 {
		return nil, errors.New("no cable")
	}
	cct, bound := 3.0, 2.0
	return &report.Result{Finished: true, CCT: &cct, Bound: &bound, Flips: 7}, nil
}

// TestSummary: a line for each experiment, whatever became of it.
func TestSummary(t *testing.T) {
	e, err := experiment.Parse("small.yaml", []byte(small+"expect: [{that: finished, is: true}]\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var all []*experiment.Outcome
	w := &broken{}
	for range 2 {
		o, _ := experiment.Run(t.Context(), e, w) //nolint:errcheck // the outcome has it
		o.Took = 1500 * time.Millisecond
		all = append(all, o)
	}
	var b strings.Builder
	if err := experiment.Summary(&b, all); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"took", "small virtual passed 1/1 1.500 0 0 7 0 0 1.5 s", "small virtual ERROR 0/0 - - - - - - 1.5 s", "1 of 2 experiments passed, in 3.0 s"} {
		if got := strings.Join(strings.Fields(strings.Split(b.String(), "\n")[i]), " "); !strings.HasSuffix(got, want) {
			t.Errorf("line %d: %q, want %q", i, got, want)
		}
	}
}

// TestRecord: what is told late finds its place.
func TestRecord(t *testing.T) {
	var r experiment.Record
	for _, at := range []fabric.Time{3, 1, 2, 1} {
		r.Add(scenario.Happening{At: at * fabric.Microsecond, Kind: "flip", Where: "h0"})
	}
	var got []fabric.Time
	for _, h := range r.All() {
		got = append(got, h.At/fabric.Microsecond)
	}
	if diff := cmp.Diff([]fabric.Time{1, 1, 2, 3}, got); diff != "" {
		t.Error(diff)
	}
	var b strings.Builder
	if err := r.Encode(&b, "x", "virtual"); err != nil {
		t.Fatal(err)
	}
	if want := `{"experiment":"x","world":"virtual","t_us":1,"kind":"flip","where":"h0","text":""}`; !strings.HasPrefix(b.String(), want+"\n") {
		t.Errorf("got %s", b.String())
	}
}

// FuzzParse: whatever a file holds, it is read or refused.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../../mininet/experiments/*.yaml")
	if err != nil {
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
		if e, err := experiment.Parse("fuzz.yaml", text, nil); err == nil {
			e.In(experiment.Mininet)
		}
	})
}
