package importer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestHostileFiles: short files that make large workloads, or work that grows faster than the file, are refused or read
// in bounded memory; names of files do not become lines of a scenario.
func TestHostileFiles(t *testing.T) {
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	huge := strings.Repeat(" 1 ALLREDUCE 1125899906842624", 3)
	for _, c := range []struct{ kind, text, want string }{
		{"simai", "HYBRID_TRANSFORMER model_parallel_NPU_group: 2 all_gpus: 8\n200\n" + strings.Repeat("l -1"+huge+" 1\n", 200), "more than 1048576 collectives"},
		{"aicb", "[rank0 ~ rank1]\ncomm_type,comm_group,msg_size,_elapsed_time\n" +
			strings.Repeat("all_reduce,tp_group,1125899906842624,1\n", 200), "more than 1048576 collectives"},
		{"nccl", `<graphs><graph pattern="4" speedinter="1">` + strings.Repeat(`<channel><gpu dev="0"/></channel>`, 65) + "</graph></graphs>",
			"at most 64"},
	} {
		_, err := Read(c.kind, []string{write("in", c.text)}, Options{Servers: 100_000})
		if !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.kind, err, c.want)
		}
	}

	const tors = 150 // as many spines: the ways from ToR to ToR are 3,375,000
	var topo strings.Builder
	fmt.Fprintf(&topo, "%d %d %d\n", 3*tors, 2*tors, tors+tors*tors)
	for i := range 2 * tors {
		fmt.Fprint(&topo, tors+i, " ")
	}
	for i := range tors {
		fmt.Fprintf(&topo, "\n%d %d 1Gbps 1ns 0", i, tors+i)
		for j := range tors {
			fmt.Fprintf(&topo, "\n%d %d 1Gbps 1ns 0", tors+i, 2*tors+j)
		}
	}
	path := write("topo", topo.String())
	if bytes := allocated(func() { _, _ = Read("hpcc", []string{path}, Options{}) }); bytes > 100<<20 {
		t.Errorf("a topology of %d bytes takes %d bytes", topo.Len(), bytes)
	}

	path = write("words", "3 1 2\n2\n"+strings.Repeat("1 ", MaxBytes/2))
	if _, err := Read("hpcc", []string{path}, Options{}); err == nil || !strings.Contains(err.Error(), "no more than 16777216") {
		t.Errorf("%v", err)
	}

	name := "in\nschemes: [none]\n\u009b#.cm"
	im, err := Read("htsim", []string{write(name, "Nodes 4\nConnections 1\n0->1 start 0 size 100\n")}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var load strings.Builder
	if err := im.Workload(&load); err != nil {
		t.Fatal(err)
	}
	text, _, err := im.Scenario("x")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{load.String(), string(text)} {
		var into map[string]any
		if err := yaml.Unmarshal([]byte(text), &into); err != nil || strings.Contains(text, "\nschemes: [none]") {
			t.Errorf("%v\n%s", err, text)
		}
	}
}

// allocated returns the bytes that a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestLargeRates: rates that would not fit into 64 bits, alone or together, are errors that name the place.
func TestLargeRates(t *testing.T) {
	net := func(n int, speed string) string {
		return `<system version="1"><cpu><pci class="0x030200"><gpu dev="0" sm="90"/></pci><nic>` +
			strings.Repeat(`<net speed="`+speed+`"/>`, n) + `</nic></cpu></system>`
	}
	topology := func(links string) string {
		return "4 2 5\n2 3\n0 2 1Gbps 1us 0\n1 2 1Gbps 1us 0\n" + links
	}
	for _, c := range []struct {
		kind, text string
		nic        fabric.Rate
		want       string
	}{
		{"nccl", net(100_000, "2147483647"), 0, `net has speed "2147483647"`},
		{"nccl", net(1, "9223372036854775807"), 0, `net has speed "9223372036854775807"`},
		{"nccl", net(64, "2000000000"), 0, `net has speed "2000000000"`},
		{"nccl", `<system><pci class="0x030200"><gpu dev="0" sm="90"><nvlink count="2147483647"/></gpu></pci><pci class="0x030200"><gpu sm="90"/></pci><net speed="1"/></system>`, 0, "nvlink has count 2147483647"},
		{"nccl", `<system><pci class="0x030200"><gpu dev="0" sm="90"/></pci>` + strings.Repeat(`<pci class="0x020000"/>`, 65) + `</system>`, fabric.MaxRate, "--nic-rate"},
		{"nccl", `<system>` + strings.Repeat("<pci>", 65) + strings.Repeat("</pci>", 65) + `</system>`, 0, "nested 66 deep"},
		{"hpcc", topology("2 3 4000000Tbps 1us 0\n2 3 4000000Tbps 1us 0\n2 3 4000000Tbps 1us 0\n"), 0, "in:5: links 2-3 have"},
		{"hpcc", topology("2 3 600Tbps 1us 0\n2 3 600Tbps 1us 0\n2 3 1Gbps 1us 0\n"), 0, "in:6: links 2-3 have"},
		{"htsim", "Nodes 4\nTiers 2\nPodsize 4\nTier 0\nDownlink_speed_Gbps 1\nRadix_Up 2\nRadix_Down 2\nDownlink_Latency_ns 1\n" +
			"Tier 1\nDownlink_speed_Gbps 1073741824\nRadix_Down 2\nBundle 1073741824\nDownlink_Latency_ns 1\n", 0, "tier 1 has Downlink_speed_Gbps 1073741824"},
	} {
		path := filepath.Join(t.TempDir(), "in")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(c.kind, []string{path}, Options{Servers: 2, Rate: c.nic}); !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.kind, err, c.want)
		}
	}
	im := Imported{Jobs: []Job{{Steps: []Step{{Compute: fabric.Never - 1}, {Compute: fabric.Never - 1}, {Compute: fabric.Never - 1}}}}}
	if d, err := im.deadline(fabric.Spec{Kind: fabric.KindFatTree, K: 4}); err != nil || d < fabric.Second {
		t.Errorf("computations of 318 days have the deadline %v: %v", d, err)
	}
}
