//go:build unix

package bench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report/plot"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

var (
	growthGPUs  = flag.String("growth.gpus", "64,128,256,512", "GPUs of TestGrowth, as FatTree takes them")
	growthBytes = flag.String("growth.bytes", "65536,262144,1048576", "message sizes of TestGrowth, bytes")
	growthKinds = flag.String("growth.kinds", "permutation,halving-doubling", "collectives of TestGrowth")
)

// growthHelper, in the environment, is the run that TestGrowthHelper carries out.
const growthHelper = "ETHEREAL_PERFORMANCE_GROWTH"

// The size and the fabric that stay as they are while the other grows.
const (
	growthAtBytes = 1 << 20
	growthAtGPUs  = 512
)

// growthPoint is one run: a collective of so many GPUs and bytes.
type growthPoint struct {
	kind        string
	gpus, bytes int
}

// TestGrowth prints what a run costs, packet by packet, as the fabric grows and as the
// message does: each point in a process of its own, once without the collective, which
// is the fabric, its tables and the result. ETHEREAL_GROWTH names the directory for
// growth.svg.
func TestGrowth(t *testing.T) {
	dir := os.Getenv("ETHEREAL_GROWTH")
	if dir == "" {
		t.Skip("set ETHEREAL_GROWTH to a directory for the picture, such as ../../docs")
	}
	seconds := plot.Panel{Title: "CPU time by GPUs, 1 MiB messages", X: "GPUs", Log: true, Y: plot.Nanoseconds}
	memory := plot.Panel{Title: "Resident memory by GPUs, 1 MiB messages", X: "GPUs", Log: true, Y: plot.Megabytes}
	size := plot.Panel{Title: "CPU time by message size, 512 GPUs", X: "KiB", Log: true, Y: plot.Nanoseconds}
	fmt.Println("gpus\tcollective\tbytes\tset-up cpu_s\trun cpu_s\tMB\thops\tevents\tMhops/cpu_s\tcct_us")
	for kind := range strings.SplitSeq(*growthKinds, ",") {
		var ns, mb, ofSize plot.Series
		ns.Name, mb.Name, ofSize.Name = kind, kind, kind
		for _, gpus := range numbers(t, *growthGPUs) {
			seconds, resident := growthPoint{kind, gpus, growthAtBytes}.measure(t)
			ns.Add(gpus, seconds*1e9)
			mb.Add(gpus, resident)
		}
		for _, bytes := range numbers(t, *growthBytes) {
			seconds, _ := growthPoint{kind, growthAtGPUs, bytes}.measure(t)
			ofSize.Add(bytes>>10, seconds*1e9)
		}
		seconds.Series, memory.Series, size.Series = append(seconds.Series, ns), append(memory.Series, mb), append(size.Series, ofSize)
	}
	if err := os.WriteFile(filepath.Join(dir, "growth.svg"), plot.SVG([]plot.Panel{seconds, memory, size}), 0o644); err != nil {
		t.Fatal(err)
	}
}

func numbers(t *testing.T, list string) (out []int) {
	t.Helper()
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

// measure prints a point's line and returns what the run took beyond its set-up, and
// the memory of all.
func (p growthPoint) measure(t *testing.T) (seconds, mb float64) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	process := func(deadline fabric.Time) (out string, seconds, mb float64) {
		c := exec.Command(exe, "-test.run=^TestGrowthHelper$", "-test.v")
		c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %d", growthHelper, p.kind, p.gpus, p.bytes, deadline), "GOMAXPROCS=1")
		return measure(t, c)
	}
	_, setUp, _ := process(1)
	out, all, mb := process(0)
	var hops, events float64
	var cct string
	_, line, _ := strings.Cut(out, "result ")
	if _, err := fmt.Sscan(line, &hops, &events, &cct); err != nil {
		t.Fatalf("%v in %.500s", err, out)
	}
	seconds = max(all-setUp, 0.01)
	fmt.Printf("%d\t%s\t%d\t%.2f\t%.2f\t%.0f\t%.0f\t%.0f\t%.2f\t%s\n",
		p.gpus, p.kind, p.bytes, setUp, seconds, mb, hops, events, hops/seconds/1e6, cct)
	return seconds, mb
}

// TestGrowthHelper is the other process of TestGrowth.
func TestGrowthHelper(t *testing.T) {
	var p growthPoint
	var deadline fabric.Time
	if _, err := fmt.Sscan(os.Getenv(growthHelper), &p.kind, &p.gpus, &p.bytes, &deadline); err != nil {
		t.Skip("run by TestGrowth")
	}
	s := scenario.Default()
	var ok bool
	if s.Fabric, ok = FatTree(p.gpus); !ok {
		t.Fatalf("-growth.gpus: %d", p.gpus)
	}
	s.Name, s.Host.Payload = "growth", 4096
	op := scenario.Collective{Kind: p.kind, Bytes: fabric.Bytes(p.bytes)}
	switch p.kind {
	case "permutation":
		op.Shift = p.gpus / 2
	case "halving-doubling", "ring", "direct":
		op.Kind, op.Algorithm = "all-reduce", p.kind
	}
	s.Collectives = []scenario.Collective{op}
	s.Schemes = []scenario.Scheme{{Name: "ethereal"}}
	s.Failures = []scenario.Failure{{Name: "healthy"}}
	s.Seeds = scenario.Seeds{1}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	if deadline > 0 {
		runs[0].Scenario.Deadline = deadline
	}
	r, err := virtual.Runner()(context.Background(), runs[0], scenario.Observer{})
	if err != nil || !r.Finished && deadline == 0 {
		t.Fatal(r, err)
	}
	if r.Finished {
		fmt.Printf("result %d %d %.1f\n", r.PacketHops, r.SimEvents, *r.CCT)
	}
}
