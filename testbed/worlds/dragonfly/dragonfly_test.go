package dragonfly

import (
	"cmp"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric/dragonfly"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

const example = "examples/compare.yaml"

// results carries out the example, by failure, traffic and scheme; of each the seeds.
func results(t *testing.T) map[[3]string][]Result {
	t.Helper()
	e, err := Load(example)
	if err != nil {
		t.Fatal(err)
	}
	out := map[[3]string][]Result{}
	err = Run(t.Context(), e, func(r Result) {
		key := [3]string{r.Failure, r.Traffic, r.Scheme}
		out[key] = append(out[key], r)
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestExample holds the example's results to what is known of them.
func TestExample(t *testing.T) {
	got := results(t)
	for key, list := range got {
		for _, r := range list {
			if r.Load < r.LoadBound*(1-1e-9) || r.Optimum < r.LoadBound*(1-1e-9) {
				t.Errorf("%v: load %v and optimum %v over bound %v", key, r.Load, r.Optimum, r.LoadBound)
			}
			if r.Scheme == "ethereal" && r.Load > r.Optimum*1.0201 {
				t.Errorf("%v: %v is not within the slack of 2 %% of %v", key, r.Load, r.Optimum)
			}
			if r.Optimum > r.LoadBound*1.05 {
				t.Errorf("%v: the linear program's %v is far from its bound %v", key, r.Optimum, r.LoadBound)
			}
		}
	}
	const (
		message = 80.0 // us, 4 MB at 400 Gb/s
		shift   = "permutation by 1 groups 4MB"
		uniform = "all-to-all 4MB"
	)
	load := func(failure, traffic, scheme string) float64 {
		list := got[[3]string{failure, traffic, scheme}]
		if len(list) != 3 {
			t.Fatalf("%s, %s, %s: %d results of three seeds", failure, traffic, scheme, len(list))
		}
		return slices.MaxFunc(list, func(x, y Result) int { return cmp.Compare(x.Load, y.Load) }).Load
	}
	// The group's a*p hosts share one global link (Kim et al. 2008, section 4).
	if x := load("healthy", shift, "minimal"); math.Abs(x-8*message) > 1e-6 {
		t.Errorf("adversary, minimal: %v us, want a*p messages", x)
	}
	// Each global channel has one in g-2 of the a*p flows of two groups: on their way out, and on their way in.
	if x := load("healthy", shift, "valiant"); math.Abs(x-2*8*message/7) > 1e-6 {
		t.Errorf("adversary, Valiant: %v us, want 2*a*p/(g-2) messages", x)
	}
	for _, failure := range []string{"healthy", "g0-g1 cut"} {
		u, v, m := load(failure, shift, "ugal"), load(failure, shift, "valiant"), load(failure, shift, "minimal")
		if u > 1.2*v || u > m/2 {
			t.Errorf("%s, adversary: UGAL's %v is not near Valiant's %v, minimal %v", failure, u, v, m)
		}
		u, v, m = load(failure, uniform, "ugal"), load(failure, uniform, "valiant"), load(failure, uniform, "minimal")
		if u > 0.9*v || u < 0.9*m {
			t.Errorf("%s, uniform: UGAL's %v is not between minimal %v and Valiant's %v", failure, u, m, v)
		}
	}
}

// TestExamples: all examples can be read.
func TestExamples(t *testing.T) {
	for name, runs := range map[string]int{"compare": 126, "large": 84, "all-reduce": 36} {
		e, err := Load("examples/" + name + ".yaml")
		if err != nil || e.Runs() != runs {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRates: a load is a time, so that a global link of half the rate has twice as much of the adversary's.
func TestRates(t *testing.T) {
	e, err := Parse("test.yaml", []byte("name: x\nfabric: {p: 2, a: 4, h: 2, global_link: {rate: 200Gb/s, delay: 1us}}\n"+
		"traffic: [{kind: permutation, shift_groups: 1, bytes: 1MB}]\nschemes: [minimal]\n"))
	if err != nil {
		t.Fatal(err)
	}
	err = Run(t.Context(), e, func(r Result) {
		if want := 8 * 40.0; math.Abs(r.Load-want) > 1e-6 {
			t.Errorf("%v us, want %v", r.Load, want)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestParts follows what every scheme does with every flow: its bytes go by paths from its router to the other's, over
// no dead link. Loads are alike when it is done again.
func TestParts(t *testing.T) {
	for _, spec := range []dragonfly.Spec{
		{HostsPerRouter: 2, RoutersPerGroup: 4, GlobalLinks: 2},
		{HostsPerRouter: 2, RoutersPerGroup: 3, GlobalLinks: 2, Groups: 3, Arrangement: dragonfly.Absolute},
		{HostsPerRouter: 2, RoutersPerGroup: 2, GlobalLinks: 1, Groups: 2},
	} {
		f, err := dragonfly.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		var dead []int
		for _, name := range []string{"g0r0-g0r1", "g0-g1"} {
			if l, err := f.LinkByName(name); err == nil && f.Groups() > 2 {
				dead = append(dead, l)
			}
		}
		n := newNet(f, dead)
		for _, traffic := range []Traffic{{Kind: "permutation", Bytes: 100_000}, {Kind: "all-to-all", Bytes: 1 << 20}} {
			r, err := newRun(t.Context(), n, traffic, 7)
			if err != nil {
				t.Fatal(err)
			}
			flows := r.steps[0].flows
			for _, text := range []string{
				"minimal", "valiant", "valiant(by=router)", "ugal", "ugal(by=router,sees=path)",
				"spritz", "spritz(by=router,mode=scout)", "spritz(scale=0)",
				"ethereal", "ethereal(by=group)", "ethereal(knows=sender,slack=0)",
			} {
				parsed, err := scenario.ParseScheme(text)
				if err != nil {
					t.Fatal(err)
				}
				s, err := newScheme(parsed)
				if err != nil {
					t.Fatal(err)
				}
				parts, err := r.assign(s, r.steps[0])
				if err != nil {
					t.Fatal(err)
				}
				sum := make([]float64, len(flows))
				for _, p := range parts {
					at := f.Hosts() + f.RouterOf(flows[p.flow].src)
					for _, c := range p.path {
						from, to := f.Ends(c)
						if from != at || n.isDead(c) {
							t.Fatalf("%+v, %s: a path of %v leads over %s", spec, text, flows[p.flow], f.LinkName(int(c/2)))
						}
						at = to
					}
					if at != f.Hosts()+f.RouterOf(flows[p.flow].dst) {
						t.Fatalf("%+v, %s: a path of %v ends at %s", spec, text, flows[p.flow], f.NodeName(at))
					}
					sum[p.flow] += p.bytes
				}
				for i, x := range flows {
					if f.RouterOf(x.src) != f.RouterOf(x.dst) && math.Abs(sum[i]-float64(x.bytes)) > 1e-6*float64(x.bytes) {
						t.Fatalf("%+v, %s: %v bytes of %v are sent", spec, text, sum[i], x)
					}
				}
				again, err := r.assign(s, r.steps[0])
				if err != nil {
					t.Fatal(err)
				}
				if d := gocmp.Diff(n.loads(flows, parts), n.loads(flows, again)); d != "" {
					t.Errorf("%+v, %s: not the same when done again:\n%s", spec, text, d)
				}
			}
		}
	}
}

// TestErrors: what is wrong with a file is said where it is.
func TestErrors(t *testing.T) {
	const fabric = "name: x\nfabric: {p: 1, a: 4, h: 2}\n"
	const rest = "traffic: [{kind: permutation, bytes: 1MB}]\nschemes: [minimal]\n"
	for text, want := range map[string]string{
		"name: x\nfabric: {p: 0, a: 4, h: 2}\n" + rest:                           "fabric.p",
		"name: x\nfabric: {p: 1, a: 4, h: 2, groups: 12}\n" + rest:               "fabric.groups",
		fabric + "traffic: []\nschemes: [minimal]\n":                             "traffic",
		fabric + "traffic: [{kind: chat, bytes: 1MB}]\nschemes: [minimal]\n":     "traffic[0]",
		fabric + "traffic: [{kind: permutation, bytes: 1MB}]\nschemes: [reps]\n": "schemes[0]",
		fabric + rest + "failures: [{name: cut, links: [g0-g99]}]\n":             "failures[0].links[0]",
		fabric + rest + "failures: [{name: cut, links: [h0-g0r0]}]\n":            "failures[0].links[0]",
		fabric + rest + "failures: [{name: cut}, {name: cut}]\n":                 "failures[1].name",
	} {
		if _, err := Parse("test.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), " "+want+": ") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestParted: links whose cut parts the fabric are an error, not a result.
func TestParted(t *testing.T) {
	e, err := Parse("test.yaml", []byte("name: x\nfabric: {p: 1, a: 1, h: 2}\ntraffic: [{kind: all-to-all, bytes: 1MB}]\n"+
		"schemes: [minimal]\nfailures: [{name: parted, links: [g0-g1, g0-g2]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	err = Run(t.Context(), e, func(Result) {})
	if err == nil || !strings.Contains(err.Error(), "no path with one detour from g0r0") {
		t.Errorf("%v", err)
	}
}

// FuzzParse: no file makes the parser panic, and what it accepts can be carried out.
func FuzzParse(f *testing.F) {
	data, err := os.ReadFile(example)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("name: x\nfabric: {p: 1, a: 2, h: 1}\ntraffic: [{kind: permutation, bytes: 1B, shift_groups: 1}]\n" +
		"schemes: [{name: spritz, params: {scale: 1e3}}, ugal, ethereal]\nfailures: [{name: cut, links: [g0-g1]}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := Parse("fuzz.yaml", data)
		if err != nil {
			return
		}
		f, err := dragonfly.New(e.Fabric)
		if err != nil {
			t.Fatal(err)
		}
		if f.Hosts() > 16 || e.Runs() > 4 || e.Traffic[0].Bytes > 1<<20 {
			return
		}
		err = Run(t.Context(), e, func(Result) {})
		if err != nil && !strings.Contains(err.Error(), "no path with one detour") {
			t.Error(err)
		}
	})
}
