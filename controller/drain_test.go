package controller

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// allDesired returns the desired tables of all switches.
func (c *Core) allDesired() (out [][]Entry) {
	for i := range c.f.Switches() {
		out = append(out, c.Desired(fabric.NodeID(c.f.Hosts()+i)))
	}
	return out
}

// TestDrain takes links out of use and back, among failures, and checks that
// tables are as if they had failed, that no packet is lost on the way, and that
// Severed says who would be, and Users whose
// tables change.
func TestDrain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, err := fabric.New(drawSpec(t))
		if err != nil {
			t.Skip(err)
		}
		c, err := New(testConfig(f))
		if err != nil {
			t.Fatal(err)
		}
		fo := newFollower(c)
		drained := map[fabric.LinkID]bool{}
		links := upLinks(f)
		for range rapid.IntRange(1, 6).Draw(t, "events") {
			id := rapid.SampledFrom(links).Draw(t, "link")
			if rapid.Bool().Draw(t, "fails") {
				setLink(t, c, id, rapid.Bool().Draw(t, "up"))
				if err := fo.carryOut(false); err != nil {
					t.Fatal(err)
				}
				continue
			}
			src, dst, severed := c.SeveredToRs([]fabric.LinkID{id})
			without := func(l fabric.LinkID) bool { return l != id && c.LinkUp(l) }
			any := false
			for a := range f.ToRs() {
				for b := range f.ToRs() {
					a, b := f.ToRID(a), f.ToRID(b)
					cut := a != b && len(livePaths(f, a, b, c.LinkUp)) > 0 && len(livePaths(f, a, b, without)) == 0
					any = any || cut
					if (a == src && b == dst) && severed && !cut {
						t.Fatalf("%s and %s are said to lose their paths", f.Name(a), f.Name(b))
					}
				}
			}
			if any != severed {
				t.Fatalf("without %s: severed %v, want %v", f.LinkName(id), severed, any)
			}
			drained[id] = !drained[id]
			before, wasUp := c.allDesired(), c.LinkUp(id)
			if err := c.Drain(0, id, drained[id]); err != nil {
				t.Fatal(err)
			}
			var changed []fabric.NodeID
			for i, es := range c.allDesired() {
				if len(Diff(before[i], es)) > 0 {
					changed = append(changed, fabric.NodeID(f.Hosts()+i))
				}
			}
			if users := c.SwitchesUsing([]fabric.LinkID{id}); c.LinkUp(id) != wasUp && !slices.Equal(users, changed) {
				t.Fatalf("the tables of %v depend on %s; Users says %v", changed, f.LinkName(id), users)
			}
			if err := fo.carryOut(true); err != nil {
				t.Fatal(err)
			}
			if c.LinkUp(id) && drained[id] {
				t.Fatalf("%s is drained and in use", f.LinkName(id))
			}
		}
		if err := fo.check(); err != nil {
			t.Fatal(err)
		}
		for id, es := range fo.tables {
			if diff := cmp.Diff(es, c.Written(id)); diff != "" {
				t.Fatalf("%s: written (-applied +said):\n%s", f.Name(id), diff)
			}
		}
	})
}

func TestDrainRefused(t *testing.T) {
	c := mustCore(t, testConfig(mustFabric(t, fabric.Spec{Kind: fabric.KindFatTree, K: 4})))
	for _, tt := range []struct {
		err  error
		want string
	}{
		{c.Drain(0, 0, true), "h0-tor0 is a host's only link"},
		{c.Drain(0, 1000, true), "links are 0 to 47"},
		{second(c.DrainLinks(0)), "h0 cannot be drained"},
		{second(c.DrainLinks(c.f.ToRID(0))), "tor0 cannot be drained"},
		{second(c.DrainLinks(-1)), "no node -1"},
	} {
		if tt.err == nil || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("%v, want %q", tt.err, tt.want)
		}
	}
	ids, err := c.DrainLinks(c.f.AggID(1))
	if err != nil || len(ids) != 4 {
		t.Errorf("agg1: %v, %v", ids, err)
	}
	if len(c.Notices()) != 0 || c.Epoch() != 0 {
		t.Error("refused drains changed something")
	}
}

func second(_ []fabric.LinkID, err error) error { return err }
