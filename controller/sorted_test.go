package controller

import (
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestDesiredSorted: what a switch is to have is in the order of keys, which Diff relies on, whatever carries labels
// and however what has none is balanced.
func TestDesiredSorted(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, v6 := range []Carrier{UDPSourcePort, FlowLabel, MicroSegments} {
		for rule := range Rules() {
			c, err := New(Config{Fabric: f, CarrierV6: v6, Balancer: Balancing{Rule: Balance(rule), GapUs: 100, Unit: 256}})
			if err != nil {
				t.Fatalf("%v, %v: %v", v6, rule, err)
			}
			for i := range f.Switches() {
				id := fabric.NodeID(f.Hosts() + i)
				if es := c.Desired(id); !slices.IsSortedFunc(es, func(a, b Entry) int { return a.Compare(b.Key) }) {
					t.Errorf("%v, %v: %s's tables are not in order", v6, rule, f.Name(id))
				}
			}
		}
	}
}
