package suspicion

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
)

func fatTree(t testing.TB, k int) *fabric.Fabric {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: k})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func newCore(t rapid.TB, cfg Config) *Core {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// world is a fabric that loses packets, with agents that report and probe.
type world struct {
	c        *Core
	f        *fabric.Fabric
	loss     map[fabric.LinkID]float64
	rng      *rand.Rand
	now      fabric.Time
	mute     bool // agents do not answer probes
	notified []Suspicion
}

// lossy reports the chance that a path loses a packet.
func (w *world) lossy(src, dst fabric.NodeID, l fabric.Label) float64 {
	keep := 1.0
	hops, _ := w.f.Path(nil, w.f.ToROf(src), w.f.ToROf(dst), l)
	for _, h := range hops {
		keep *= 1 - w.loss[h.Link]
	}
	return 1 - keep
}

// send has a host send a message on a path, which it reports if packets are lost.
func (w *world) send(src, dst fabric.NodeID, l fabric.Label) {
	if w.rng.Float64() < w.lossy(src, dst, l) {
		if err := w.c.Report(w.now, Report{Host: src, DstToR: w.f.ToROf(dst), Dst: dst, Label: l, Timeouts: 1}); err != nil {
			panic(err)
		}
	}
}

// allToAll has every host send to some others over every path.
func (w *world) allToAll(peers int) {
	for h := range w.f.Hosts() {
		for range peers {
			d := fabric.NodeID(w.rng.IntN(w.f.Hosts()))
			for _, l := range w.f.PathLabels(w.f.ToROf(fabric.NodeID(h)), w.f.ToROf(d)) {
				if hops, _ := w.f.Path(nil, w.f.ToROf(fabric.NodeID(h)), w.f.ToROf(d), l); !w.avoided(hops) {
					w.send(fabric.NodeID(h), d, l)
				}
			}
		}
	}
}

func (w *world) avoided(hops []fabric.Hop) bool {
	return slices.ContainsFunc(hops, func(h fabric.Hop) bool { return slices.Contains(w.c.Suspected(), h.Link) })
}

// run answers probes and lets time pass, for as long.
func (w *world) run(long fabric.Time) {
	for end := w.now + long; ; {
		r := w.c.Ready()
		w.notified = append(w.notified, r.Suspicions...)
		for _, p := range r.Probes {
			if w.mute {
				continue
			}
			lost := 0
			for range p.Packets {
				if w.rng.Float64() < w.lossy(p.Host, p.Dst, p.Label) {
					lost++
				}
			}
			w.c.ProbeResult(w.now+10*fabric.Microsecond, p.Host, p.ID, p.Packets, lost)
		}
		at, ok := w.c.Deadline()
		if len(r.Probes) > 0 {
			continue
		}
		if !ok || at > end {
			w.now = end
			return
		}
		if at < w.now {
			panic("a deadline in the past")
		}
		w.now = max(at, w.now+1)
		w.c.Tick(w.now)
	}
}

func newWorld(t rapid.TB, f *fabric.Fabric, cfg Config, dead ...fabric.LinkID) *world {
	cfg.Fabric = f
	w := &world{c: newCore(t, cfg), f: f, loss: map[fabric.LinkID]float64{}, rng: rand.New(rand.NewPCG(1, 2)), now: fabric.Millisecond}
	for _, id := range dead {
		w.loss[id] = 1
	}
	return w
}

func mustLink(t testing.TB, f *fabric.Fabric, name string) fabric.LinkID {
	t.Helper()
	id, err := f.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestBlackHole cuts one link of each tier in turn: it is found at once, no other
// is suspected, and it is cleared when it works again.
func TestBlackHole(t *testing.T) {
	f := fatTree(t, 4)
	for _, name := range []string{"tor0-agg0", "tor5-agg5", "agg0-core1", "agg7-core3"} {
		t.Run(name, func(t *testing.T) {
			id := mustLink(t, f, name)
			w := newWorld(t, f, Config{}, id)
			w.allToAll(8)
			w.run(fabric.Millisecond)
			want := []Suspicion{{Link: id, Suspected: true, Epoch: 1, At: fabric.Millisecond + 50*fabric.Microsecond}}
			if d := cmp.Diff(want, w.notified[:min(1, len(w.notified))]); d != "" {
				t.Fatalf("first word (-want +got):\n%s", d)
			}
			if d := cmp.Diff([]fabric.LinkID{id}, w.c.Suspected()); d != "" {
				t.Fatalf("suspected (-want +got):\n%s", d)
			}
			w.run(50 * fabric.Millisecond)
			if last := w.notified[len(w.notified)-1]; !last.Suspected || !last.Confirmed || len(w.notified) != 2 {
				t.Fatalf("a dead link is not confirmed: %+v", w.notified)
			}
			clear(w.loss)
			w.run(3 * fabric.Second)
			if len(w.c.Suspected()) > 0 {
				t.Fatalf("a link that works is still suspected: %+v", w.notified)
			}
		})
	}
}

// TestOneReport finds the link by probes alone: a ring's rank sends on one path
// only, and one agent's word is not enough.
func TestOneReport(t *testing.T) {
	f := fatTree(t, 4)
	hops, _ := f.Path(nil, f.ToRID(0), f.ToRID(7), f.LabelFor(1, 1))
	for i, h := range hops {
		w := newWorld(t, f, Config{}, h.Link)
		w.send(0, 15, f.LabelFor(1, 1))
		w.run(fabric.Millisecond)
		if d := cmp.Diff([]fabric.LinkID{h.Link}, w.c.Suspected()); d != "" {
			t.Errorf("hop %d, %s: suspected (-want +got):\n%s", i, f.LinkName(h.Link), d)
		}
	}
}

// TestPassing reports a time-out on a path that works: nothing stays suspected.
func TestPassing(t *testing.T) {
	f := fatTree(t, 4)
	w := newWorld(t, f, Config{})
	for i, h := range []fabric.NodeID{0, 1} { // two agents: suspected without probes at first
		for _, d := range []fabric.NodeID{8, 13} {
			if err := w.c.Report(w.now, Report{Host: h, DstToR: f.ToROf(d), Dst: d, Label: f.LabelFor(0, i), Timeouts: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.run(10 * fabric.Millisecond)
	if len(w.notified) != 2 || w.notified[1].Suspected {
		t.Errorf("notified of %+v, want a suspicion that is taken back", w.notified)
	}
}

// TestHosts has one host that does not answer, and one that cannot send: no link
// is blamed.
func TestHosts(t *testing.T) {
	f := fatTree(t, 8)
	for name, at := range map[string]func(h, other fabric.NodeID) (src, dst fabric.NodeID){
		"deaf": func(h, o fabric.NodeID) (src, dst fabric.NodeID) { return o, h },
		"mute": func(h, o fabric.NodeID) (src, dst fabric.NodeID) { return h, o },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, f, Config{})
			w.mute = true
			for o := range f.Hosts() {
				src, dst := at(5, fabric.NodeID(o))
				ls := f.PathLabels(f.ToROf(src), f.ToROf(dst))
				if len(ls) == 0 {
					continue
				}
				l := ls[w.rng.IntN(len(ls))]
				if err := w.c.Report(w.now, Report{Host: src, DstToR: f.ToROf(dst), Dst: dst, Label: l, Timeouts: 1}); err != nil {
					t.Fatal(err)
				}
			}
			w.run(10 * fabric.Millisecond)
			if len(w.notified) > 0 {
				t.Errorf("links were blamed: %+v", w.notified)
			}
		})
	}
}

// TestGray finds a link that loses one packet in five, keeps finding it, and
// probes it ever less often.
func TestGray(t *testing.T) {
	f := fatTree(t, 4)
	id := mustLink(t, f, "agg2-core0")
	w := newWorld(t, f, Config{})
	w.loss[id] = 0.2
	for range 200 {
		w.allToAll(2)
		w.run(fabric.Millisecond)
		if s := w.c.Suspected(); len(s) > 1 || len(s) == 1 && s[0] != id {
			t.Fatalf("suspected: %v", s)
		}
	}
	if d := cmp.Diff([]fabric.LinkID{id}, w.c.Suspected()); d != "" {
		t.Errorf("suspected (-want +got):\n%s", d)
	}
	if n := w.c.Stats().Probes; n > 100 {
		t.Errorf("%d probes in 200 ms", n)
	}
}

// TestUnheard drops a suspicion that no agent can probe, and one where agents
// never probe.
func TestUnheard(t *testing.T) {
	f := fatTree(t, 4)
	id := mustLink(t, f, "tor2-agg3")
	for name, cfg := range map[string]Config{"silent agents": {}, "no probes": {NoProbes: true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, f, cfg, id)
			w.mute = true
			w.allToAll(8)
			w.run(90 * fabric.Millisecond)
			if d := cmp.Diff([]fabric.LinkID{id}, w.c.Suspected()); d != "" {
				t.Fatalf("suspected (-want +got):\n%s", d)
			}
			w.run(50 * fabric.Millisecond)
			if len(w.c.Suspected()) > 0 {
				t.Errorf("still suspected: %+v", w.notified)
			}
		})
	}
}

// TestSilence has all agents fall silent after a suspicion was confirmed: probes
// become rare, and the suspicion ends.
func TestSilence(t *testing.T) {
	f := fatTree(t, 4)
	id := mustLink(t, f, "tor2-agg3")
	w := newWorld(t, f, Config{}, id)
	w.allToAll(8)
	w.run(10 * fabric.Millisecond)
	if w.c.Stats().Confirmed != 1 {
		t.Fatalf("not confirmed: %+v", w.notified)
	}
	w.mute = true
	before := w.c.Stats().Probes
	w.run(9 * fabric.Second)
	if d := cmp.Diff([]fabric.LinkID{id}, w.c.Suspected()); d != "" {
		t.Fatalf("suspected (-want +got):\n%s", d)
	}
	if n := w.c.Stats().Probes - before; n < 4 || n > 2*25 {
		t.Errorf("%d probes in 9 s that nobody answered", n)
	}
	w.run(2 * fabric.Second)
	if len(w.c.Suspected()) > 0 {
		t.Errorf("still suspected: %+v", w.notified)
	}
	if at, ok := w.c.Deadline(); ok {
		t.Errorf("waits for %v though nothing is open", at)
	}
}

// TestKnown: what a switch noticed needs no suspicion.
func TestKnown(t *testing.T) {
	f := fatTree(t, 4)
	id := mustLink(t, f, "tor2-agg3")
	w := newWorld(t, f, Config{}, id)
	w.c.LinkState(w.now, id, false)
	w.allToAll(8)
	w.run(10 * fabric.Millisecond)
	if len(w.notified) > 0 || w.c.Stats().Explained == 0 {
		t.Errorf("notified of %+v of a link that is known to be down; %+v", w.notified, w.c.Stats())
	}
	w.c.LinkState(w.now, id, true)
	w.allToAll(8)
	w.run(fabric.Millisecond)
	if len(w.notified) == 0 {
		t.Fatal("a link that is back and dead is not suspected")
	}
	w.c.LinkState(w.now, id, false)
	if s := w.c.Ready().Suspicions; len(s) != 1 || s[0].Suspected {
		t.Errorf("notified of %+v when the link was known to be down; want that it is not suspected any more", s)
	}
	if at, ok := w.c.Deadline(); ok {
		t.Errorf("waits for %v though nothing is open", at)
	}
}

// TestBadReports refuses what the fabric does not have, and one bad probe result
// after the other.
func TestBadReports(t *testing.T) {
	f := fatTree(t, 4)
	c := newCore(t, Config{Fabric: f})
	tor := f.ToRID(3)
	for _, r := range []Report{
		{Host: -1, DstToR: tor, Dst: NoHost}, {Host: 16, DstToR: tor, Dst: NoHost}, {Host: 0, DstToR: 3, Dst: NoHost},
		{Host: 0, DstToR: f.AggID(0), Dst: NoHost}, {Host: 0, DstToR: 99, Dst: NoHost}, {Host: 0, DstToR: f.ToRID(0), Dst: NoHost},
		{Host: 0, DstToR: tor, Dst: 0}, {Host: 0, DstToR: tor, Dst: NoHost, Label: 4}, {Host: 0, DstToR: tor, Dst: NoHost, Timeouts: -1},
	} {
		if err := c.Report(0, r); !errors.Is(err, ErrReport) {
			t.Errorf("%+v: error %v, want ErrReport", r, err)
		}
	}
	c.ProbeResult(0, 3, 7, 1, 1)
	c.LinkState(0, -1, false)
	c.LinkState(0, 1000, false)
	if r := c.Ready(); len(r.Probes)+len(r.Suspicions) > 0 {
		t.Errorf("bad input had an effect: %+v", r)
	}
	for _, cfg := range []Config{{}, {Fabric: f, Gather: -1}, {Fabric: f, Agents: -1}} {
		if _, err := New(cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: error %v, want ErrConfig", cfg, err)
		}
	}
}

// TestFindsWhatIsDead kills random links of random fabrics: all that traffic
// meets are found, nothing else is blamed for long, and all are cleared when they
// work again.
func TestFindsWhatIsDead(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := fabric.Spec{Kind: fabric.KindFatTree, K: 4}
		if rapid.Bool().Draw(rt, "two tiers") {
			spec = fabric.Spec{
				Kind: fabric.KindLeafSpine, ToRs: rapid.IntRange(3, 6).Draw(rt, "tors"),
				Spines: rapid.IntRange(2, 5).Draw(rt, "spines"), HostsPerToR: rapid.IntRange(2, 4).Draw(rt, "hosts"),
			}
		}
		f, err := fabric.New(spec)
		if err != nil {
			rt.Fatal(err)
		}
		var dead []fabric.LinkID
		for range rapid.IntRange(1, 3).Draw(rt, "failures") {
			id := fabric.LinkID(rapid.IntRange(f.Hosts(), f.Links()-1).Draw(rt, "link"))
			if !slices.Contains(dead, id) {
				dead = append(dead, id)
			}
		}
		slices.Sort(dead)
		for i := range f.ToRs() {
			n := f.Node(f.ToRID(i))
			cut := 0
			for u := range n.Uplinks() {
				if slices.Contains(dead, n.Link(n.FirstUplink()+fabric.PortNo(u))) {
					cut++
				}
			}
			if cut == n.Uplinks() {
				rt.Skip("a ToR is cut off: no link is to blame more than its hosts")
			}
		}
		findsWhatIsDead(rt, f, rapid.Uint64().Draw(rt, "seed"), dead...)
	})
}

