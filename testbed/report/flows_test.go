package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestFlows: percentiles by nearest rank, slowdowns, and classes of sizes.
func TestFlows(t *testing.T) {
	var all []FlowTime
	for i := 1000; i > 0; i-- {
		f := FlowTime{Bytes: 10_000, Took: fabric.Time(i) * fabric.Microsecond, Alone: 2 * fabric.Microsecond}
		if i > 500 {
			f.Bytes = 5_000_000
		}
		all = append(all, f)
	}
	r := made(demoFabric)[0]
	r.Collective, r.Flows = "workload/poisson", NewFlows(all)
	want := &Flows{
		Count: 1000, FCT: Quantiles{500.5, 500, 950, 990, 999, 1000}, Slowdown: Quantiles{250.25, 250, 475, 495, 499.5, 500},
		Sizes: []FlowSize{
			{10_000, 500, Quantiles{250.5, 250, 475, 495, 500, 500}, Quantiles{125.25, 125, 237.5, 247.5, 250, 250}},
			{10_000_000, 500, Quantiles{750.5, 750, 975, 995, 1000, 1000}, Quantiles{375.25, 375, 487.5, 497.5, 500, 500}},
		},
	}
	if d := cmp.Diff(want, r.Flows); d != "" {
		t.Errorf("flows (-want +got):\n%s", d)
	}
	texts := strings.Join(flowsTexts(r), "\n")
	for _, want := range []string{
		"1000 flows: FCT 500 us median, 990 us p99, 1 ms longest; slowdown 250.00 median, 495.00 p99, 500.00 largest",
		"500 flows up to 10MB: FCT 750 us median",
	} {
		if !strings.Contains(texts, want) {
			t.Errorf("no %q in\n%s", want, texts)
		}
	}
	var lines strings.Builder
	if err := CSV(&lines, []*Result{r}); err != nil || !strings.Contains(lines.String(), ",1000,500,990,1000,250,495,500") {
		t.Errorf("%v:\n%s", err, &lines)
	}
	if NewFlows(nil) != nil {
		t.Error("flows of nothing")
	}
}

// TestFlowsNull: a file by hand may have null where this program writes distributions.
func TestFlowsNull(t *testing.T) {
	rs, err := Decode(strings.NewReader(`{"collective":"workload/x","flows":{"count":1,"fct_us":null,"slowdown":null,"sizes":null}}`), "file")
	if err != nil {
		t.Fatal(err)
	}
	if cells := rs[0].csvFlows(); len(cells) != 7 || len(flowsTexts(rs[0])) != 1 {
		t.Errorf("%q, %q", cells, flowsTexts(rs[0]))
	}
}

// TestFlowsCSV: a line per message, by the time at which it was posted.
func TestFlowsCSV(t *testing.T) {
	var b strings.Builder
	err := FlowsCSV(&b, []FlowTime{
		{From: "h1", To: "h2", Bytes: 10, Posted: 2 * fabric.Microsecond, Took: 3 * fabric.Microsecond, Alone: 2 * fabric.Microsecond},
		{From: "h0", To: "h3", Bytes: 20, Took: fabric.Microsecond / 2, Alone: fabric.Microsecond},
	})
	want := "from,to,bytes,begin_us,fct_us,alone_us,slowdown\nh0,h3,20,0,0.5,1,0.5000\nh1,h2,10,2,3,2,1.5000\n"
	if diff := cmp.Diff(want, b.String()); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
