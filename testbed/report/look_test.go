package report

import (
	"strings"
	"testing"
)

// TestLooks: no two schemes look alike, in colour or in shape, and a scheme looks the same whatever it stands beside.
func TestLooks(t *testing.T) {
	colors, marks := map[string]string{}, map[string]string{}
	for _, s := range schemes {
		l := lookOf(s)
		mark := l.shape
		if l.hollow {
			mark += " hollow"
		}
		if other, ok := colors[l.color()]; ok {
			t.Errorf("%s and %s have one colour", s, other)
		}
		if other, ok := marks[mark]; ok {
			t.Errorf("%s and %s have one shape", s, other)
		}
		colors[l.color()], marks[mark] = s, s
	}
	if lookOf("mp-rdma(ways=2)") != lookOf("mp-rdma(ways=8)") {
		t.Error("a scheme's parameters change its colour")
	}
	if l := lookOf("somebody's own"); l.hue < len(schemes) || l.hue >= len(palette) {
		t.Errorf("an unknown scheme has colour %d", l.hue)
	}
	all := []string{"ecmp", "mp-rdma(ways=2)", "mp-rdma(ways=8)"}
	if dashes(all[1], all) != "" || dashes(all[2], all) == "" {
		t.Error("lines of one scheme with other parameters look alike")
	}
	page := render(t, made(demoFabric), Page{})
	for _, scheme := range []string{"ethereal", "ecmp"} {
		if !strings.Contains(page, `<div class="bar `+lookOf(scheme).class()+`"`) {
			t.Errorf("no bar has the colour of %s", scheme)
		}
	}
}

func TestStory(t *testing.T) {
	us := func(v float64) *float64 { return &v }
	run := func(scheme, failure, notifier string, t *float64) *Result {
		r := &Result{Scenario: "s", Scheme: scheme, Collective: "all-to-all", Failure: failure, Notifier: notifier, CCT: t, Bound: us(300), End: Finished}
		if t == nil {
			r.End = Deadline
		}
		return r
	}
	for _, c := range []struct {
		name string
		rs   []*Result
		want string
	}{
		{"none", nil, ""},
		{"alone", []*Result{run("ecmp", "healthy", "none", us(450))}, "ecmp takes 1.50× to 1.50× the lower bound in 1 case."},
		{"ahead", []*Result{run("ecmp", "healthy", "none", us(400)), run("ethereal", "healthy", "none", us(310))},
			"ethereal is fastest, or within 1 % of the fastest, in 1 of 1 case. " +
				"Its largest lead over the next: all-to-all 0B, healthy, 310.0 µs against ecmp's 400.0 µs (1.29×)."},
		{"behind", []*Result{
			run("ethereal", "healthy", "none", us(310)), run("spray", "healthy", "none", us(309)),
			run("ethereal", "cut", "gnmi", us(600)), run("spray", "cut", "gnmi", us(400)),
		}, "ethereal is fastest, or within 1 % of the fastest, in 1 of 2 cases. " +
			"It is behind in 1; most in all-to-all 0B, cut, gnmi, 600.0 µs against spray's 400.0 µs (1.50×)."},
		{"not finished", []*Result{run("ethereal", "cut", "timeout", us(1500)), run("ecmp", "cut", "timeout", nil)},
			"ethereal is fastest, or within 1 % of the fastest, in 1 of 1 case. ecmp did not finish in 1 of 1."},
	} {
		if got := strings.Join(Story(c.rs), " "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestDuration(t *testing.T) {
	for us, want := range map[float64]string{313.6: "313.6 µs", 2577844.3: "2578 ms", 67.577e6: "67.58 s", 1554: "1554 µs"} {
		if got := durationText(us); got != want {
			t.Errorf("%v: %s, want %s", us, got, want)
		}
	}
}