// TestHiddenBlackHole has two dead links of one spine. Both working links of that spine are suspected first, since
// all their paths to the dead ones' ToRs fail; then no traffic goes by that spine, and one of the dead is not
// suspected. Probes must not take it again and again because of that.
func TestHiddenBlackHole(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 2, HostsPerToR: 2})
	if err != nil {
		t.Fatal(err)
	}
	findsWhatIsDead(t, f, 0xf53, mustLink(t, f, "tor1-spine0"), mustLink(t, f, "tor3-spine0"))
}

// findsWhatIsDead has a fabric with dead links carry traffic: all that it meets are found, nothing else is blamed
// for long, and all are cleared when they work again.
func findsWhatIsDead(t rapid.TB, f *fabric.Fabric, seed uint64, dead ...fabric.LinkID) {
	w := newWorld(t, f, Config{}, dead...)
	w.rng = rand.New(rand.NewPCG(seed, 0))
	for range 30 {
		w.allToAll(3)
		w.run(5 * fabric.Millisecond)
	}
	w.run(3 * fabric.Second) // whatever works is found to
	for _, id := range w.c.Suspected() {
		if slices.Contains(dead, id) {
			continue
		}
		// A working link cannot be distinguished from a dead one if there is no path
		// over it alone.
		if w.over(id, func(hops []fabric.Hop) bool { return !w.dead(hops) }) {
			t.Errorf("%s works and is suspected", f.LinkName(id))
		}
	}
	for _, id := range dead {
		if !slices.Contains(w.c.Suspected(), id) && w.over(id, func(hops []fabric.Hop) bool { return !w.avoided(hops) }) {
			t.Errorf("%s is dead and not suspected", f.LinkName(id))
		}
	}
	clear(w.loss)
	w.run(10 * fabric.Second)
	if n := len(w.c.Suspected()); n > 0 {
		t.Errorf("%d links are suspected of nothing", n)
	}
}

