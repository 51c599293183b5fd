//go:build unix

package bench

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/bench/plot"
)

var (
	growthGPUs  = flag.String("growth.gpus", "64,128,256,512", "GPUs of BenchmarkGrowth, as FatTree takes them")
	growthBytes = flag.String("growth.bytes", "65536,262144,1048576", "message sizes of BenchmarkGrowth, bytes")
)

// The size and the fabric that stay as they are while the other grows.
const (
	growthAtBytes = 1 << 20
	growthAtGPUs  = 512
)

// BenchmarkGrowth is what a run costs, packet by packet, as the fabric grows and as the message does: each point in a
// process of its own, and once more without the collective, which is the fabric, its tables and the result.
// ETHEREAL_GROWTH names a directory for growth.svg.
func BenchmarkGrowth(b *testing.B) {
	seconds := plot.Panel{Title: "CPU time by GPUs, 1 MiB messages", X: "GPUs", Log: true, Y: plot.Nanoseconds}
	memory := plot.Panel{Title: "Resident memory by GPUs, 1 MiB messages", X: "GPUs", Log: true, Y: plot.Megabytes}
	size := plot.Panel{Title: "CPU time by message size, 512 GPUs", X: "KiB", Log: true, Y: plot.Nanoseconds}
	for _, kind := range []string{"permutation", "halving-doubling"} {
		var ns, mb, ofSize plot.Series
		ns.Name, mb.Name, ofSize.Name = kind, kind, kind
		for _, gpus := range numbers(b, *growthGPUs) {
			if c, ok := grow(b, workload{kind, gpus, growthAtBytes, 0, ""}); ok {
				ns.Add(gpus, c.seconds*1e9)
				mb.Add(gpus, c.mb)
			}
		}
		for _, bytes := range numbers(b, *growthBytes) {
			if c, ok := grow(b, workload{kind, growthAtGPUs, int64(bytes), 0, ""}); ok {
				ofSize.Add(bytes>>10, c.seconds*1e9)
			}
		}
		seconds.Series, memory.Series, size.Series = append(seconds.Series, ns), append(memory.Series, mb), append(size.Series, ofSize)
	}
	if dir := os.Getenv("ETHEREAL_GROWTH"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "growth.svg"), plot.SVG([]plot.Panel{seconds, memory, size}), 0o644); err != nil {
			b.Fatal(err)
		}
	}
}

// grow returns what a run took beyond its set-up, and the memory of all; not ok if the command line does not ask for
// it.
func grow(b *testing.B, w workload) (last cost, ok bool) {
	b.Run(w.String(), func(b *testing.B) {
		for b.Loop() {
			setUp, _ := job{Workload: w, SetUp: true}.start(b)
			c, r := job{Workload: w}.start(b)
			c.seconds = max(c.seconds-setUp.seconds, 0.01)
			c.report(b)
			b.ReportMetric(setUp.seconds, "set-up-cpu-s")
			b.ReportMetric(float64(r.SimEvents), "events")
			b.ReportMetric(*r.CCT, "cct-us")
			last, ok = c, true
		}
	})
	return last, ok
}

func numbers(b *testing.B, list string) (out []int) {
	b.Helper()
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}
