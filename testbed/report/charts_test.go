package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// swept returns made-up results of a sweep over a time.
func swept() []*Result {
	var out []*Result
	for _, detection := range []string{"0us", "10us", "1ms"} {
		for i, r := range made(fabric.Spec{Kind: fabric.KindFatTree, K: 4}, 1, 2) {
			r.Variant = map[string]string{"failures[1].events[*].detection": detection}
			r.RunSHA256 = detection + string(rune('a'+i))
			r.UplinkLoads = []float64{0, 0.5, 1}
			out = append(out, r)
		}
	}
	return out
}

func TestChartsAreXML(t *testing.T) {
	charts := Charts(swept())
	names := map[string]bool{}
	for _, c := range charts {
		if names[c.Name] {
			t.Errorf("two charts are named %s", c.Name)
		}
		names[c.Name] = true
		dec := xml.NewDecoder(strings.NewReader(c.SVG()))
		for {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
		}
		if strings.Contains(c.SVG(), "NaN") {
			t.Errorf("%s: a coordinate is no number", c.Name)
		}
	}
	for _, want := range []string{"cct-demo-healthy-detection-10us", "detection-all-to-all-16mb-demo-tor0-agg0-cut-quench",
		"uplink-load-all-to-all-16mb-demo-healthy-detection-0us"} {
		if !names[want] {
			t.Errorf("no chart %s", want)
		}
	}
}

// TestDistinct: of a run that is there twice the last result counts.
func TestDistinct(t *testing.T) {
	a, b, c := &Result{RunSHA256: "x", Seed: 1}, &Result{RunSHA256: "y", Seed: 2}, &Result{RunSHA256: "x", Seed: 3}
	free := &Result{}
	if got := Distinct([]*Result{a, free, b, c, free}); len(got) != 4 || got[0] != free || got[1] != b || got[2] != c {
		t.Errorf("got %v", got)
	}
}

func TestSummary(t *testing.T) {
	var table, lines, page bytes.Buffer
	if err := Summary(&table, swept()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"all-to-all 16MB, demo, healthy, detection=10us  (lower bound 309.4 us, step bound 312.5 us)", "ethereal      2", "2 of 2 did not finish"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
	if err := CSV(&lines, swept()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(lines.String(), "\n"); n != 1+len(swept()) {
		t.Errorf("%d lines of CSV", n)
	}
	if err := HTML(&page, swept(), Page{Charts: true}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), `id="charts"`) || !strings.Contains(page.String(), "detection=1ms") {
		t.Error("the page lacks charts, or what varied")
	}
}

// TestLegendHasTheDashedBar: a bar of runs that did not finish is explained, and only where there is one.
func TestLegendHasTheDashedBar(t *testing.T) {
	c := Chart{Groups: []string{"healthy"}, Series: []Series{{Name: "ecmp", Points: []Point{{Y: 1}}}}}
	if strings.Contains(c.SVG(), ">"+unfinishedBar+"<") {
		t.Error("all runs finished, and the legend has a dashed bar")
	}
	c.Series[0].Points[0].Missing = true
	if svg := c.SVG(); !strings.Contains(svg, ">"+unfinishedBar+"<") {
		t.Errorf("the legend lacks the dashed bar:\n%s", svg)
	}
}