// over reports whether some path over a link is as is asked for.
func (w *world) over(id fabric.LinkID, is func(hops []fabric.Hop) bool) bool {
	for s := range w.f.ToRs() {
		for d := range w.f.ToRs() {
			src, dst := w.f.ToRID(s), w.f.ToRID(d)
			for _, l := range w.f.PathLabels(src, dst) {
				if hops, _ := w.f.Path(nil, src, dst, l); w.f.PathUses(src, dst, l, id) && is(hops) {
					return true
				}
			}
		}
	}
	return false
}

func (w *world) dead(hops []fabric.Hop) bool {
	return slices.ContainsFunc(hops, func(h fabric.Hop) bool { return w.loss[h.Link] > 0 })
}

// FuzzCore feeds a core anything: it must not panic, and keeps its bounds.
func FuzzCore(f *testing.F) {
	f.Add([]byte{0, 1, 20, 0, 1, 3, 2, 7, 1, 9, 9, 9})
	tree := fatTree(f, 4)
	f.Fuzz(func(t *testing.T, in []byte) {
		c := newCore(t, Config{Fabric: tree, Agents: 1, Most: 3})
		var now fabric.Time
		next := func() int {
			if len(in) == 0 {
				return 0
			}
			b := int(in[0])
			in = in[1:]
			return b
		}
		for len(in) > 0 {
			now += fabric.Time(next()) * 10 * fabric.Microsecond
			switch next() % 4 {
			case 0, 1:
				_ = c.Report(now, Report{ //nolint:errcheck // most are wrong
					Host: fabric.NodeID(next()%20 - 2), DstToR: fabric.NodeID(next() % 40), Dst: fabric.NodeID(next()%20 - 1),
					Label: fabric.Label(next() % 6), Timeouts: next() % 3,
				})
			case 2:
				c.ProbeResult(now, fabric.NodeID(next()), uint64(next()), next(), next())
			case 3:
				c.LinkState(now, fabric.LinkID(next()), next()%2 == 0)
			}
			for _, p := range c.Ready().Probes {
				if next()%2 == 0 {
					c.ProbeResult(now, p.Host, p.ID, 4, next()%5)
				}
			}
			if n := len(c.Suspected()); n > 3 {
				t.Fatalf("%d links suspected", n)
			}
			if at, ok := c.Deadline(); ok && at < now {
				c.Tick(now)
				if at, ok := c.Deadline(); ok && at < now {
					t.Fatalf("at %v the deadline is %v", now, at)
				}
			}
		}
	})
}
