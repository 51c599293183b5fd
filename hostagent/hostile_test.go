package hostagent

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// drawUpdate is a controller's word as a broken or hostile one says it.
func drawUpdate(t *rapid.T, f *fabric.Fabric) *statepb.Update {
	number := rapid.OneOf(rapid.Uint64Range(0, 6), rapid.Uint64())
	link := rapid.OneOf(rapid.Uint32Range(0, uint32(f.Links())), rapid.Uint32())
	u := &statepb.Update{
		Instance: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "instance"), Epoch: number.Draw(t, "epoch"),
		Snapshot: rapid.Bool().Draw(t, "snapshot"), Heartbeat: rapid.IntRange(0, 9).Draw(t, "heartbeat") == 0,
	}
	for range rapid.IntRange(0, 8).Draw(t, "links") {
		u.Links = append(u.Links, &statepb.LinkState{Link: link.Draw(t, "link"), Up: rapid.Bool().Draw(t, "up"), Epoch: number.Draw(t, "epoch of it")})
	}
	for range rapid.IntRange(0, 3).Draw(t, "suspects") {
		u.Suspects = append(u.Suspects, &statepb.Suspect{
			Link: link.Draw(t, "suspect"), Suspected: rapid.Bool().Draw(t, "suspected"), Epoch: number.Draw(t, "epoch of it"),
		})
	}
	return u
}

// TestForgedUpdates has a core receive forged updates, and the same ones again in any order, while its clock jumps
// forward and back. It keeps a path to everywhere, and no more than the fabric has links. Then an honest controller
// speaks: the core knows what one without forged updates knows, once what it believed of time-outs is forgotten.
func TestForgedUpdates(t *testing.T) {
	f := mustFabric(t, specs[0])
	rapid.Check(t, func(rt *rapid.T) {
		c := mustCore(t, Config{Fabric: f})
		if err := c.Post(0, []Flow{{Dst: 15, Bytes: 1000}, {Dst: 2, Bytes: 1000}}); err != nil {
			rt.Fatal(err)
		}
		var said []*statepb.Update
		latest := fabric.Time(0)
		for range rapid.IntRange(1, 40).Draw(rt, "words") {
			now := fabric.Time(rapid.Int64Range(0, int64(fabric.Second)).Draw(rt, "now")) // before the last as often as after
			latest = max(latest, now)
			if len(said) > 0 && rapid.Bool().Draw(rt, "replayed") {
				c.Update(now, said[rapid.IntRange(0, len(said)-1).Draw(rt, "which")])
			} else {
				said = append(said, drawUpdate(rt, f))
				c.Update(now, said[len(said)-1])
			}
			checkInvariants(rt, c)
			if len(c.links) > f.Links() {
				rt.Fatalf("%d links are known of %d", len(c.links), f.Links())
			}
		}
		truth := &statepb.Update{Instance: "honest", Snapshot: true, Epoch: 1, Links: []*statepb.LinkState{{Link: uint32(f.Hosts()), Epoch: 1}}}
		fresh := mustCore(t, Config{Fabric: f})
		fresh.Update(0, truth)
		c.Update(latest, truth)
		for dst := range fabric.NodeID(f.Hosts()) {
			if got, want := c.GoodPaths(dst), fresh.GoodPaths(dst); dst != 0 && fmt.Sprint(got) != fmt.Sprint(want) {
				rt.Fatalf("to h%d: %v, want %v", dst, got, want)
			}
		}
	})
}

// TestClockJumps: time that goes back changes nothing, and what was believed for a while ends once the clock has caught
// up; a jump forward ends it at once.
func TestClockJumps(t *testing.T) {
	f := mustFabric(t, specs[0])
	tor := f.ToRID(0)
	for _, jumps := range [][]fabric.Time{{fabric.Second, 0, 1, fabric.Second - 1}, {0, 0, fabric.Second, 3}} {
		c := mustCore(t, Config{Fabric: f})
		q := frame.Quench{Notice: true, Switch: tor, Port: f.Node(tor).FirstUplink(), Epoch: 1}
		far := fabric.NodeID(f.Hosts() - 1)
		if v := c.Quench(jumps[0], q); v != Believed {
			t.Fatalf("the quench: %v", v)
		}
		cut := len(c.GoodPaths(far))
		for _, at := range jumps {
			c.Tick(at)
			checkInvariants(t, c)
		}
		if due, ok := c.Deadline(); !ok && cut == len(c.GoodPaths(far)) {
			t.Error("the link is dead for ever")
		} else if ok {
			c.Tick(due)
		}
		if got := len(c.GoodPaths(far)); got <= cut {
			t.Errorf("jumps %v: %d good paths, %d while the quench was believed", jumps, got, cut)
		}
	}
}
