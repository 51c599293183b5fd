package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
)

type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func newCore(t fataler, spec fabric.Spec) *controller.Core {
	t.Helper()
	return newCoreOf(t, spec, controller.UDPSourcePort, controller.FlowLabel)
}

func newCoreOf(t fataler, spec fabric.Spec, v4, v6 controller.Carrier) *controller.Core {
	t.Helper()
	f, err := fabric.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	c, err := controller.New(controller.Config{
		Fabric: f, CarrierV4: v4, CarrierV6: v6, QuenchIntervalUs: 10, HashSeed: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func network(c *controller.Core) Network {
	f := c.Fabric()
	n := Network{Fabric: f, Tables: map[fabric.NodeID][]controller.Entry{}}
	for i := range f.Switches() {
		id := fabric.NodeID(f.Hosts() + i)
		n.Tables[id] = c.Desired(id)
	}
	n.Up = func(id fabric.LinkID) bool { r := c.LinkReport(id); return !r.DownA && !r.DownB }
	n.Drained = func(id fabric.LinkID) bool { return c.LinkReport(id).Drained }
	return n
}

func check(t fataler, n Network) Report {
	t.Helper()
	r, err := Check(context.Background(), n, Options{Problems: 3})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func setLink(t fataler, c *controller.Core, id fabric.LinkID, up bool) {
	t.Helper()
	l := c.Fabric().Link(id)
	for _, e := range []fabric.End{l.A, l.B} {
		if err := c.PortState(0, e.Node, e.Port, up); err != nil {
			t.Fatal(err)
		}
	}
}

var specs = []fabric.Spec{
	{Kind: fabric.KindFatTree, K: 4},
	{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 3, HostsPerToR: 2},
	{Kind: fabric.KindFatTree, Pods: 3, ToRsPerPod: 2, AggsPerPod: 3, Cores: 6, HostsPerToR: 1},
}

// TestCore proves the core's tables, whole and with failures and drains.
func TestCore(t *testing.T) {
	for _, spec := range specs {
		c := newCore(t, spec)
		r := check(t, network(c))
		if !r.OK() {
			t.Fatal(r.Problems[0].Format(c.Fabric()))
		}
		if want := c.Fabric().Links() - c.Fabric().Hosts(); r.Failures != want || r.Walks < 1000 {
			t.Errorf("%d walks, %d failures, want %d", r.Walks, r.Failures, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		segments := rapid.Bool().Draw(t, "segments")
		c := newCore(t, rapid.SampledFrom(specs).Draw(t, "spec"))
		if segments {
			c = newCoreOf(t, c.Fabric().Spec(), controller.NoCarrier, controller.MicroSegments)
		}
		for range rapid.IntRange(1, 6).Draw(t, "failures") {
			id := fabric.LinkID(rapid.IntRange(0, c.Fabric().Links()-1).Draw(t, "link"))
			if rapid.Bool().Draw(t, "drain") && int(id) >= c.Fabric().Hosts() {
				if _, _, severed := c.SeveredToRs([]fabric.LinkID{id}); severed {
					continue
				}
				if err := c.Drain(0, id, true); err != nil {
					t.Fatal(err)
				}
				continue
			}
			setLink(t, c, id, false)
		}
		n := network(c)
		n.Segments, n.NoLabels[0] = segments, segments
		if r := check(t, n); !r.OK() {
			t.Fatal(r.Problems[0].Format(c.Fabric()))
		}
	})
}

// TestMutants breaks every entry that packets depend on, one at a time, in turn:
// left out, and pointed elsewhere. Each has to be found.
func TestMutants(t *testing.T) {
	for _, spec := range specs[:2] {
		testMutants(t, newCore(t, spec), func(*Network) {})
		testMutants(t, newCoreOf(t, spec, controller.NoCarrier, controller.MicroSegments), func(n *Network) {
			n.Segments, n.NoLabels[0] = true, true
		})
		testMutants(t, newCoreOf(t, spec, controller.UDPSourcePort, controller.UDPSourcePort), without)
	}
}

// without has all switches be of a kind that sends no quench, and has no tables for it.
func without(n *Network) {
	for id, es := range n.Tables {
		n.Tables[id] = slices.DeleteFunc(es, func(e controller.Entry) bool {
			return e.Table < controller.ECMP && e.Table != controller.LabelCarrier
		})
	}
	n.NoQuench = func(fabric.NodeID) bool { return true }
}

// TestWithout proves tables of such switches, and counts what they drop without a word.
func TestWithout(t *testing.T) {
	for _, spec := range specs {
		c := newCoreOf(t, spec, controller.UDPSourcePort, controller.UDPSourcePort)
		n := network(c)
		without(&n)
		if r := check(t, n); !r.OK() || r.Unnotified == 0 {
			t.Errorf("%+v: %d walks without notification, problems %+v", spec, r.Unnotified, r.Problems)
		}
		n.NoQuench = nil
		if r := check(t, n); r.OK() || r.Problems[0].Kind != Silent {
			t.Errorf("%+v: if they had to notify: %+v", spec, r.Problems)
		}
		setLink(t, c, fabric.LinkID(c.Fabric().Hosts()), false)
		n = network(c) // as the controller has them after a failure
		without(&n)
		if r := check(t, n); !r.OK() {
			t.Errorf("%+v, a link down: %+v", spec, r.Problems)
		}
	}
}

// testMutants is of the network that as makes of a core's tables.
func testMutants(t *testing.T, c *controller.Core, as func(*Network)) {
	whole := network(c)
	as(&whole)
	found, kinds := 0, map[Kind]int{}
	for _, node := range []fabric.NodeID{c.Fabric().ToRID(0), c.Fabric().CoreID(0) - 1, c.Fabric().CoreID(0)} {
		for i, e := range whole.Tables[node] {
			var mutants []controller.Entry
			switch {
			case e.Action == controller.Deliver, e.Action == controller.ForwardDown, e.Table == controller.SourceRoute,
				e.Action == controller.ForwardUplink:
				other := e
				other.Args[0] = e.Args[0]%uint64(c.Fabric().Node(node).Ports()) + 1
				mutants = append(mutants, other)
			case e.Table == controller.SourceGuard:
				for arg := range 3 {
					other := e
					other.Args[arg]++
					mutants = append(mutants, other)
				}
				other := e
				other.Value.Lo = uint64(c.Fabric().Node(node).FirstUplink())
				mutants = append(mutants, other)
			case e.Table == controller.OwnSegment:
				other := e
				other.Value.Lo++
				mutants = append(mutants, other)
			case e.Action == controller.ForwardUp:
				other := e
				other.Args[0] = 999
				mutants = append(mutants, other)
			case e.Table == controller.ECMP:
				other := e
				other.Members = []controller.Member{{Port: 1, Weight: 1}}
				mutants = append(mutants, other)
			case e.Table == controller.PortOfUplink:
				other := e
				other.Args[0] = 1
				mutants = append(mutants, other)
			default:
				continue
			}
			// Without port_of_uplink there is one way round less; without source_guard nothing is dropped.
			if e.Table != controller.PortOfUplink && e.Table != controller.SourceGuard {
				mutants = append(mutants, controller.Entry{})
			}
			for _, m := range mutants {
				n := whole
				n.Tables = map[fabric.NodeID][]controller.Entry{}
				maps.Copy(n.Tables, whole.Tables)
				es := slices.Clone(whole.Tables[node])
				if m.Action == controller.NoAction {
					es = slices.Delete(es, i, i+1)
				} else {
					es[i] = m
				}
				n.Tables[node] = es
				r := check(t, n)
				if r.OK() {
					t.Errorf("%s: %v in place of %v is not found", c.Fabric().Name(node), m, e)
					continue
				}
				found++
				kinds[r.Problems[0].Kind]++
			}
		}
	}
	t.Logf("%s, segments %v, no quench %v: %d mutants found: %v", c.Fabric().Spec().Kind, whole.Segments, whole.NoQuench != nil, found, kinds)
}

// TestDrained finds a switch that uses a drained link still.
func TestDrained(t *testing.T) {
	for _, spec := range specs {
		c := newCore(t, spec)
		before := network(c)
		id := fabric.LinkID(c.Fabric().Hosts())
		if err := c.Drain(0, id, true); err != nil {
			t.Fatal(err)
		}
		n := network(c)
		if r := check(t, n); !r.OK() || len(r.Cut) > 0 {
			t.Fatalf("%+v", r)
		}
		tor := c.Fabric().ToRID(0)
		n.Tables[tor] = before.Tables[tor]
		if r := check(t, n); r.OK() || r.Problems[0].Kind != OnDrained {
			t.Errorf("%+v: the ToR of %s has its old tables: %+v", spec, c.Fabric().LinkName(id), r.Problems)
		}
	}
}

// TestCut counts the pairs of ToRs that nothing joins.
func TestCut(t *testing.T) {
	for _, spec := range specs {
		c := newCore(t, spec)
		n := c.Fabric().Node(c.Fabric().ToRID(1))
		for p := n.FirstUplink(); int(p) <= n.Ports(); p++ {
			setLink(t, c, n.Link(p), false)
		}
		if r := check(t, network(c)); !r.OK() || len(r.Cut) != 2*(c.Fabric().ToRs()-1) {
			t.Errorf("%+v: pairs %v, problems %+v", spec, r.Cut, r.Problems)
		}
	}
}

// TestQuiet finds switches that do not answer.
func TestQuiet(t *testing.T) {
	c := newCore(t, specs[0])
	n := network(c)
	node := c.Fabric().CoreID(0)
	n.Tables[node] = slices.DeleteFunc(n.Tables[node], func(e controller.Entry) bool { return e.Table == controller.CloneSession })
	r := check(t, n)
	if r.OK() || r.Problems[0].Kind != Silent {
		t.Fatalf("problems %+v", r.Problems)
	}
	if s := r.Problems[0].Format(c.Fabric()); !strings.Contains(s, "failed") || !strings.Contains(s, "dropped at dead port") {
		t.Error(s)
	}
}

func ExampleProblem_Format() {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		panic(err)
	}
	c, err := controller.New(controller.Config{Fabric: f, CarrierV4: controller.UDPSourcePort, QuenchIntervalUs: 10})
	if err != nil {
		panic(err)
	}
	n := network(c)
	n.NoLabels = [2]bool{false, true}
	agg0 := f.AggID(0)
	n.Tables[agg0] = slices.DeleteFunc(n.Tables[agg0], func(e controller.Entry) bool { return e.Table == controller.ECMP })
	r, err := Check(context.Background(), n, Options{Problems: 1})
	if err != nil {
		panic(err)
	}
	fmt.Print(r.Problems[0].Format(f))
	// Output:
	// black hole: tor0 to h4, IPv4, no label
	//   tor0: route_v4 0.0.0.0/0 -> forward_up(group=0); ecmp 0 -> take_uplink {3 4}; port 3
	//   agg0: route_v4 0.0.0.0/0 -> forward_up(group=0)
	//   no ECMP group 0
}
