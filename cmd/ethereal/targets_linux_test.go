package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/controller/targets/kinds"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// TestTargetsAlike has one controller manage BMv2's switches with the gNMI sidecar,
// and ours, under the same traffic and failures: the tables read back are the same,
// entry for entry, at every step, and so is what traffic meets once the controller
// is done: no loss. It needs simple_switch_grpc, in the variable BMV2 or on the path.
func TestTargetsAlike(t *testing.T) {
	binary := systemtest.Program(t, "simple_switch_grpc", "BMV2", "name BMv2's in BMV2 or have it on the path")
	if !inNamespaces(t) {
		return
	}
	steps := map[string][]map[fabric.NodeID][]controller.Entry{} // by kind of switch
	for _, kind := range []string{"", binary} {
		name := "ours"
		if kind != "" {
			name = "bmv2"
		}
		t.Run(name, func(t *testing.T) { steps[name] = targetSteps(t, kind, "") })
	}
	if d := cmp.Diff(steps["ours"], steps["bmv2"]); d != "" || len(steps["ours"]) == 0 {
		t.Errorf("tables read back (-ours +BMv2's):\n%s", d)
	}
}

// TestPINS has one controller manage switches that execute sai_p4, and ours, through the same steps: what is read back
// of sai_p4 is, said in the program's words, what it is of ours. It needs what p4c made of sai_p4, as
// SAI_P4=P4INFO,JSON.
func TestPINS(t *testing.T) {
	systemtest.Only(t)
	sai := os.Getenv("SAI_P4")
	if sai == "" {
		t.Skip("no sai_p4: compile it with p4c, and name the two files as SAI_P4=P4INFO,JSON")
	}
	if !inNamespaces(t) {
		return
	}
	profile, err := kinds.All().ByName("pins")
	if err != nil {
		t.Fatal(err)
	}
	var ours, theirs []map[fabric.NodeID][]controller.Entry
	t.Run("ours", func(t *testing.T) { ours = targetSteps(t, "", "") })
	t.Run("sai_p4", func(t *testing.T) { theirs = targetSteps(t, "", sai) })
	for _, tables := range ours {
		for id, es := range tables {
			tables[id] = slices.DeleteFunc(es, func(e controller.Entry) bool { return profile.LacksTable(e.Table) })
		}
	}
	if d := cmp.Diff(ours, theirs); d != "" || len(ours) == 0 {
		t.Errorf("tables read back (-ours +sai_p4's):\n%s", d)
	}
}

// targetSteps runs the steps on one kind of switches and returns the tables after each.
func targetSteps(t *testing.T, binary, sai string) (tables []map[fabric.NodeID][]controller.Entry) {
	p := newPlant(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2}, binary)
	p.sai = sai
	targets := p.targets("targets.yaml", p.switchAddr)
	p.startController(0, targets)
	tr := p.traffic(10*time.Millisecond, []string{agentsAddr(0)}, 1, 3)
	// The spine's end: BMv2 does not get over its own interface going down while
	// packets for it keep coming; its neighbour's makes it lose the carrier only.
	cut := live.InterfaceName(p.f, p.f.Link(fabric.LinkID(p.f.Hosts())).B)
	for _, step := range []struct {
		name string
		do   func()
		down int // links
	}{
		{"start", func() {}, 0},
		{"link down", func() { p.up(cut, false) }, 1},
		{"link up", func() { p.up(cut, true) }, 0},
		{"controller restarted", func() { p.kill("controller0"); p.startController(0, targets) }, 0},
	} {
		began := time.Now()
		step.do()
		p.until(3*time.Minute, step.name, func() error {
			s, err := p.status(0)
			switch {
			case err != nil:
				return err
			case !s.Ready || s.Busy || len(s.NotUp) != step.down:
				return fmt.Errorf("ready %v, busy %v, links not up: %v, switches: %v", s.Ready, s.Busy, s.NotUp, s.Switches)
			}
			return p.proved(targets)
		})
		took := time.Since(began).Round(time.Millisecond)
		sent, lost := tr.lost(t)
		t.Logf("%s: settled after %v, %d of %d packets lost on the way", step.name, took, lost, sent)
		if step.name == "controller restarted" && lost > 0 {
			t.Errorf("%d packets lost while the controller restarted", lost)
		}
		time.Sleep(500 * time.Millisecond)
		if sent, lost := tr.lost(t); lost > 0 || sent == 0 {
			t.Errorf("%s: %d of %d packets lost once all is settled", step.name, lost, sent)
		}
		tables = append(tables, p.tables(targets))
	}
	return tables
}

// tables reads all switches' tables back.
func (p *plant) tables(targets string) map[fabric.NodeID][]controller.Entry {
	p.t.Helper()
	flags := switchesFlags{fabric: p.dir + "/fabric.yaml", targets: targets}
	cfg, _, err := flags.read()
	if err != nil {
		p.t.Fatal(err)
	}
	found, err := daemon.Survey(context.Background(), cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	out := map[fabric.NodeID][]controller.Entry{}
	for _, x := range found {
		if x.Err != nil || !x.Pipeline || len(x.Tables.Stray) > 0 {
			p.t.Fatalf("%s: %v, pipeline %v, stray %v", p.f.Name(x.Node), x.Err, x.Pipeline, x.Tables.Stray)
		}
		out[x.Node] = x.Tables.Entries
	}
	return out
}
