package hostagent

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

func TestConfigErrors(t *testing.T) {
	f := mustFabric(t, specs[0])
	for name, cfg := range map[string]Config{
		"no fabric":     {},
		"host":          {Fabric: f, Host: 16},
		"negative host": {Fabric: f, Host: -1},
		"memory":        {Fabric: f, FailedPathMemory: -1},
		"burst":         {Fabric: f, QuenchBurst: -1},
		"interval":      {Fabric: f, QuenchInterval: -1},
		"window":        {Fabric: f, EpochWindow: 1 << 31},
		"calm":          {Fabric: f, Calm: -1},
		"probes":        {Fabric: f, ProbeEvery: -1},
		"loss ratios":   {Fabric: f, Losses: LossTest{Healthy: 1e-2, Lossy: 1e-3}},
		"alpha":         {Fabric: f, Losses: LossTest{Alpha: 2}},
	} {
		if _, err := New(cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: error %v, want ErrConfig", name, err)
		}
	}
}

// TestBadBatchIsRefusedWhole checks that nothing of a bad batch is taken.
func TestBadBatchIsRefusedWhole(t *testing.T) {
	c := mustCore(t, Config{Fabric: mustFabric(t, specs[0])})
	for _, bad := range []Flow{{Dst: 16, Bytes: 1}, {Dst: -1, Bytes: 1}, {Dst: 0, Bytes: 1}, {Dst: 1, Bytes: 0}, {Dst: 1, Bytes: 1<<63 - 1}} {
		if err := c.Post(0, []Flow{{Dst: 4, Bytes: 100}, bad}); !errors.Is(err, ErrFlow) {
			t.Errorf("%+v: error %v, want ErrFlow", bad, err)
		}
	}
	if r := c.Ready(); len(r.Open) != 0 || c.Live() != 0 {
		t.Errorf("pieces of refused batches: %+v", r.Open)
	}
}

// allToAll is what one rank posts in a direct all-to-all.
func allToAll(f *fabric.Fabric, host fabric.NodeID, bytes int64) []Flow {
	var fs []Flow
	for i := 1; i < f.Hosts(); i++ {
		fs = append(fs, Flow{ID: uint64(i), Dst: (host + fabric.NodeID(i)) % fabric.NodeID(f.Hosts()), Bytes: bytes})
	}
	return fs
}

// TestAllToAllLoad adds up what all hosts of the reference fat-tree put on
// every link of the fabric: no two links of a tier differ.
func TestAllToAllLoad(t *testing.T) {
	f := mustFabric(t, specs[2])
	load := make(map[fabric.Hop]int64)
	var hops []fabric.Hop
	for h := range fabric.NodeID(f.Hosts()) {
		c := mustCore(t, Config{Fabric: f, Host: h, Seed: 7})
		if err := c.Post(0, allToAll(f, h, 1<<20)); err != nil {
			t.Fatal(err)
		}
		for _, p := range c.Ready().Open {
			if p.Labelled == (f.ToROf(p.Dst) == f.ToROf(h)) {
				t.Fatalf("%+v: labelled inside the rack, or not outside", p)
			}
			hops, _ = f.Path(hops[:0], f.ToROf(h), f.ToROf(p.Dst), p.Label)
			for _, hop := range hops {
				load[hop] += p.Bytes
			}
		}
	}
	// By tier and direction.
	seen := make(map[string]int64)
	for hop, bytes := range load {
		from := f.Node(hop.From)
		kind := fmt.Sprint(from.Tier, hop.Port >= from.FirstUplink())
		if was, ok := seen[kind]; ok && was != bytes {
			t.Fatalf("%s: %s carries %d bytes, another %d", kind, f.LinkName(hop.Link), bytes, was)
		}
		seen[kind] = bytes
	}
	// 16 hosts of a rack send to 496 others over 4 uplinks; 448 of them are in
	// other pods.
	want := map[string]int64{"tor true": 16 * 496 / 4 << 20, "agg false": 16 * 496 / 4 << 20, "agg true": 16 * 4 * 448 / 16 << 20, "core false": 16 * 4 * 448 / 16 << 20}
	if d := cmp.Diff(want, seen); d != "" {
		t.Errorf("bytes a link, by tier and direction (-want +got):\n%s", d)
	}
}

