package controller

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
)

func balanced(t interface {
	Helper()
	Fatal(...any)
}, b Balancing) *Core {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Fabric: f, Balancer: b, HashSeed: 7})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func entriesOf(c *Core, node fabric.NodeID, t Table) (es []Entry) {
	for _, e := range c.Desired(node) {
		if e.Table == t {
			es = append(es, e)
		}
	}
	return es
}

// Each balancer has its line for data and for all else, slots for each group,
// and what else it needs.
func TestBalancers(t *testing.T) {
	for _, c := range []struct {
		b                              Balancing
		want                           string
		slots, groups, rotations, pods int // at a ToR; pods: rotations at an aggregation switch
	}{
		{Balancing{}, "", 0, 0, 0, 0},
		{Balancing{Rule: RobinSpray, Reshuffle: 5, DataOnly: true}, "balancer 1 -> spray_round_robin(wraps=5)", 2, 1, 0, 0},
		{Balancing{Rule: RobinSpray, Reshuffle: 5}, "balancer 0 -> spray_round_robin(wraps=5)", 2, 1, 0, 0},
		{Balancing{Rule: RandomSpray}, "balancer 0 -> spray_random", 2, 1, 0, 0},
		{Balancing{Rule: DestinationRotor}, "balancer 0 -> rotate_destinations", 2, 1, 14, 6},
		{Balancing{Rule: ShortestUplink, Unit: 256, Bins: [3]fabric.Bytes{256, 512, 1024}},
			"balancer 0 -> shortest_queue(unit_shift=8 bin1=1 bin2=2 bin3=4)", 4, 1, 0, 0},
		{Balancing{Rule: FlowletUplink, Unit: 256, GapUs: 16},
			"balancer 0 -> flowlets(mode=0 gap_us=16 cost=10 unit_cost=5)", 4, 1, 0, 0},
		{Balancing{Rule: BestUplinkByPacket, Unit: 1}, "balancer 0 -> flowlets(mode=2 gap_us=0 cost=10 unit_cost=1)", 4, 1, 0, 0},
	} {
		core := balanced(t, c.b)
		tor, agg := core.f.ToRID(0), core.f.AggID(0)
		if c.want == "" {
			if got := entriesOf(core, tor, Balancer); len(got) != 0 {
				t.Errorf("%+v: %v", c.b, got)
			}
		} else if got := entriesOf(core, tor, Balancer); (len(got) == 1) != c.b.DataOnly || got[0].String() != c.want {
			t.Errorf("%+v: %v, want %s", c.b, got, c.want)
		}
		got := []int{
			len(entriesOf(core, tor, UplinkSlot)), len(entriesOf(core, tor, UplinkGroup)),
			len(entriesOf(core, tor, RotationV4)) + len(entriesOf(core, tor, RotationV6)),
			len(entriesOf(core, agg, RotationV4)) + len(entriesOf(core, agg, RotationV6)),
		}
		if diff := cmp.Diff([]int{c.slots, c.groups, c.rotations, c.pods}, got); diff != "" {
			t.Errorf("%+v: %s", c.b, diff)
		}
		if c := core.f.CoreID(0); len(entriesOf(core, c, Balancer)) != 0 {
			t.Error("a core switch has nothing to balance")
		}
	}
}

// Shares come round by round in an order of the switch's own.
func TestSlots(t *testing.T) {
	c := balanced(t, Balancing{Rule: RandomSpray})
	n := c.f.Node(c.f.ToRID(0))
	out := c.appendSlots(nil, n, []Entry{{
		Key: exactKey(ECMP, 3), Members: []Member{{Port: 3, Weight: 2}, {Port: 4, Weight: 1}},
	}}, true)
	var ports []uint64
	for _, e := range out[:3] {
		ports = append(ports, e.Args[0])
	}
	if ports[0] == ports[1] || ports[2] != 3 {
		t.Errorf("slots %v; each port once, then port 3 again", ports)
	}
	if got, want := out[3].String(), "uplink_group 3 -> set_slots(slots=3 uplinks=3)"; got != want || len(out) != 4 {
		t.Errorf("%v, want %s last", out, want)
	}
}

// Whatever fails, deltas lead from the tables before to those after, and at no
// time between two phases does a group count slots that are not there.
func TestBalancerDeltas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := balanced(t, Balancing{Rule: rapid.SampledFrom([]Balance{RobinSpray, ShortestUplink}).Draw(t, "rule"), Unit: 256})
		tables := map[fabric.NodeID]map[Key]Entry{}
		for s := range c.f.Switches() {
			id := fabric.NodeID(c.f.Hosts() + s)
			tables[id] = map[Key]Entry{}
			for _, e := range c.Desired(id) {
				tables[id][e.Key] = e
			}
		}
		for range 8 {
			for range rapid.IntRange(1, 4).Draw(t, "changes") {
				l := c.f.Link(fabric.LinkID(rapid.IntRange(c.f.Hosts(), c.f.Links()-1).Draw(t, "link")))
				if err := c.PortState(0, l.A.Node, l.A.Port, rapid.Bool().Draw(t, "up")); err != nil {
					t.Fatal(err)
				}
			}
			for _, d := range c.Ready().Writes {
				has := tables[d.Node]
				for i, u := range d.Updates {
					if u.Op == Delete {
						delete(has, u.Entry.Key)
					} else {
						has[u.Entry.Key] = u.Entry
					}
					if i+1 < len(d.Updates) && d.Updates[i+1].Phase() == u.Phase() {
						continue
					}
					for _, g := range has {
						if g.Table != UplinkGroup {
							continue
						}
						for slot := range g.Args[0] {
							if _, ok := has[exactKey(UplinkSlot, g.Value.Lo<<8|slot)]; !ok {
								t.Fatalf("%s: after %v: %v, but slot %d is missing", c.f.Name(d.Node), u, g, slot)
							}
						}
					}
				}
			}
			for id, has := range tables {
				want := map[Key]Entry{}
				for _, e := range c.Desired(id) {
					want[e.Key] = e
				}
				if diff := cmp.Diff(want, has); diff != "" {
					t.Fatalf("%s: %s", c.f.Name(id), diff)
				}
			}
		}
	})
}

func TestBalancingErrors(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		b    Balancing
		size int
		want string
	}{
		{Balancing{Rule: Balance(len(rules))}, 0, "rule"},
		{Balancing{Rule: RobinSpray, Reshuffle: 256}, 0, "reshuffle"},
		{Balancing{Rule: ShortestUplink}, 0, "unit"},
		{Balancing{Rule: ShortestUplink, Unit: 1, Bins: [3]fabric.Bytes{3, 2, 1}}, 0, "bins"},
		{Balancing{Rule: RandomSpray}, 128, "MaxGroupSize"},
	} {
		err := Config{Fabric: f, Balancer: c.b, MaxGroupSize: c.size}.Validate()
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.b, err, c.want)
		}
	}
}
