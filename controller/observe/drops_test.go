package observe

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestDropsTake: what a switch has dropped before it was first asked is not known to grow, and a switch that was
// started again counts from 0.
func TestDropsTake(t *testing.T) {
	d := Drops{}
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	grew := func(s int64) *time.Time { x := at(s); return &x }
	for i, step := range []struct {
		said, want []Drop
	}{
		{[]Drop{{Reason: "full", Packets: 7}}, []Drop{{Reason: "full", Packets: 7}}},
		{[]Drop{{Reason: "full", Packets: 7}, {Reason: "new", Packets: 2}},
			[]Drop{{Reason: "full", Packets: 7}, {Reason: "new", Packets: 2, New: 2, Grew: grew(1)}}},
		{[]Drop{{Reason: "full", Packets: 9}, {Reason: "new", Packets: 2}}, []Drop{
			{Reason: "full", Packets: 9, New: 2, Grew: grew(2)}, {Reason: "new", Packets: 2, Grew: grew(1)}}},
		{[]Drop{{Reason: "full", Packets: 1}}, []Drop{{Reason: "full", Packets: 1, New: 1, Grew: grew(3)}}},
	} {
		d.Store(3, at(int64(i)), step.said)
		got, _ := d.ReasonsOf(3)
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("step %d: %s", i, diff)
		}
	}
}

// TestDropsBounded: a switch that says too much is not kept whole.
func TestDropsBounded(t *testing.T) {
	d := Drops{}
	said := make([]Drop, 10*maxReasons)
	said[0].Remedy = strings.Repeat("x", 2*maxReason)
	d.Store(3, time.Now(), said)
	if kept := d.bySwitch[3].reasons; len(kept) != maxReasons || cap(kept) > 2*maxReasons || kept[0].Remedy != "" {
		t.Errorf("%d reasons are kept", len(kept))
	}
}