// TestShuffle checks that ranks start on different paths, and that the jitter
// stays in its span and is not constant.
func TestShuffle(t *testing.T) {
	f := mustFabric(t, specs[2])
	first := make(map[fabric.Label]int)
	starts := make(map[fabric.Time]bool)
	for h := range fabric.NodeID(64) {
		c := mustCore(t, Config{Fabric: f, Host: h, Seed: 3})
		if err := c.Post(fabric.Microsecond, []Flow{{Dst: 511, Bytes: 100}, {Dst: 510, Bytes: 100}}); err != nil {
			t.Fatal(err)
		}
		open := c.Ready().Open
		first[open[0].Label]++
		for _, p := range open {
			if d := p.Start - fabric.Microsecond; d < 0 || d > DefaultStartJitter {
				t.Fatalf("a start %v after the batch, want 0 to %v", d, DefaultStartJitter)
			}
			starts[p.Start] = true
		}
	}
	if len(first) < 12 {
		t.Errorf("64 ranks start on %d of 16 paths: %v", len(first), first)
	}
	if len(starts) < 100 {
		t.Errorf("only %d different starts", len(starts))
	}
}

// event is one call into a core, drawn once and applied to several.
type event struct {
	name string
	do   func(c *Core, now fabric.Time) any
}

func drawEvent(t *rapid.T, f *fabric.Fabric, host fabric.NodeID) event {
	node := func(name string) fabric.NodeID {
		return fabric.NodeID(rapid.IntRange(0, f.Hosts()-1).Draw(t, name))
	}
	qp := QP(rapid.Uint32Range(0, 60).Draw(t, "qp"))
	switch kind := rapid.SampledFrom([]string{
		"post", "acked", "done", "timeout", "quench", "quench", "quench", "update", "update", "tick", "respond", "lost", "lost", "congested",
		"overdue", "overdue", "answered",
	}).Draw(t, "event"); kind {
	case "post":
		var batch []Flow
		size := rapid.Int64Range(1, 1<<20).Draw(t, "bytes")
		for range rapid.IntRange(1, 10).Draw(t, "flows") {
			if dst := node("dst"); dst != host {
				batch = append(batch, Flow{ID: uint64(len(batch)), Dst: dst, Bytes: size})
			}
		}
		return event{kind, func(c *Core, now fabric.Time) any { return c.Post(now, batch) }}
	case "acked":
		n := rapid.Int64Range(0, 1<<19).Draw(t, "bytes")
		return event{kind, func(c *Core, now fabric.Time) any { c.Acked(now, qp, n); return nil }}
	case "done":
		return event{kind, func(c *Core, now fabric.Time) any { c.Done(now, qp); return nil }}
	case "timeout":
		return event{kind, func(c *Core, now fabric.Time) any { c.Timeout(now, qp); return nil }}
	case "quench":
		sw := fabric.NodeID(rapid.IntRange(-1, f.Nodes()).Draw(t, "switch"))
		q := frame.Quench{
			Dst: f.HostAddr4(node("dst")), Switch: sw,
			Port:  fabric.PortNo(rapid.IntRange(0, 5).Draw(t, "port")),
			Epoch: rapid.Uint32Range(1, 8).Draw(t, "epoch"),
		}
		return event{kind, func(c *Core, now fabric.Time) any { return c.Quench(now, q) }}
	case "update":
		u := &statepb.Update{
			Snapshot: rapid.IntRange(0, 4).Draw(t, "snapshot") == 0,
			Instance: rapid.SampledFrom([]string{"a", "a", "a", "b"}).Draw(t, "instance"),
		}
		for range rapid.IntRange(0, 4).Draw(t, "links") {
			epoch := rapid.Uint64Range(0, 12).Draw(t, "epoch")
			u.Links = append(u.Links, &statepb.LinkState{
				Link: rapid.Uint32Range(0, uint32(f.Links())).Draw(t, "link"), Up: epoch%2 == 0, Epoch: epoch,
			})
		}
		return event{kind, func(c *Core, now fabric.Time) any { c.Update(now, u); return nil }}
	case "lost":
		n, acks := rapid.IntRange(0, 3).Draw(t, "packets"), rapid.IntRange(0, 1).Draw(t, "acks")
		ago := fabric.Time(rapid.IntRange(0, 100).Draw(t, "us ago")) * fabric.Microsecond
		return event{kind, func(c *Core, now fabric.Time) any { c.Lost(now, qp, Loss{n, acks, now - ago}); return nil }}
	case "overdue":
		ago, probes := fabric.Time(rapid.IntRange(0, 1000).Draw(t, "us ago"))*fabric.Microsecond, rapid.IntRange(0, 4).Draw(t, "probes")
		return event{kind, func(c *Core, now fabric.Time) any { c.Overdue(now, qp, Overdue{now - ago, probes}); return nil }}
	case "answered":
		peer, id := node("peer"), rapid.Uint32Range(0, 40).Draw(t, "id")
		return event{kind, func(c *Core, now fabric.Time) any { c.Answered(now, peer, id); return nil }}
	case "congested":
		peer, l, inbound := node("peer"), fabric.Label(rapid.IntRange(0, 8).Draw(t, "label")), rapid.Bool().Draw(t, "inbound")
		return event{kind, func(c *Core, now fabric.Time) any { c.Congested(now, peer, l, inbound); return nil }}
	case "respond":
		peer, l := node("peer"), fabric.Label(rapid.IntRange(0, 8).Draw(t, "label"))
		return event{kind, func(c *Core, now fabric.Time) any { return c.ResponderLabel(now, peer, l, false) }}
	}
	return event{"tick", func(c *Core, now fabric.Time) any { c.Tick(now); return nil }}
}

