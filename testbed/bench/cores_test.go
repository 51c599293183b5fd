//go:build unix

package bench

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

var coresOf = flag.String("performance.cores", "permutation,all-to-all,direct-4MB,halving-doubling-64MB",
	"cases of TestCores; one that ends in a number like demo-16 is an all-to-all of so many GPUs")

// coresHelper, in the environment, is how many cores TestCoresHelper uses.
const coresHelper = "ETHEREAL_PERFORMANCE_CORES"

// caseOf returns the run of a name that TestCores takes.
func caseOf(t *testing.T, name string) scenario.Run {
	t.Helper()
	if i := slices.IndexFunc(references(), func(w reference) bool { return w.name == name }); i >= 0 {
		return references()[i].run(t)
	}
	if gpus, ok := strings.CutPrefix(name, "demo-"); ok {
		n, err := strconv.Atoi(gpus)
		if err != nil {
			t.Fatal(err)
		}
		s := scenario.Default()
		s.Name = name
		s.Fabric = fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 4, HostsPerToR: n / 4}
		s.Collectives = []scenario.Collective{{Kind: "all-to-all", Bytes: 16e6}}
		s.Schemes = []scenario.Scheme{{Name: "ethereal"}}
		s.Failures = []scenario.Failure{{Name: "healthy"}}
		s.Seeds = scenario.Seeds{1}
		runs, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		return runs[0]
	}
	return find(t, name).run(t)
}

// TestCores prints what regions save, and what a second core does: the time of a
// whole run, its fabric's tables included.
func TestCores(t *testing.T) {
	if os.Getenv("ETHEREAL_MEASURE") == "" {
		t.Skip("ETHEREAL_MEASURE is not set: this measures, it does not test")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ways := []struct {
		name           string
		cores, regions int // 0 regions: as many as pay
	}{{"1 core, 1 region", 1, 1}, {"1 core", 1, 0}, {"2 cores", 2, 0}}
	fmt.Println("case\ton\ts\tcpu_s\tspeed-up")
	for name := range strings.SplitSeq(*coresOf, ",") {
		seconds, cpu := make([][]float64, len(ways)), make([][]float64, len(ways))
		hashes := map[string]bool{}
		for range *repeat {
			for k, way := range ways {
				c := exec.Command(exe, "-test.run=^TestCoresHelper$", "-test.v")
				c.Env = append(os.Environ(), helper+"="+name, fmt.Sprintf("%s=%d,%d", coresHelper, way.cores, way.regions), "GOMAXPROCS=2")
				out, used, _ := measure(t, c)
				_, line, _ := strings.Cut(out, "result ")
				line, _, _ = strings.Cut(line, "\n")
				var r report.Result
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatalf("%v: %.500s", err, out)
				}
				seconds[k], cpu[k] = append(seconds[k], r.WallMS/1000), append(cpu[k], used)
				hashes[r.EventsSHA256] = true
			}
		}
		if len(hashes) > 1 {
			t.Errorf("%s: results differ: %v", name, hashes)
		}
		middle := func(x []float64) float64 { return slices.Sorted(slices.Values(x))[len(x)/2] }
		for k, way := range ways {
			fmt.Printf("%s\t%s\t%.2f\t%.2f\t%.2f\n", name, way.name, middle(seconds[k]), middle(cpu[k]),
				middle(seconds[0])/middle(seconds[k]))
		}
	}
}

// TestCoresHelper is the other process of TestCores.
func TestCoresHelper(t *testing.T) {
	var cores, regions int
	if _, err := fmt.Sscanf(os.Getenv(coresHelper), "%d,%d", &cores, &regions); err != nil {
		t.Skip("run by TestCores")
	}
	obs := scenario.Observer{Cores: cores, Regions: regions}
	r, err := virtual.Runner()(context.Background(), caseOf(t, os.Getenv(helper)), obs)
	if err != nil || !r.Finished {
		t.Fatal(r, err)
	}
	r.Links, r.Timeline, r.FlipRecords = nil, nil, nil
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("result %s\n", b)
}
