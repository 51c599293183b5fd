package recording

import (
	"bytes"
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// TestOtherWorlds: of a run whose world reports its timeline only, that and the use of links are recorded, whether it
// was reported as it happened or with the result; and a trace of it can be read.
func TestOtherWorlds(t *testing.T) {
	f := small(t).Fabric
	result := &report.Result{
		Scenario: "other", Fabric: f.Spec(), EndTime: 10, Finished: true, Links: make([]report.LinkLoad, 2*f.Links()),
		Timeline:    []report.Event{{Time: 2, Kind: report.KindCut, Where: "tor0-spine0"}, {Time: 5, Kind: report.KindDone, Where: "h1", Text: "rank finished"}},
		FlipRecords: []report.FlipEvent{{Time: 3, Host: "h0", QP: 7, From: 0, To: 1, Reason: "quench"}},
	}
	result.Links[0].Share = 0.5
	record := New(f, Options{})
	record.Happened(report.EventAt(4*fabric.Microsecond, "write", "tor1", "3 updates"))
	alone, err := FromResult(result)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		r    *Recording
		want []report.Kind
	}{{alone, []report.Kind{report.KindCut, report.KindCut, report.KindFlip, "done"}}, {record.End(result), []report.Kind{"write"}}} {
		var trace bytes.Buffer
		if err := c.r.Write(&trace); err != nil {
			t.Fatal(err)
		}
		r, err := Read(t.Context(), &trace)
		if err != nil {
			t.Fatal(err)
		}
		v := r.View()
		if len(v.Ticks) != 1 || v.Use[0] != viewUse/2 || len(v.Events) != len(c.want) {
			t.Errorf("%d ticks, use %v, events %+v", len(v.Ticks), v.Use, v.Events)
			continue
		}
		for i, k := range c.want {
			if report.Kind(v.Events[i].Kind) != k {
				t.Errorf("event %d is %q, want %q", i, v.Events[i].Kind, k)
			}
		}
	}
}

// TestViewSums: ticks that put readings together keep the mean use and the longest queue, and count marks.
func TestViewSums(t *testing.T) {
	r := small(t)
	dirs, readings := 2*r.Fabric.Links(), 1000
	r.Readings, r.Links, r.Instants = nil, make([]LinkReading, readings*dirs), nil
	for k := range readings {
		r.Readings = append(r.Readings, fabric.Time(k+1)*fabric.Microsecond)
		r.Links[k*dirs+1] = LinkReading{Use: uint16(k % 2 * useUnit), Peak: int32(k)}
		r.Instants = append(r.Instants, Instant{At: r.Readings[k], Kind: Mark, Node: 2, Dir: 1, Count: 2, Cause: -1})
	}
	v := r.View()
	if len(v.Ticks) > viewTicks || len(v.Use) != len(v.Ticks)*dirs || len(v.Queue) != 2*len(v.Use) {
		t.Fatalf("%d ticks, %d uses, %d bytes of queues", len(v.Ticks), len(v.Use), len(v.Queue))
	}
	marks, use, longest := 0, 0, 0.0
	for i := 0; i < len(v.Marks); i += 3 {
		marks += v.Marks[i+2]
	}
	for k := range v.Ticks {
		i := k*dirs + 1
		use += int(v.Use[i])
		longest = max(longest, float64(uint16(v.Queue[2*i])|uint16(v.Queue[2*i+1])<<8)*v.QueueUnit)
	}
	if mean := float64(use) / float64(len(v.Ticks)) / viewUse; marks != 2*readings || mean < 0.49 || mean > 0.51 || longest != float64(readings-1) {
		t.Errorf("%d marks, mean use %.3f, longest queue %.0f", marks, mean, longest)
	}
}

// TestLinkChanges: each direction that a change of a link concerns has its instant, however the change was reported; a
// link that loses some packets is none that is cut.
func TestLinkChanges(t *testing.T) {
	f := small(t).Fabric
	link, err := f.LinkByName("tor0-spine0")
	if err != nil {
		t.Fatal(err)
	}
	up, down := sim.Upward(link), sim.Downward(link)
	both := []sim.LinkDir{up, down}
	for _, exact := range []bool{false, true} {
		for _, c := range []struct {
			text string
			kind report.Kind
			dirs []sim.LinkDir
		}{
			{"", report.KindCut, both}, {"upward only", report.KindCut, both[:1]}, {"downward only", report.KindCut, both[1:]},
			{"loses 1% of the packets ", Impair, both}, {"loses 1% of the packets upward only", Impair, both[:1]},
			{"degraded to 1Gb/s down", Impair, both[1:]}, {"degraded to 1Gb/s", Impair, both},
		} {
			r := New(f, Options{})
			r.exact = exact // the network reports cuts then
			want := append([]sim.LinkDir{}, c.dirs...)
			if exact && c.kind == report.KindCut {
				want = nil
			}
			r.Happened(report.EventAt(1, report.KindCut, "tor0-spine0", c.text))
			var got []sim.LinkDir
			for _, i := range r.r.Instants {
				if i.Kind != c.kind {
					t.Errorf("%q: %s", c.text, i.Kind)
				}
				got = append(got, i.Dir)
			}
			if !slices.Equal(got, want) {
				t.Errorf("exact %v, %q: directions %v, want %v", exact, c.text, got, want)
			}
			r.Happened(report.EventAt(2, report.KindRestore, "tor0-spine0", ""))
			if n := len(r.r.Instants) - len(got); n != 2 && (!exact || c.kind != report.KindCut || n != 0) {
				t.Errorf("exact %v, %q: restored by %d instants", exact, c.text, n)
			}
		}
	}
}