// TestInvariants drives a core with any sequence of events, forged and stale
// words among them, beside a twin that is rebased again and again and must decide the same.
func TestInvariants(t *testing.T) {
	var fabrics []*fabric.Fabric
	for _, i := range []int{0, 1, 3, 4, 5} {
		fabrics = append(fabrics, mustFabric(t, specs[i]))
	}
	rapid.Check(t, func(rt *rapid.T) {
		f := rapid.SampledFrom(fabrics).Draw(rt, "fabric")
		host := fabric.NodeID(rapid.IntRange(0, f.Hosts()-1).Draw(rt, "host"))
		cfg := Config{Fabric: f, Host: host, Seed: rapid.Uint64().Draw(rt, "seed"), FailedPathMemory: fabric.Millisecond}
		cfg.Uplinks, cfg.Asks = rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(rt, "uplinks"), rapid.Bool().Draw(rt, "asks")
		cfg.Losses.Unmarked = rapid.Bool().Draw(rt, "unmarked")
		cfg.Losses.Pauses = rapid.Bool().Draw(rt, "pauses")
		c, twin := mustCore(t, cfg), mustCore(t, cfg)
		path := make(map[QP]fabric.Label) // as the caller knows it
		home := make(map[QP]fabric.Label)
		var probes []QP
		now, zero := fabric.Time(0), fabric.Time(0) // zero: of the twin
		readyTwin := func() Ready {
			r := twin.Ready()
			for i := range r.Open {
				r.Open[i].Start += zero
			}
			return r
		}
		for range rapid.IntRange(1, 60).Draw(rt, "events") {
			now += fabric.Time(rapid.Int64Range(0, int64(300*fabric.Microsecond)).Draw(rt, "step"))
			if rapid.IntRange(0, 3).Draw(rt, "rebase") == 0 {
				twin.Rebase(now - zero)
				zero = now
			}
			e := drawEvent(rt, f, host)
			want := e.do(twin, now-zero)
			if got := e.do(c, now); got != want {
				rt.Fatalf("%s: the twin says %v, not %v", e.name, want, got)
			}
			checkInvariants(rt, c)
			r := c.Ready()
			if d := cmp.Diff(readyTwin(), r); d != "" {
				rt.Fatalf("%s: the twin decides otherwise (-twin +core):\n%s", e.name, d)
			}
			for _, p := range r.Open {
				if path[p.QP], home[p.QP] = p.Label, p.Label; p.Bytes == 0 {
					probes = append(probes, p.QP)
				}
			}
			for _, fl := range r.Flip {
				switch {
				case path[fl.QP] != fl.From || fl.From == fl.To:
					rt.Fatalf("%+v, but the queue pair is on %d", fl, path[fl.QP])
				case fl.Reason == BySlow: // the old path works, and keeps a share; the new one is home
					home[fl.QP] = fl.To
				case !fl.Dead && fl.To != home[fl.QP]:
					rt.Fatalf("%+v: from a good path to one that is not its home, %d", fl, home[fl.QP])
				case !fl.Dead && fl.Reason != Return:
					rt.Fatalf("%+v: from a good path, yet not to return", fl)
				}
				path[fl.QP] = fl.To
			}
			// The same word again changes nothing. (A time-out again is a
			// new one.)
			if e.name == "quench" || e.name == "update" {
				e.do(c, now)
				e.do(twin, now-zero)
				if r := c.Ready(); len(r.Flip) != 0 {
					twin.Ready()
					rt.Fatalf("%s again: %+v", e.name, r.Flip)
				}
				twin.Ready()
			}
		}
		// When all memory has expired and a new controller calls every link
		// up, every piece is at home.
		for range 2 { // what is still suspected gets its verdict first
			now += fabric.Second
			c.Tick(now)
		}
		c.Update(now, &statepb.Update{Snapshot: true, Instance: "last"})
		checkInvariants(rt, c)
		// When probes have found every path left for its losses healthy, too.
		for rounds := 0; ; rounds++ {
			r := c.Ready()
			for _, fl := range r.Flip {
				path[fl.QP] = fl.To
			}
			for _, p := range r.Open {
				probes = append(probes, p.QP)
			}
			for _, qp := range probes {
				c.Done(now, qp)
			}
			for _, a := range slices.Clone(r.Ask) {
				c.Answered(now, a.Dst, a.ID)
			}
			if probes = probes[:0]; len(c.losses.sets)+len(c.losses.suspects)+len(c.questions.dead) == 0 {
				for _, fl := range c.Ready().Flip {
					path[fl.QP] = fl.To
				}
				break
			}
			at, ok := c.Deadline()
			if now = at; !ok || rounds > 5000 {
				rt.Fatalf("paths are left after %d rounds of answered probes", rounds)
			}
			c.Tick(now)
		}
		checkInvariants(rt, c)
		for p := range c.pieces.all() {
			if p.path != p.home || p.dst != nil && path[p.qp] != home[p.qp] {
				rt.Fatalf("qp %d ends on path %d, home is %d", p.qp, p.path, p.home)
			}
		}
		if at, ok := c.Deadline(); ok {
			rt.Fatalf("a deadline at %v with nothing to forget", at)
		}
		if len(c.deadLinks) != 0 {
			rt.Fatalf("dead links remain: %v", c.deadLinks)
		}
	})
}

