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

var growthGPUs = flag.String("growth.gpus", "64,512", "GPUs of BenchmarkGrowth, 64 to 32768, multiples of 128 or 64 itself")

// BenchmarkGrowth is what a run costs as the fabric and the message grow: CPU time for the fabric with its paths, for
// all switches' tables, and for the run.
func BenchmarkGrowth(b *testing.B) {
	for g := range strings.SplitSeq(*growthGPUs, ",") {
		gpus, _ := strconv.Atoi(g)
		spec, ok := bench.FatTree(gpus)
		if !ok {
			b.Fatalf("-growth.gpus: %q", g)
		}
		for _, kind := range []string{"permutation", "halving-doubling"} {
			for _, bytes := range []fabric.Bytes{64 << 10, 1 << 20, 4 << 20, 16 << 20, 256 << 20} {
				b.Run(fmt.Sprintf("%s-%d-GPUs-%dKiB", kind, gpus, bytes>>10), func(b *testing.B) {
					for b.Loop() {
						grow(b, spec, kind, bytes)
					}
				})
			}
		}
	}
}

func grow(b *testing.B, spec fabric.Spec, kind string, bytes fabric.Bytes) {
	began := cpuSeconds(b)
	f, err := fabric.New(spec)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(cpuSeconds(b)-began, "fabric-cpu-s")
	began = cpuSeconds(b)
	c, err := controller.New(controller.Config{Fabric: f, Instance: "growth"})
	if err != nil {
		b.Fatal(err)
	}
	entries := 0
	for i := range f.Switches() {
		entries += len(c.Desired(fabric.NodeID(f.Hosts() + i)))
	}
	b.ReportMetric(cpuSeconds(b)-began, "tables-cpu-s")
	b.ReportMetric(float64(entries), "entries")
	op, algorithm := kind, ""
	if kind == "halving-doubling" {
		op, algorithm = "all-reduce", kind
	}
	run := plan(b, spec, op, algorithm, bytes, "ethereal", scenario.Seeds{1})[0]
	began = cpuSeconds(b)
	r, err := flow.Run(context.Background(), run, scenario.Observer{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(cpuSeconds(b)-began, "run-cpu-s")
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapSys>>20), "heap-MB")
	b.ReportMetric(float64(r.SimEvents), "events")
	b.ReportMetric(*r.CCT, "cct-us")
}

func cpuSeconds(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
