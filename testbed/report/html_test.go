package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
)

var (
	demoFabric  = fabric.Spec{Kind: fabric.KindFatTree, K: 4}
	largeFabric = fabric.Spec{Kind: fabric.KindFatTree, Pods: 8, ToRsPerPod: 4, AggsPerPod: 4, Cores: 16, HostsPerToR: 16}
	spineFabric = fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 4, HostsPerToR: 4}
)

// render returns the page, and leaves it in the test's artifacts for people to
// look at: go test -artifacts.
func render(t testing.TB, rs []*Result, p Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, rs, p); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), "report.html"), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// structure reads a page as markup, which fails on tags that do not match, and
// counts elements by name and class. It checks that coordinates are numbers,
// and that every link within the page has its target.
func structure(t *testing.T, page string) map[string]int {
	t.Helper()
	dec := xml.NewDecoder(strings.NewReader(page))
	dec.Strict = false
	dec.AutoClose = xml.HTMLAutoClose
	dec.Entity = xml.HTMLEntity
	count := map[string]int{}
	ids, refs := map[string]bool{}, map[string]bool{}
	coordinate := map[string]bool{"x": true, "y": true, "x1": true, "x2": true, "y1": true, "y2": true,
		"cx": true, "cy": true, "width": true, "height": true, "r": true}
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the page is not well formed: %v", err)
		}
		e, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		count[e.Name.Local]++
		for _, a := range e.Attr {
			switch {
			case a.Name.Local == "class":
				for c := range strings.FieldsSeq(a.Value) {
					count[e.Name.Local+"."+c]++
				}
			case a.Name.Local == "id":
				ids[a.Value] = true
			case a.Name.Local == "href":
				refs[strings.TrimPrefix(a.Value, "#")] = true
			case a.Name.Local == "src" || strings.HasPrefix(a.Name.Local, "on"):
				t.Errorf("<%s %s=%q>: the page must be self-contained", e.Name.Local, a.Name.Local, a.Value)
			case coordinate[a.Name.Local]:
				if v, err := strconv.ParseFloat(a.Value, 64); err != nil || math.IsNaN(v) || math.IsInf(v, 0) || strings.HasPrefix(a.Name.Local, "wh") && v < 0 {
					t.Errorf("<%s %s=%q>: not a coordinate", e.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
	}
	for r := range refs {
		if !ids[r] {
			t.Errorf("a link leads to #%s, which is not there", r)
		}
	}
	return count
}

func TestPageStructure(t *testing.T) {
	const links, ops, cases = 48, 2, 4 // the demo: healthy and three notifiers
	page := render(t, made(demoFabric), Page{Version: "v1.2.3"})
	got := structure(t, page)
	for _, c := range []struct {
		what  string
		count int
	}{
		{"section", 5},                         // times, loads, timeline, table, words
		{"div.bar", 16},                        // collectives x schemes x cases
		{"span.dnf", 2},                        // ECMP under timeout, once per collective
		{"line.load", 2 * links * 2 * 4 * 2},   // directions, collectives, cases, schemes
		{"figure", 16},                         // a map per run
		{"table", ops * 2},                     // healthy and cut
		{"span.badge", 2},                      // DNF
		{"rect.lost", 2 + 1},                   // and in the legend
		{"rect.exposed", ops*(cases-1) + 1},    // Ethereal's lanes
		{"script", 1}, {"link", 0}, {"img", 0}, //
	} {
		if got[c.what] != c.count {
			t.Errorf("%d of %s, want %d", got[c.what], c.what, c.count)
		}
	}
	for _, outside := range []string{"http://", "https://", "url(", "@import", "ZgotmplZ"} {
		if strings.Contains(page, outside) {
			t.Errorf("the page contains %q", outside)
		}
	}
	for _, want := range []string{"did not finish", "v1.2.3", "not finished at the deadline", "tor0 → agg0", "fat-tree: 16 hosts, 20 switches"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if again := render(t, made(demoFabric), Page{Version: "v1.2.3"}); again != page {
		t.Error("equal results gave different pages")
	}
}

func TestLargeFabricIsMatrix(t *testing.T) {
	page := render(t, made(largeFabric), Page{})
	got := structure(t, page)
	if got["line.load"] != 0 || got["path.cell"] == 0 {
		t.Errorf("%d link lines and %d matrix paths, want only the latter", got["line.load"], got["path.cell"])
	}
	// Two directions of two tiers, in all 16 maps.
	cells := regexp.MustCompile(`h[0-9.]+v[0-9.]+h-[0-9.]+z`).FindAllString(page, -1)
	if want := 16 * 2 * (128 + 128); len(cells) != want {
		t.Errorf("%d cells, want %d", len(cells), want)
	}
}

func TestTwoTiers(t *testing.T) {
	rs := made(spineFabric)[:2]
	f, err := fabric.New(spineFabric)
	if err != nil {
		t.Fatal(err)
	}
	rs[0].Fabric = f.Spec() // with derived counts: no less good
	got := structure(t, render(t, rs, Page{}))
	if got["line.load"] != 2*2*32 {
		t.Errorf("%d link lines, want %d", got["line.load"], 2*2*32)
	}
}

func TestPageOfLittle(t *testing.T) {
	structure(t, render(t, nil, Page{Title: "nothing"}))
	structure(t, render(t, []*Result{{}}, Page{}))
	r := made(demoFabric)[6]
	r.Links, r.Timeline, r.FlipRecords, r.CCT, r.Bound = nil, nil, nil, nil, nil
	structure(t, render(t, []*Result{r}, Page{}))
}

// TestInterrupted: a run that was interrupted is not one that did not finish.
func TestInterrupted(t *testing.T) {
	rs := made(demoFabric)
	for i, r := range rs {
		if i%5 == 4 || i == 0 {
			r.CCT, r.Finished, r.End, r.EndTime = nil, false, Interrupted, 123.4
		}
	}
	var dnf, cut int
	for _, r := range rs {
		switch completionText(r) {
		case dnfText:
			dnf++
		case interruptedText:
			cut++
		}
	}
	page := render(t, rs, Page{})
	got := structure(t, page)
	for what, want := range map[string]int{"span.dnf": dnf, "span.badge": dnf + cut, "span.open": 2 * cut, "rect.lost": dnf + 1} {
		if got[what] != want {
			t.Errorf("%d of %s, want %d", got[what], what, want)
		}
	}
	for _, want := range []string{">INT<", "interrupted at 123.4 µs", ">interrupted<", "INT: ethereal, none, seed 1"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	// Of several seeds, each is counted for what it is.
	seeds := made(demoFabric, 1, 2, 3)[:3]
	seeds[0].CCT, seeds[0].End = nil, Interrupted
	seeds[1].CCT, seeds[1].End = nil, Stalled
	if got, want := sections(seeds)[0].rows[0].incomplete(), "1 of 3 did not finish, 1 of 3 interrupted"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPageEscapes(t *testing.T) {
	r := made(demoFabric)[6]
	evil := `"><script>alert(1)</script>`
	r.Scenario, r.Scheme, r.Failure, r.Collective = evil, evil, evil, evil
	page := render(t, []*Result{r}, Page{Version: evil, Command: evil, Sources: []Source{{evil, evil}}})
	if strings.Count(page, "<script") != 1 || strings.Contains(page, "alert(1)</script") {
		t.Error("the page lets markup from a result through")
	}
	structure(t, page)
}

func TestSeveralSeeds(t *testing.T) {
	got := structure(t, render(t, made(demoFabric, 1, 2, 3), Page{}))
	// A bar for each of 16 groups of seeds; those that finished have whiskers.
	if got["span.whisker"] != 14 || got["figure"] != 16 {
		t.Errorf("%d whiskers and %d maps, want 14 and 16", got["span.whisker"], got["figure"])
	}
}

// TestGlyphsDoNotOverlap places events at random times.
func TestGlyphsDoNotOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &Result{Timeline: []Event{{Time: 5, Kind: KindCut}}}
		for _, k := range Kinds() {
			for range rapid.IntRange(0, 3).Draw(t, "n") {
				r.Timeline = append(r.Timeline, Event{Time: 5 + rapid.Float64Range(0, 2000).Draw(t, "t"), Kind: k})
			}
		}
		p := newTimeline(resultSection{}, []*Result{r})
		marks := p.Lanes[0].Marks
		for i, m := range marks {
			if m.X < m.At || m.At < p.Left || m.At > p.Right {
				t.Fatalf("glyph at %v for an event at %v, axis %v to %v", m.X, m.At, p.Left, p.Right)
			}
			if i > 0 && m.X < marks[i-1].X+glyphStep {
				t.Fatalf("glyphs at %v and %v", marks[i-1].X, m.X)
			}
		}
	})
}

func TestTicks(t *testing.T) {
	labels := func(ts []tick) string {
		var out []string
		for _, k := range ts {
			if k.Label != "" {
				out = append(out, k.Label)
			}
		}
		return fmt.Sprint(out)
	}
	got := map[string]string{
		"linear 1528": labels(linear{1528, 0, 100}.ticks(6)),
		"linear 0.7":  labels(linear{0.7, 0, 100}.ticks(6)),
		"linear 0":    labels(linear{0, 0, 100}.ticks(6)),
		"log":         labels(logarithmic{0.1, 1500, 0, 100}.ticks()),
	}
	want := map[string]string{
		"linear 1528": "[0 500 1000 1500]", "linear 0.7": "[0 0.2 0.4 0.6]", "linear 0": "[0]", "log": "[0.1 1 10 100 1000]",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestBusy checks what colours mean: 12.5 MB at 100 Gb/s are 1000 us.
func TestBusy(t *testing.T) {
	if got := busyTime(LinkLoad{DataBytes: 12e6, ControlBytes: 5e5}, 100*fabric.Gbps); math.Abs(got-1000) > 1e-9 {
		t.Errorf("%v us, want 1000", got)
	}
	for v, want := range map[float64]string{0: "h0", 12.4: "h0", 12.6: "h1", 99: "h7", 100: "h7"} {
		if got := heatClass(v, 100); got != want {
			t.Errorf("%v of 100: %s, want %s", v, got, want)
		}
	}
}