// TestForgedQuenches has a forger who knows everything say that every port is
// dead, without a rate limit: a path to every ToR remains.
func TestForgedQuenches(t *testing.T) {
	f := mustFabric(t, specs[0])
	c := mustCore(t, Config{Fabric: f, QuenchBurst: 1 << 30})
	if err := c.Post(0, allToAll(f, 0, 1000)); err != nil {
		t.Fatal(err)
	}
	c.Ready()
	believed := 0
	for epoch := range uint32(3) {
		for dst := range fabric.NodeID(f.Hosts()) {
			for sw := f.ToRID(0); int(sw) < f.Nodes(); sw++ {
				for port := range fabric.PortNo(f.Node(sw).Ports() + 2) {
					if c.Quench(fabric.Time(epoch), frame.Quench{Dst: f.HostAddr4(dst), Switch: sw, Port: port, Epoch: epoch + 1}) == Believed {
						believed++
					}
					checkInvariants(t, c)
				}
			}
		}
	}
	if believed == 0 {
		t.Fatal("no quench was believed: the test shows nothing")
	}
	for dst := range fabric.NodeID(f.Hosts()) {
		if f.ToROf(dst) != f.ToROf(0) && len(c.GoodPaths(dst)) != 1 {
			t.Errorf("h%d: good paths %v, want one", dst, c.GoodPaths(dst))
		}
	}
}

// TestTimeoutDiffersInBothTiers checks the reference's rule on every path.
func TestTimeoutDiffersInBothTiers(t *testing.T) {
	f := mustFabric(t, specs[2])
	for n := range 16 {
		c := mustCore(t, Config{Fabric: f, Seed: uint64(n)})
		if err := c.Post(0, []Flow{{Dst: 511, Bytes: 16000}}); err != nil {
			t.Fatal(err)
		}
		c.Timeout(fabric.Millisecond, QP(n+1))
		flips := c.Ready().Flip
		if len(flips) != 1 {
			t.Fatalf("flips %+v, want one", flips)
		}
		fu, fv, _ := f.SplitLabel(flips[0].From)
		tu, tv, _ := f.SplitLabel(flips[0].To)
		if fu == tu || fv == tv {
			t.Errorf("from label %d/%d to %d/%d, want both to differ", fu, fv, tu, tv)
		}
	}
}
