package scenario

import (
	"reflect"
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestChaos: a seed draws the same failures each time, as many as asked for; each is undone, in time, and none cuts off
// what the one before it needs.
func TestChaos(t *testing.T) {
	for _, spec := range []fabric.Spec{
		{Kind: fabric.KindFatTree, K: 4}, {Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 4, HostsPerToR: 2},
		{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 2}, // no two failures have no switch in common
	} {
		f, err := fabric.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		const times = 200
		const period, longest = 100 * fabric.Microsecond, 90 * fabric.Microsecond
		c := Failure{Events: []Event{{
			At: fabric.Millisecond, Action: Chaos, Times: times, Period: period, Down: longest, Detection: fabric.Microsecond,
		}}}
		events := c.Drawn(f, 7)
		if !reflect.DeepEqual(events, c.Drawn(f, 7)) {
			t.Error("the same seed draws other failures")
		}
		if reflect.DeepEqual(events, c.Drawn(f, 8)) {
			t.Error("another seed draws the same failures")
		}
		if len(events) != 2*times || !slices.IsSortedFunc(events, func(a, b Event) int { return int(a.At - b.At) }) {
			t.Fatalf("%d events for %d failures, or not in order", len(events), times)
		}
		kinds := map[string]int{}
		var on []Event
		for _, e := range events {
			if e.Action == Restore {
				i := slices.IndexFunc(on, func(x Event) bool { return x.Link == e.Link && x.Node == e.Node })
				if i < 0 {
					t.Fatalf("%v: %v is restored and has not failed", e.At, e)
				}
				if lasted := e.At - on[i].At; lasted <= 0 || lasted > longest {
					t.Errorf("%v: %v after %v", e.At, e, lasted)
				}
				on = slices.Delete(on, i, i+1)
				continue
			}
			for _, other := range on {
				for _, id := range other.nodes(f) {
					if slices.Contains(e.nodes(f), id) {
						t.Errorf("%v: %v while %v", e.At, e, other)
					}
				}
			}
			kind := string(e.Action)
			if e.Node != "" {
				kind += " node"
			}
			kinds[kind]++
			on = append(on, e)
		}
		if len(on) > 0 || kinds["cut"] < 100 || kinds["gray"] < 20 || kinds["cut node"] < 5 {
			t.Errorf("%v: %v, left %v", spec.Kind, kinds, on)
		}
	}
}
