package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// TestRebase leads two cores through the same events. One is rebased again and again, and
// wants the same done at the same times.
func TestRebase(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 2})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Core:      controller.Config{Fabric: f, Instance: "test", CarrierV4: controller.UDPSourcePort},
		Suspicion: &suspicion.Config{Agents: 1}, TablesWait: DefaultTablesWait, StageTimeout: DefaultStageTimeout,
		StartWait: DefaultStartWait, Audit: 10 * fabric.Second, NotifyPorts: func(fabric.NodeID) bool { return true },
	}
	sameTimes := cmp.Transformer("length", func(c Change) any {
		return []any{c.Written - c.Trigger, c.Epoch, c.Switches, c.Updates}
	})
	options := cmp.Options{
		sameTimes, cmpopts.EquateEmpty(), protocmp.Transform(),
		protocmp.IgnoreFields(&statepb.LinkState{}, "time_ns"), protocmp.IgnoreFields(&statepb.Suspect{}, "time_ns"),
	}
	rapid.Check(t, func(t *rapid.T) {
		var now, zero fabric.Time // zero: of the core that is rebased
		var cores [2]*Core
		for i := range cores {
			if cores[i], err = New(0, cfg); err != nil {
				t.Fatal(err)
			}
		}
		var open []Write
		var probes []suspicion.Probe
		step := func(tell func(c *Core, now fabric.Time)) {
			var ready [2]Ready
			var due [2]fabric.Time
			for i, c := range cores {
				at := now - []fabric.Time{0, zero}[i]
				tell(c, at)
				ready[i] = c.Ready(at)
				if due[i], _ = c.Deadline(); i == 1 {
					due[i] += zero
				}
			}
			if d := cmp.Diff(ready[0], ready[1], options); d != "" || due[0] != due[1] {
				t.Fatalf("at %v; due at %v, rebased at %v; (-as ever +rebased):\n%s", now, due[0], due[1], d)
			}
			open, probes = append(open, ready[0].Writes...), append(probes, ready[0].Probes...)
		}
		node := func() fabric.NodeID {
			return fabric.NodeID(f.Hosts() + rapid.IntRange(0, f.Switches()-1).Draw(t, "switch"))
		}
		link := func() fabric.LinkID {
			return fabric.LinkID(rapid.IntRange(f.Hosts(), f.Links()-1).Draw(t, "link"))
		}
		for i := range f.Switches() {
			id := fabric.NodeID(f.Hosts() + i)
			step(func(c *Core, at fabric.Time) { c.TablesRead(at, id, c.Tables().Desired(id), 0) })
		}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			if at, ok := cores[0].Deadline(); ok && rapid.Bool().Draw(t, "wait until due") {
				now = max(now, at)
			} else {
				unit := []fabric.Time{0, fabric.Microsecond, fabric.Millisecond, fabric.Second, 3600 * fabric.Second}
				now += fabric.Time(rapid.IntRange(1, 20).Draw(t, "wait")) * rapid.SampledFrom(unit).Draw(t, "unit")
			}
			if rapid.Bool().Draw(t, "rebase") {
				cores[1].Rebase(now - zero)
				zero = now
			}
			switch rapid.IntRange(0, 8).Draw(t, "event") {
			case 0:
				e, up := f.Link(link()).A, rapid.Bool().Draw(t, "up")
				step(func(c *Core, at fabric.Time) { c.PortState(at, e.Node, e.Port, up) })
			case 1:
				id, fresh := node(), rapid.Bool().Draw(t, "fresh")
				step(func(c *Core, at fabric.Time) { c.PortsKnown(at, id, fresh) })
			case 2:
				id, state := node(), rapid.SampledFrom([]SessionState{NoSession, Standby, Open}).Draw(t, "session")
				step(func(c *Core, at fabric.Time) { c.Session(at, id, state) })
			case 3:
				id := node()
				step(func(c *Core, at fabric.Time) { c.TablesRead(at, id, c.Tables().Written(id), 0) })
			case 4:
				ids, drain := []fabric.LinkID{link()}, rapid.Bool().Draw(t, "drain")
				step(func(c *Core, at fabric.Time) { _, _ = c.Drain(at, ids, drain, true) }) //nolint:errcheck // alike
			case 5, 6:
				r := suspicion.Report{
					Host: fabric.NodeID(rapid.IntRange(0, 1).Draw(t, "host")), DstToR: f.ToRID(rapid.IntRange(1, 2).Draw(t, "tor")),
					Dst: suspicion.NoHost, Label: f.LabelFor(rapid.IntRange(0, 1).Draw(t, "uplink"), 0), Timeouts: rapid.IntRange(0, 1).Draw(t, "timeouts"),
				}
				step(func(c *Core, at fabric.Time) { _ = c.Report(at, r) }) //nolint:errcheck // the fabric has the path
			case 7: // until it is held down
				e := f.Link(link()).A
				for i := range 6 {
					step(func(c *Core, at fabric.Time) { c.PortState(at, e.Node, e.Port, i%2 == 1) })
				}
			case 8:
				step(func(c *Core, at fabric.Time) { c.Tick(at) })
			}
			if rapid.Bool().Draw(t, "answer writes") {
				ws := open
				open = nil
				outcome := rapid.SampledFrom([]Outcome{Acknowledged, Failed}).Draw(t, "outcome")
				for _, w := range ws {
					step(func(c *Core, at fabric.Time) { c.Written(at, w.ID, outcome) })
				}
			}
			if rapid.Bool().Draw(t, "answer probes") {
				ps := probes
				probes = nil
				lost := rapid.IntRange(0, 1).Draw(t, "lost")
				for _, p := range ps {
					step(func(c *Core, at fabric.Time) { c.ProbeResult(at, p.Host, p.ID, p.Packets, lost) })
				}
			}
		}
	})
}
