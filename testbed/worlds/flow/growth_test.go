//go:build unix

package flow_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/bench"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/flow"
)

var (
	growthGPUs  = flag.String("growth.gpus", "64,512", "GPUs of TestGrowth, 64 to 32768, multiples of 128 or 64 itself")
	growthBytes = flag.String("growth.bytes", "4194304", "message sizes of TestGrowth, bytes")
	growthKinds = flag.String("growth.kinds", "permutation,halving-doubling", "collectives of TestGrowth")
)

// TestGrowth prints what a run costs as the fabric and the message grow: CPU
// time and memory for the fabric with its paths, for all switches'
// tables, and for the run.
func TestGrowth(t *testing.T) {
	fmt.Println("gpus\tcollective\tbytes\tfabric_s\ttables_s\ttable_entries\trun_s\theap_MB\tevents\tcct_us")
	for g := range strings.SplitSeq(*growthGPUs, ",") {
		gpus, _ := strconv.Atoi(g)
		spec, ok := bench.FatTree(gpus)
		if !ok {
			t.Fatalf("-growth.gpus: %q", g)
		}
		began := cpuSeconds(t)
		f, err := fabric.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		built := cpuSeconds(t) - began
		tables, entries := tablesOf(t, f)
		for kind := range strings.SplitSeq(*growthKinds, ",") {
			for b := range strings.SplitSeq(*growthBytes, ",") {
				bytes, _ := strconv.Atoi(b)
				op, algorithm := kind, ""
				if kind == "halving-doubling" {
					op, algorithm = "all-reduce", kind
				}
				run := plan(t, spec, op, algorithm, fabric.Bytes(bytes), "ethereal", scenario.Seeds{1})[0]
				began = cpuSeconds(t)
				r, err := flow.Run(context.Background(), run, scenario.Observer{})
				if err != nil {
					t.Fatal(err)
				}
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				fmt.Printf("%d\t%s\t%d\t%.3f\t%.3f\t%d\t%.2f\t%d\t%d\t%.1f\n", gpus, kind, bytes, built, tables, entries,
					cpuSeconds(t)-began, m.HeapSys>>20, r.SimEvents, *r.CCT)
			}
		}
	}
}

// tablesOf computes all switches' tables, as a controller does when it starts.
func tablesOf(t *testing.T, f *fabric.Fabric) (seconds float64, entries int) {
	t.Helper()
	began := cpuSeconds(t)
	c, err := controller.New(controller.Config{Fabric: f, Instance: "growth"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Switches() {
		entries += len(c.Desired(fabric.NodeID(f.Hosts() + i)))
	}
	return cpuSeconds(t) - began, entries
}

func cpuSeconds(t *testing.T) float64 {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
