//go:build unix

package bench

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var stagesOf = flag.String("performance.stages", "permutation,all-to-all", "cases of TestStages, as TestAgainstHtsim and TestReferenceCases name them")

// stages are what a sample of a profile can be of: the first whose pattern a function
// matches, from the innermost outwards.
var stages = []struct {
	name    string
	pattern *regexp.Regexp
}{
	{"reading ahead", regexp.MustCompile(`netsim\.\(\*region\)\.warm$`)},
	{"event log's hash", regexp.MustCompile(`netsim\.\(\*region\)\.record$`)},
	{"event queue", regexp.MustCompile(`netsim\.\(\*queue\)\.|netsim\.eventOf`)},
	{"P4 ingress", regexp.MustCompile(`netsim/p4\.\(\*Switch\)\.(IngressInPlace|KeepInPlace|Ingress)$`)},
	{"P4 egress", regexp.MustCompile(`netsim/p4\.\(\*Switch\)\.(EgressInPlace|Egress)$`)},
	{"set-up and result", regexp.MustCompile(`virtual\.(newWorld|NewLab|Bound|\(\*world\)\.measure)$`)},
	{"NIC, agent, collective", regexp.MustCompile(`virtual\.\(\*host\)|virtual\.single|/nic\.|/hostagent\.`)},
	{"links, queues, buffers", regexp.MustCompile(`netsim\.`)},
	{"garbage collection", regexp.MustCompile(`runtime\.(gc|bg)`)},
}

const elsewhere = "elsewhere"

// TestStages prints where the CPU time of a packet-hop goes, from a profile of a whole
// run. Functions are not interrupted: else half of the samples would be of the
// interruption.
func TestStages(t *testing.T) {
	if os.Getenv("ETHEREAL_MEASURE") == "" {
		t.Skip("ETHEREAL_MEASURE is not set: this measures, it does not test")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("case\tstage\tns/hop\tshare")
	for name := range strings.SplitSeq(*stagesOf, ",") {
		file := filepath.Join(t.TempDir(), "cpu.prof")
		c := exec.Command(exe, "-test.run=^TestHelper$", "-test.v", "-test.cpuprofile="+file)
		c.Env = append(os.Environ(), helper+"="+name, "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
		out, seconds, _ := measure(t, c)
		m := regexp.MustCompile(`hops (\d+)`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("no hops in %.500s", out)
		}
		hops, _ := strconv.ParseFloat(m[1], 64)
		traces, err := exec.Command("go", "tool", "pprof", "-traces", exe, file).Output()
		if err != nil {
			t.Fatal(err)
		}
		spent := shareOut(t, string(traces))
		all := time.Duration(0)
		for _, d := range spent {
			all += d
		}
		byTime := slices.SortedFunc(maps.Keys(spent), func(a, b string) int { return int(spent[b] - spent[a]) })
		for _, stage := range byTime {
			share := float64(spent[stage]) / float64(all)
			fmt.Printf("%s\t%s\t%.0f\t%.0f %%\n", name, stage, share*seconds*1e9/hops, 100*share)
		}
		fmt.Printf("%s\tall\t%.0f\t%.1f CPU-s, %.2f M hops\n", name, seconds*1e9/hops, seconds, hops/1e6)
	}
}

// shareOut adds up the samples of stacks as pprof writes them: after a line of dashes
// a time with the innermost function, then its callers.
func shareOut(t *testing.T, traces string) map[string]time.Duration {
	t.Helper()
	spent := map[string]time.Duration{}
	for block := range strings.SplitSeq(traces, "-----------+-------------------------------------------------------\n") {
		lines := strings.Fields(strings.ReplaceAll(block, "(inline)", ""))
		if len(lines) < 2 {
			continue
		}
		d, err := time.ParseDuration(lines[0])
		if err != nil {
			continue // the head
		}
		spent[stageOf(lines[1:])] += d
	}
	if len(spent) < 2 {
		t.Fatalf("no stacks in %.500s", traces)
	}
	return spent
}

func stageOf(stack []string) string {
	for _, function := range stack {
		for _, s := range stages {
			if s.pattern.MatchString(function) {
				return s.name
			}
		}
	}
	return elsewhere
}

// A sample counts for the innermost stage.
func TestShareOut(t *testing.T) {
	const line = "-----------+-------------------------------------------------------\n"
	got := shareOut(t, "File: x\nType: cpu\n"+line+
		"      20ms   runtime.memmove\n             x/testbed/nic.(*Endpoint).Next\n             x/testbed/netsim.(*region).ask (inline)\n"+line+
		"     1.01s   x/testbed/netsim.(*queue).push (inline)\n             x/testbed/netsim.(*region).fly\n"+line+
		"      10ms   x/testbed/bmv2.(*Traces).recall\n             x/testbed/netsim/p4.(*Switch).IngressInPlace\n"+line+
		"      10ms   runtime.main\n")
	want := map[string]time.Duration{
		"NIC, agent, collective": 20 * time.Millisecond, "event queue": 1010 * time.Millisecond,
		"P4 ingress": 10 * time.Millisecond, elsewhere: 10 * time.Millisecond,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
