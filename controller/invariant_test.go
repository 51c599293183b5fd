package controller

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/ratio"
)

func mustFabric(tb testing.TB, s fabric.Spec) *fabric.Fabric {
	tb.Helper()
	f, err := fabric.New(s)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func testConfig(f *fabric.Fabric) Config {
	return Config{
		Fabric: f, Instance: "test", CarrierV4: UDPSourcePort, CarrierV6: FlowLabel,
		ECN:              ECN{Kmin: 800_000, Kmax: 800_000, Pmax: 1, Unit: 256},
		QuenchIntervalUs: 10, ControlPriority: 7, HashSeed: 1,
	}
}

func mustCore(tb testing.TB, cfg Config) *Core {
	tb.Helper()
	c, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// drawSpec draws a small fabric of either kind, partial pods included.
func drawSpec(t *rapid.T) fabric.Spec {
	count := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	if rapid.Bool().Draw(t, "two tiers") {
		return fabric.Spec{
			Kind: fabric.KindLeafSpine, ToRs: count("tors", 2, 6), Spines: count("spines", 1, 5),
			HostsPerToR: count("hosts", 1, 2),
		}
	}
	aggs := count("aggs", 1, 4)
	return fabric.Spec{
		Kind: fabric.KindFatTree, Pods: count("pods", 1, 4), ToRsPerPod: count("tors", 1, 3),
		AggsPerPod: aggs, Cores: aggs * count("agg uplinks", 1, 4), HostsPerToR: count("hosts", 1, 2),
	}
}

func upLinks(f *fabric.Fabric) []fabric.LinkID {
	var ls []fabric.LinkID
	for id := f.Hosts(); id < f.Links(); id++ {
		ls = append(ls, fabric.LinkID(id))
	}
	return ls
}

// desired returns all switches' full tables.
func desired(c *Core) map[fabric.NodeID][]Entry {
	m := map[fabric.NodeID][]Entry{}
	for i := range c.f.Switches() {
		id := fabric.NodeID(c.f.Hosts() + i)
		m[id] = c.Desired(id)
	}
	return m
}

// apply makes one update as a switch would, refusing what a switch refuses.
func apply(entries []Entry, u Update) ([]Entry, error) {
	i, found := slices.BinarySearchFunc(entries, u.Entry.Key, func(e Entry, k Key) int { return e.Compare(k) })
	switch {
	case u.Op == Insert && found:
		return nil, fmt.Errorf("%v: exists", u)
	case u.Op != Insert && !found:
		return nil, fmt.Errorf("%v: not found", u)
	case u.Op == Insert:
		return slices.Insert(entries, i, u.Entry), nil
	case u.Op == Delete:
		return slices.Delete(entries, i, i+1), nil
	}
	entries[i] = u.Entry
	return entries, nil
}

// checkWalks follows all packets through the tables: no loop, nothing lost that
// has a path, and, where even is set, the same share on every live path.
func checkWalks(f *fabric.Fabric, tables map[fabric.NodeID][]Entry, live func(fabric.LinkID) bool, reachable func(src, dst fabric.NodeID) bool, even bool) error {
	w := walker{f: f, tables: map[fabric.NodeID]*walkTables{}, live: live}
	for id, es := range tables {
		w.tables[id] = newWalkTables(es)
	}
	for s := range f.ToRs() {
		src := f.ToRID(s)
		for h := range f.Hosts() {
			host := fabric.NodeID(h)
			dst := f.ToROf(host)
			if !live(fabric.LinkID(h)) {
				continue
			}
			for _, addr := range []netip.Addr{f.HostAddr4(host), f.HostAddr6(host)} {
				perPath := map[string]float64{}
				for _, o := range w.walk(src, addr, noLabel) {
					if o.lost != "" && (reachable(src, dst) || strings.HasSuffix(o.lost, "loop")) {
						return fmt.Errorf("from %s to %v (%s): %s", f.Name(src), addr, f.Name(host), o.lost)
					}
					if o.lost == "" && o.host != host {
						return fmt.Errorf("from %s to %v: delivered to %s, not %s", f.Name(src), addr, f.Name(o.host), f.Name(host))
					}
					perPath[fmt.Sprint(o.hops)] += o.share
				}
				if !even || !reachable(src, dst) || src == dst {
					continue
				}
				n := len(livePaths(f, src, dst, live))
				if len(perPath) != n {
					return fmt.Errorf("from %s to %s: %d paths used of %d live ones", f.Name(src), f.Name(host), len(perPath), n)
				}
				for p, share := range perPath {
					if math.Abs(share-1/float64(n)) > 1e-9 {
						return fmt.Errorf("from %s to %s: path %s carries %v, not 1/%d", f.Name(src), f.Name(host), p, share, n)
					}
				}
			}
		}
	}
	return nil
}

// checkLabels follows labelled packets: on a live path they keep to it exactly.
func checkLabels(f *fabric.Fabric, tables map[fabric.NodeID][]Entry, live func(fabric.LinkID) bool) error {
	w := walker{f: f, tables: map[fabric.NodeID]*walkTables{}, live: live}
	for id, es := range tables {
		w.tables[id] = newWalkTables(es)
	}
	for s := range f.ToRs() {
		for d := range f.ToRs() {
			src, dst := f.ToRID(s), f.ToRID(d)
			host, _ := f.HostsOf(dst)
			if s == d || !live(fabric.LinkID(host)) {
				continue
			}
			alive := livePaths(f, src, dst, live)
			for _, l := range f.PathLabels(src, dst) {
				outs := w.walk(src, f.HostAddr4(host), int(l))
				want, _ := f.Path(nil, src, dst, l)
				if slices.Contains(alive, l) {
					if len(outs) != 1 || outs[0].lost != "" || !slices.Equal(outs[0].hops[:len(want)], want) {
						return fmt.Errorf("label %d from %s to %s goes %+v, not %v", l, f.Name(src), f.Name(dst), outs, want)
					}
					continue
				}
				for _, o := range outs {
					if strings.HasSuffix(o.lost, "loop") {
						return fmt.Errorf("label %d from %s to %s: %s", l, f.Name(src), f.Name(dst), o.lost)
					}
				}
			}
		}
	}
	return nil
}

// follower carries a core's deltas over to tables and checks them on the way.
type follower struct {
	c      *Core
	tables map[fabric.NodeID][]Entry
	before []bool // which links were up at the last carryOut
}

func newFollower(c *Core) *follower {
	fo := &follower{c: c, tables: desired(c), before: make([]bool, c.f.Links())}
	for l := range fo.before {
		fo.before[l] = c.LinkUp(fabric.LinkID(l))
	}
	return fo
}

// carryOut applies what the core wants written. With stepwise set it checks after
// every single update that no packet is lost that had a path before and has one
// after. A link that is going down carries packets until nobody uses it, as in a
// drain, and one that came up carries them already: what the link itself loses
// is not the tables' fault.
func (fo *follower) carryOut(stepwise bool) error {
	f, c := fo.c.f, fo.c
	before := func(l fabric.LinkID) bool { return fo.before[l] }
	during := func(l fabric.LinkID) bool { return fo.before[l] || c.LinkUp(l) }
	both := func(src, dst fabric.NodeID) bool {
		return src == dst || len(livePaths(f, src, dst, before)) > 0 && len(livePaths(f, src, dst, c.LinkUp)) > 0
	}
	stage := -1
	for _, d := range c.Ready().Writes {
		if d.Stage < stage {
			return fmt.Errorf("stage %d after %d", d.Stage, stage)
		}
		stage = d.Stage
		phase := -1
		for _, u := range d.Updates {
			if u.Phase() < phase {
				return fmt.Errorf("%s: %v comes after phase %d", f.Name(d.Node), u, phase)
			}
			phase = u.Phase()
			var err error
			if fo.tables[d.Node], err = apply(fo.tables[d.Node], u); err != nil {
				return fmt.Errorf("%s: %w", f.Name(d.Node), err)
			}
			if !stepwise {
				continue
			}
			if err := checkWalks(f, fo.tables, during, both, false); err != nil {
				return fmt.Errorf("after %s: %v: %w", f.Name(d.Node), u, err)
			}
		}
	}
	for l := range fo.before {
		fo.before[l] = c.LinkUp(fabric.LinkID(l))
	}
	return nil
}

// check compares with the full tables and follows all packets through them.
func (fo *follower) check() error {
	f, c := fo.c.f, fo.c
	if diff := cmp.Diff(desired(c), fo.tables); diff != "" {
		return fmt.Errorf("deltas lead elsewhere than the full tables (-full +deltas):\n%s", diff)
	}
	reachable := func(src, dst fabric.NodeID) bool {
		return src == dst || len(livePaths(f, src, dst, c.LinkUp)) > 0
	}
	if err := checkWalks(f, fo.tables, c.LinkUp, reachable, true); err != nil {
		return err
	}
	return checkLabels(f, fo.tables, c.LinkUp)
}

// setLink reports a link's state from both ends.
func setLink(tb interface{ Fatal(...any) }, c *Core, id fabric.LinkID, up bool) {
	l := c.f.Link(id)
	for _, e := range []fabric.End{l.A, l.B} {
		if err := c.PortState(0, e.Node, e.Port, up); err != nil {
			tb.Fatal(err)
		}
	}
}

// TestRandomFailures drives random link changes, several at a time, through the
// cores of random fabrics.
func TestRandomFailures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, err := fabric.New(drawSpec(t))
		if err != nil {
			t.Fatal(err)
		}
		cfg := testConfig(f)
		cfg.MaxGroupSize = 1024 // all weights exact
		c, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		fo := newFollower(c)
		links := upLinks(f)
		stepwise := rapid.IntRange(0, 9).Draw(t, "check every update") == 0
		for range rapid.IntRange(1, 5).Draw(t, "rounds") {
			for range rapid.IntRange(1, 4).Draw(t, "events") {
				link := f.Link(rapid.SampledFrom(links).Draw(t, "link"))
				end := link.A
				if rapid.Bool().Draw(t, "upper end") {
					end = link.B
				}
				if err := c.PortState(0, end.Node, end.Port, rapid.Bool().Draw(t, "up")); err != nil {
					t.Fatal(err)
				}
			}
			if err := fo.carryOut(stepwise); err != nil {
				t.Fatal(err)
			}
			if err := fo.check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestEveryChange takes a small fabric through every change of one link in every
// combination of the others, and checks every update on the way. It takes one
// combination in 41, a short run one in 401; set stride to 1 for all of them.
func TestEveryChange(t *testing.T) {
	f := mustFabric(t, fabric.Spec{
		Kind: fabric.KindFatTree, Pods: 2, ToRsPerPod: 1, AggsPerPod: 2, Cores: 4, HostsPerToR: 1,
	})
	links := upLinks(f)
	stride := 41
	if testing.Short() {
		stride = 401
	}
	for combination := 0; combination < 1<<len(links); combination += stride {
		c := mustCore(t, testConfig(f))
		for i, id := range links {
			setLink(t, c, id, combination>>i&1 == 1)
		}
		c.Ready()
		fo := newFollower(c)
		for _, id := range links {
			for range 2 { // there and back
				setLink(t, c, id, !c.LinkUp(id))
				if err := fo.carryOut(true); err != nil {
					t.Fatalf("links up %b, %s: %v", combination, f.LinkName(id), err)
				}
			}
		}
		if err := fo.check(); err != nil {
			t.Fatalf("links up %b: %v", combination, err)
		}
	}
}

// TestNoAddressLoops sends packets to addresses nobody has.
func TestNoAddressLoops(t *testing.T) {
	for _, spec := range []fabric.Spec{
		{Kind: fabric.KindFatTree, K: 4},
		{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 2, HostsPerToR: 2},
	} {
		f := mustFabric(t, spec)
		c := mustCore(t, testConfig(f))
		w := walker{f: f, tables: map[fabric.NodeID]*walkTables{}, live: c.LinkUp}
		for id, es := range desired(c) {
			w.tables[id] = newWalkTables(es)
		}
		for pod := range 6 {
			for tor := range 6 {
				for host := range 8 {
					for _, a := range []netip.Addr{
						netip.AddrFrom4([4]byte{10, byte(pod), byte(tor), byte(host)}),
						netip.AddrFrom4([4]byte{11, byte(pod), byte(tor), byte(host)}),
						netip.AddrFrom16([16]byte{0xfd, 0, 0, 0xe7, 0, byte(pod), 0, byte(tor), 15: byte(host)}),
					} {
						if _, known := f.HostByAddr(a); known {
							continue
						}
						for s := range f.ToRs() {
							for _, o := range w.walk(f.ToRID(s), a, noLabel) {
								if !strings.HasSuffix(o.lost, "no route") {
									t.Fatalf("%v: %+v", a, o)
								}
							}
						}
					}
				}
			}
		}
	}
}

func TestDesiredIsSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, err := fabric.New(drawSpec(t))
		if err != nil {
			t.Fatal(err)
		}
		c, err := New(testConfig(f))
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range rapid.SliceOf(rapid.SampledFrom(upLinks(f))).Draw(t, "down") {
			setLink(t, c, id, false)
		}
		for id, es := range desired(c) {
			for i := range es[:len(es)-1] {
				if es[i].Compare(es[i+1].Key) >= 0 {
					t.Fatalf("%s: %v before %v", f.Name(id), es[i], es[i+1])
				}
			}
			if us := Diff(es, es); len(us) != 0 {
				t.Fatalf("%s: differs from itself: %v", f.Name(id), us)
			}
		}
	})
}

