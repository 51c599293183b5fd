package cases

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// TestScenarios: every drawn case is a scenario that can be run.
func TestScenarios(t *testing.T) {
	classes := map[Class]int{}
	for i := range 2000 {
		c := Draw(1, i)
		classes[c.Class]++
		if i%20 == 0 {
			same(t, c)
		}
		runs, err := c.runs(Options{})
		if err != nil {
			t.Fatalf("%s\n%s%v", c.Text, c.Jobs, err)
		}
		for _, r := range runs {
			if err := r.Ready(); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Log(classes)
	for _, class := range Classes() {
		if classes[class] < 40 {
			t.Errorf("%d of 2000 cases are %s", classes[class], class)
		}
	}
}

// TestKinds: every case drawn on a fabric of a kind is a scenario that can be run.
func TestKinds(t *testing.T) {
	for _, kind := range Kinds() {
		for i := range 500 {
			c := DrawKind(kind, 1, i)
			if i%20 == 0 {
				same(t, c)
			}
			runs, err := c.runs(Options{})
			if err != nil {
				t.Fatalf("%s\n%s%v", c.Text, c.Jobs, err)
			}
			for _, r := range runs {
				pxn := r.Scenario.Servers.CrossRail == scenario.ByServer
				if err := r.Ready(); err != nil || r.Fabric.Clos() == (kind == fabric.KindDragonfly) || pxn != (kind == kindRails) {
					t.Fatalf("%s\n%v", c.Text, err)
				}
			}
		}
	}
}

// TestControl: any rate control may replace the one of a case, and a wrong name is refused.
func TestControl(t *testing.T) {
	for i := range 300 {
		runs, err := Draw(1, i).runs(Options{Control: transport.CSIG, Opponents: []string{"srd"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			if err := r.Ready(); err != nil || r.Scenario.Host.CongestionControl != transport.CSIG {
				t.Fatalf("%s, %v", r.Scenario.Host.CongestionControl, err)
			}
		}
	}
	if _, err := Draw(1, 0).runs(Options{Control: "cisg"}); err == nil || !strings.Contains(err.Error(), "csig") {
		t.Errorf("an unknown rate control: %v", err)
	}
}

// same checks that a case read from its file is the case.
func same(t *testing.T, c Case) {
	t.Helper()
	path, err := c.Write(t.TempDir(), "bound", "runs")
	if err != nil {
		t.Fatal(err)
	}
	l, violated, err := Load(path)
	if err != nil || len(violated) != 2 {
		t.Fatalf("%s: %v, violates %v", path, err, violated)
	}
	got := Case{Name: l.Name, Class: l.Class, Allowed: l.Allowed, Threshold: l.Threshold, Patient: l.Patient}
	want := Case{Name: c.Name, Class: c.Class, Allowed: c.Allowed, Threshold: c.Threshold, Patient: c.Patient}
	if got != want {
		t.Errorf("%s reads as %+v, want %+v", path, got, want)
	}
}

// TestFixed: a seed and an index mean the same case for ever. Raise [Version] with the digest.
func TestFixed(t *testing.T) {
	h := sha256.New()
	for seed := range uint64(3) {
		for i := range 200 {
			c := Draw(seed, i)
			io.WriteString(h, c.Text+c.Jobs+fmt.Sprint(c.Class, c.Allowed)) //nolint:errcheck // a hash takes all
		}
	}
	const version, digest = 2, "0b7831e6b2cd7b9518a4af41e880ebc5eb9f85769c5aaa39ca6aaf6fc910ba95"
	if got := fmt.Sprintf("%x", h.Sum(nil)); Version == version && got != digest {
		t.Errorf("cases of version %d have the digest %s, and had %s: raise Version", Version, got, digest)
	}
}

var rewrite = flag.Bool("rewrite", false, "write into the files of testdata what the cases violate")

// TestRegressions: the cases that once violated invariants violate none that their files do not list.
func TestRegressions(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	run := virtual.Runner()
	for _, path := range files {
		if strings.HasSuffix(path, "-jobs.yaml") {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			c, known, err := Load(path)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Evaluate(context.Background(), c, Options{Run: run})
			if err != nil {
				t.Fatal(err)
			}
			if *rewrite {
				if _, err := c.Write("testdata", r.Violated...); err != nil {
					t.Fatal(err)
				}
				return
			}
			for _, name := range Faults(r.Violated) {
				if !slices.Contains(known, name) {
					t.Errorf("violates %s: %s", name, r)
				}
			}
			for _, name := range known {
				if !slices.Contains(r.Violated, name) {
					t.Logf("no longer violates %s: -rewrite removes it from the file", name)
				}
			}
		})
	}
}

// TestEvaluate carries a few cases out, and repeats one.
func TestEvaluate(t *testing.T) {
	o := Options{Run: virtual.Runner()}
	for i := range 5 {
		c := Draw(7, i)
		r, err := Evaluate(context.Background(), c, o)
		if err != nil {
			t.Fatal(err)
		}
		ratio, _ := r.Ratio()
		behind, _ := r.Behind()
		t.Logf("%d %s %s: %.2f %.2f %v %s", i, r.Class, r.What, ratio, behind, r.Violated, r.Error)
		if r.Error != "" {
			t.Errorf("%s%s", c.Text, r.Error)
		}
		if i == 0 {
			again, err := Evaluate(context.Background(), c, o)
			if err != nil || again.Healthy.Events != r.Healthy.Events {
				t.Errorf("the same case has other events, %v", err)
			}
		}
	}
}
