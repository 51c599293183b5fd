package virtual

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// TestEstimateFitsMeasured compares estimates with peaks of resident memory that were
// measured: of fat-trees by k with the default packets, and those of docs/results/performance.md.
func TestEstimateFitsMeasured(t *testing.T) {
	growth := func(gpus int) fabric.Spec {
		return fabric.Spec{Kind: fabric.KindFatTree, Pods: gpus / 64, ToRsPerPod: 4, AggsPerPod: 4, Cores: 16, HostsPerToR: 16}
	}
	tree := func(k int) fabric.Spec { return fabric.Spec{Kind: fabric.KindFatTree, K: k} }
	for _, c := range []struct {
		name   string
		fabric fabric.Spec
		job    scenario.Collective
		mb     float64
	}{
		{"k=4", tree(4), scenario.Collective{Kind: collective.Permutation, Bytes: 1 << 20}, 60},
		{"k=8", tree(8), scenario.Collective{Kind: collective.Permutation, Bytes: 1 << 20}, 90},
		{"k=8 all-to-all", tree(8), scenario.Collective{Kind: collective.AllToAll, Bytes: 1 << 20}, 157},
		{"k=16", tree(16), scenario.Collective{Kind: collective.Permutation, Bytes: 1 << 20}, 361},
		{"k=16 64 KiB", tree(16), scenario.Collective{Kind: collective.Permutation, Bytes: 64 << 10}, 330},
		{"k=24", tree(24), scenario.Collective{Kind: collective.Permutation, Bytes: 64 << 10}, 1307},
		{"k=32", tree(32), scenario.Collective{Kind: collective.Permutation, Bytes: 64 << 10}, 3602},
		{"512 GPUs", growth(512), scenario.Collective{Kind: collective.Permutation, Bytes: 1 << 20}, 110},
		{"1024 GPUs", growth(1024), scenario.Collective{Kind: collective.Permutation, Bytes: 1 << 20}, 180},
		{"2048 GPUs", growth(2048), scenario.Collective{Kind: collective.Permutation, Bytes: 1 << 20}, 278},
		{"4096 GPUs", growth(4096), scenario.Collective{Kind: collective.Permutation, Bytes: 1 << 20}, 581},
		{"4096 GPUs halving-doubling", growth(4096), scenario.Collective{
			Kind: collective.AllReduce, Algorithm: collective.HalvingDoubling, Bytes: 1 << 20}, 700},
		{"512 GPUs all-to-all", growth(512), scenario.Collective{Kind: collective.AllToAll, Bytes: 1 << 20}, 520},
	} {
		f, err := fabric.New(c.fabric)
		if err != nil {
			t.Fatal(err)
		}
		s := scenario.Default()
		e := Estimates([]scenario.Run{{Scenario: &s, Fabric: f, Collective: c.job, Seed: 1}})[0]
		mb := float64(e.Bytes+EstimateProcess) / 1e6
		t.Logf("%-28s %5.0f MB measured, %5.0f estimated, %3.0f %%; %.1f CPU-s, %.2f M hops",
			c.name, c.mb, mb, 100*(mb/c.mb-1), e.Seconds(), e.Hops/1e6)
		if mb < c.mb/1.4 || mb > c.mb*1.4 {
			t.Errorf("%s: %.0f MB estimated, %.0f measured", c.name, mb, c.mb)
		}
	}
}

// TestFlowEstimateFitsMeasured does so for the world without packets, with `ethereal run
// --world flow --cores 1` and docs/results/performance.md.
func TestFlowEstimateFitsMeasured(t *testing.T) {
	tree := func(k int) fabric.Spec { return fabric.Spec{Kind: fabric.KindFatTree, K: k} }
	permutation := scenario.Collective{Kind: collective.Permutation, Bytes: 1 << 20}
	for _, c := range []struct {
		name   string
		fabric fabric.Spec
		job    scenario.Collective
		mb     float64
	}{
		{"k=16", tree(16), permutation, 98},
		{"k=24", tree(24), permutation, 465},
		{"k=32", tree(32), permutation, 2017},
		{"k=8 all-to-all", tree(8), scenario.Collective{Kind: collective.AllToAll, Bytes: 1 << 20}, 99},
		{"k=16 halving-doubling", tree(16), scenario.Collective{
			Kind: collective.AllReduce, Algorithm: collective.HalvingDoubling, Bytes: 1 << 20}, 152},
	} {
		f, err := fabric.New(c.fabric)
		if err != nil {
			t.Fatal(err)
		}
		s := scenario.Default()
		e := FlowEstimates([]scenario.Run{{Scenario: &s, Fabric: f, Collective: c.job, Seed: 1}})[0]
		mb := float64(e.Bytes+EstimateProcess) / 1e6
		t.Logf("%-28s %5.0f MB measured, %5.0f estimated, %3.0f %%; %.1f CPU-s", c.name, c.mb, mb, 100*(mb/c.mb-1), e.Seconds())
		if mb < c.mb/1.4 || mb > c.mb*1.4 {
			t.Errorf("%s: %.0f MB estimated, %.0f measured", c.name, mb, c.mb)
		}
	}
}

// TestTrafficSample compares what a sample of the ranks says with all messages.
func TestTrafficSample(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 12})
	if err != nil {
		t.Fatal(err)
	}
	s := scenario.Default()
	for _, c := range []scenario.Collective{
		{Kind: collective.AllToAll, Bytes: 16e6}, {Kind: collective.Incast, Bytes: 1e6, Senders: 3},
		{Kind: collective.AllReduce, Algorithm: collective.Ring, Bytes: 16e6},
		{Kind: collective.AllReduce, Algorithm: collective.DoubleBinaryTree, Bytes: 1e6},
	} {
		run := scenario.Run{Scenario: &s, Fabric: f, Collective: c, Seed: 1}
		job, err := collective.New(run.CollectiveSpec())
		if err != nil {
			t.Fatal(err)
		}
		wantMessages, wantLinks := 0.0, 0.0
		for p := range job.Phases() {
			for m := range job.Traffic(p) {
				wantMessages++
				packets := (m.Bytes + int64(s.Host.Payload) - 1) / int64(s.Host.Payload)
				wantLinks += float64(packets) * float64(distance(f, fabric.NodeID(m.Src), fabric.NodeID(m.Dst)))
			}
		}
		messages, links := traffic(run)
		if messages != wantMessages || links < 0.9*wantLinks || links > 1.1*wantLinks {
			t.Errorf("%s: %.0f messages over %.0f links, want %.0f and %.0f", c.Kind, messages, links, wantMessages, wantLinks)
		}
	}
}