func TestReduce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, fabric.MaxUplinks).Draw(t, "uplinks")
		limit := rapid.IntRange(n, 256).Draw(t, "limit")
		var w weights
		sum := 0
		for i := range n {
			w[i] = rapid.Uint8Range(0, fabric.MaxUplinks).Draw(t, "weight")
			sum += int(w[i])
		}
		r := reduceToLimit(w, n, limit)
		size, div := 0, 0
		for i := range w {
			if (w[i] == 0) != (r[i] == 0) {
				t.Fatalf("uplink %d has weight %d for %d paths", i, r[i], w[i])
			}
			size, div = size+int(r[i]), ratio.GCD(div, int(r[i]))
		}
		if size > limit || sum > 0 && div != 1 {
			t.Fatalf("sum %d, limit %d, common divisor %d", size, limit, div)
		}
		// Of a group of the limit's size, rounding alone can cost a member one
		// share, and a smaller group will do within the tolerance; see that no
		// member gets more than that over its due.
		for i := range w {
			due := float64(w[i]) / float64(max(sum, 1))
			if over := float64(r[i])/float64(size) - due; sum > 0 && over > max(float64(n)/float64(limit), shareTolerance*due) {
				t.Fatalf("uplink %d gets %d/%d instead of %d/%d", i, r[i], size, w[i], sum)
			}
		}
	})
}
