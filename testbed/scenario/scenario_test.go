package scenario

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/goldentest"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/balance"
)

const demo = "../scenarios/demo.yaml"

func load(t testing.TB, path string) *Scenario {
	t.Helper()
	s, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDemo(t *testing.T) {
	got := load(t, demo)
	link := fabric.LinkSpec{Rate: 400 * fabric.Gbps, Delay: 500 * fabric.Nanosecond}
	want := Default() // the demo writes the defaults out
	want.Name, want.Description = "demo", got.Description
	want.Fabric = fabric.Spec{Kind: fabric.KindFatTree, K: 4, HostLink: link, ToRUplink: link, AggUplink: link}
	want.Collectives = []Collective{
		{Kind: "all-to-all", Bytes: 16e6},
		{Kind: "all-reduce", Algorithm: "halving-doubling", Bytes: 16e6},
	}
	want.Schemes = []Scheme{{Name: Ethereal}, {Name: ECMP}}
	want.Failures = []Failure{{Name: "healthy"}, {
		Name: "tor0-agg0 cut",
		Events: []Event{{At: 20 * fabric.Microsecond, Link: "tor0-agg0", Action: Cut,
			Detection: 10 * fabric.Microsecond}},
		Notifiers: []Notifier{NotifyTimeout, NotifyQuench, NotifyGNMI},
	}}
	want.Deadline = 20 * fabric.Millisecond
	if d := cmp.Diff(&want, got); d != "" {
		t.Errorf("demo.yaml (-want +got):\n%s", d)
	}
}

func TestExpandDemo(t *testing.T) {
	runs, err := load(t, demo).Expand()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, r := range runs {
		if r.Index != i {
			t.Errorf("run %d has index %d", i, r.Index)
		}
		got = append(got, r.String())
	}
	want := []string{
		"healthy, all-to-all 16MB, ethereal, seed 1",
		"healthy, all-to-all 16MB, ecmp, seed 1",
		"healthy, all-reduce/halving-doubling 16MB, ethereal, seed 1",
		"healthy, all-reduce/halving-doubling 16MB, ecmp, seed 1",
	}
	for _, c := range []string{"all-to-all 16MB", "all-reduce/halving-doubling 16MB"} {
		for _, n := range []string{"timeout", "quench", "gnmi"} {
			for _, s := range []string{"ethereal", "ecmp"} {
				want = append(want, "tor0-agg0 cut, "+c+", "+n+", "+s+", seed 1")
			}
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("runs (-want +got):\n%s", d)
	}
	r := runs[len(runs)-1]
	if want := "016-tor0-agg0-cut-all-reduce-halving-doubling-16MB-gnmi-ecmp-seed-1"; r.Slug() != want {
		t.Errorf("slug %q, want %q", r.Slug(), want)
	}
	id, _ := r.Fabric.LinkByName("tor0-agg0")
	events := []LinkEvent{{At: 20 * fabric.Microsecond, Link: id, Detection: 10 * fabric.Microsecond}}
	if d := cmp.Diff(events, r.Events); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	if runs[0].Notifier != NotifyNone || runs[0].Events != nil {
		t.Errorf("the healthy run has notifier %q and events %v", runs[0].Notifier, runs[0].Events)
	}
	if c := r.CollectiveSpec(); c.Ranks != 16 || c.Bytes != 16e6 || c.Validate() != nil {
		t.Errorf("collective %+v: %v", c, c.Validate())
	}
}

// TestGood reads every file in testdata/good and every shipped scenario.
func TestGood(t *testing.T) {
	for _, path := range scenarioFiles(t) {
		if _, err := load(t, path).Expand(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func scenarioFiles(t testing.TB) []string {
	var out []string
	for _, pattern := range []string{"testdata/good/*.yaml", "../scenarios/*.yaml", "../../mininet/experiments/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: no files: %v", pattern, err)
		}
		for _, p := range paths {
			if !strings.HasSuffix(p, ".fabric.yaml") {
				out = append(out, p)
			}
		}
	}
	return out
}

// TestBad compares the messages for each file in testdata/bad with the .txt
// beside it.
func TestBad(t *testing.T) {
	paths, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, ".fabric.yaml") {
			continue
		}
		_, err := Load(path)
		if !errors.Is(err, strictyaml.ErrContent) {
			t.Errorf("%s: error %v, want one that is strictyaml.ErrContent", path, err)
			continue
		}
		got := filepath.ToSlash(err.Error()) + "\n"
		goldentest.Compare(t, strings.TrimSuffix(path, ".yaml")+".txt", got)
	}
}

func TestFabricReference(t *testing.T) {
	s := load(t, "testdata/good/reference.yaml")
	if s.Fabric.Kind != fabric.KindLeafSpine || s.Fabric.ToRs != 4 {
		t.Errorf("fabric %+v, want the one of small.fabric.yaml", s.Fabric)
	}
	if _, err := Parse("x.yaml", []byte("fabric: small.fabric.yaml"), nil); err == nil ||
		!strings.Contains(err.Error(), "x.yaml:1:9: fabric: a file cannot be named here") {
		t.Errorf("a reference without files: %v", err)
	}
}

func TestNodeEvents(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	c := Failure{Events: []Event{
		{At: 1, Link: "tor0-agg0", Action: Cut},
		{At: 2, Node: "agg0", Action: Cut},
		{At: 3, Node: "agg0", Action: Restore},
	}}
	events, err := c.LinkEvents(f, 1)
	if err != nil {
		t.Fatal(err)
	}
	count := map[fabric.Time]int{}
	for _, e := range events {
		count[e.At]++
		if e.Up != (e.At == 3) {
			t.Errorf("event %+v", e)
		}
	}
	// agg0 has 4 links; one of them was cut before.
	if d := cmp.Diff(map[fabric.Time]int{1: 1, 2: 3, 3: 4}, count); d != "" {
		t.Errorf("link events by time (-want +got):\n%s", d)
	}
}

func TestOverride(t *testing.T) {
	s := load(t, demo)
	o, err := s.Override(Override{Seeds: Seeds{7, 8}, Schemes: []string{"ecmp"}, Notifiers: []Notifier{NotifyAll}})
	if err != nil {
		t.Fatal(err)
	}
	runs, err := o.Expand()
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 8 || runs[0].Seed != 7 || runs[7].Notifier != NotifyAll || runs[0].Notifier != NotifyNone {
		t.Errorf("%d runs, from %v to %v", len(runs), runs[0], runs[len(runs)-1])
	}
	if len(s.Seeds) != 1 || len(s.Schemes) != 2 || len(s.Failures[1].Notifiers) != 3 {
		t.Errorf("the scenario itself changed: %+v", s)
	}
	_, err = s.Override(Override{Schemes: []string{"etheral"}})
	if want := `scenario: schemes[0]: unknown scheme "etheral"; did you mean ethereal? (one of ` + strings.Join(SchemeNames(), ", ") + `)`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestParseSeeds(t *testing.T) {
	for text, want := range map[string]Seeds{
		"7": {7}, "1..3": {1, 2, 3}, "1, 5..6": {1, 5, 6}, "18446744073709551615..18446744073709551615": {1<<64 - 1},
	} {
		got, err := ParseSeeds(text)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, d)
		}
	}
	for _, text := range []string{"", "x", "-1", "3..1", "0..99999999", "1..", "0..18446744073709551615"} {
		if got, err := ParseSeeds(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

func TestNotARegularFile(t *testing.T) {
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/*/*.yaml", "../scenarios/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, p := range paths {
			data, err := os.ReadFile(p)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	read := func(string) ([]byte, error) { return []byte("kind: fat-tree\nk: 4\n"), nil }
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("fuzz.yaml", data, read)
		if err != nil {
			var es strictyaml.Errors
			if !errors.As(err, &es) || len(es) == 0 {
				t.Fatalf("error %T %v, want Errors", err, err)
			}
			for _, e := range es {
				if e.Line < 1 || e.Problem == "" {
					t.Errorf("error without place or text: %+v", e)
				}
			}
			return
		}
		// What Parse lets through is valid.
		if err := s.Validate(); err != nil {
			t.Errorf("parsed, and invalid: %v", err)
		}
	})
}

// TestAliasBomb reads a file that would be ten million values if its aliases
// were written out.
func TestAliasBomb(t *testing.T) {
	text := "name: bomb\nfailures:\n  - &a {name: x, notifiers: [" + strings.Repeat("gnmi, ", 10_000) + "]}\n" +
		strings.Repeat("  - *a\n", 1000)
	_, err := Parse("bomb.yaml", []byte(text), nil)
	if err == nil || !strings.Contains(err.Error(), "too much to read") {
		t.Errorf("error %.200v, want one about size", err)
	}
}

// Receivers are those of package transport, and what the scheme has: none is silently taken for a default.
func TestReceivers(t *testing.T) {
	for r, want := range map[Receiver]transport.Receiver{
		GoBackN: transport.GoBackN, SelectiveRepeat: transport.SelectiveRepeat, IdealReceiver: transport.Ideal, SchemeReceiver: transport.Ideal,
	} {
		if got := r.For(balance.Spray); got != want {
			t.Errorf("%s of spray is %v, want %v", r, got, want)
		}
	}
	if got := SchemeReceiver.For(ECMP); got != transport.GoBackN {
		t.Errorf("ecmp's is %v", got)
	}
}
