//go:build unix

package bench

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// stages are what a sample of a profile can be of: the first whose pattern a function
// matches, from the innermost outwards.
var stages = []struct {
	name    string
	pattern *regexp.Regexp
}{
	{"event log's hash", regexp.MustCompile(`testbed/sim\.\(\*region\)\.record$`)},
	{"event queue", regexp.MustCompile(`testbed/sim\.\(\*queue\)\.|testbed/sim\.eventOf`)},
	{"P4 ingress", regexp.MustCompile(`sim/p4\.\(\*Switch\)\.(IngressInPlace|KeepInPlace|Ingress)$`)},
	{"P4 egress", regexp.MustCompile(`sim/p4\.\(\*Switch\)\.(EgressInPlace|Egress)$`)},
	{"set-up and result", regexp.MustCompile(`virtual\.(newWorld|NewLab|Bound|\(\*world\)\.measure)$`)},
	{"NIC, agent, collective", regexp.MustCompile(`virtual\.\(\*host\)|virtual\.single|/roce/[a-z]+\.|/testbed/(host|balance)\.|/hostagent\.`)},
	{"links, queues, buffers", regexp.MustCompile(`testbed/sim\.`)},
	{"garbage collection", regexp.MustCompile(`runtime\.(gc|bg)`)},
}

const elsewhere = "elsewhere"

// BenchmarkStages is where the CPU time of a packet-hop goes, from a profile of a whole run. Functions are not
// interrupted: else half of the samples would be of the interruption.
func BenchmarkStages(b *testing.B) {
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for _, w := range []workload{permutation, allToAll} {
		b.Run(w.Kind, func(b *testing.B) {
			for b.Loop() {
				file := filepath.Join(b.TempDir(), "cpu.prof")
				took, _ := job{Workload: w, Profile: file}.start(b, "GODEBUG=asyncpreemptoff=1")
				traces, err := exec.Command("go", "tool", "pprof", "-traces", exe, file).Output()
				if err != nil {
					b.Fatal(err)
				}
				spent := shareOut(b, string(traces))
				all := time.Duration(0)
				for _, d := range spent {
					all += d
				}
				for stage, d := range spent {
					share := float64(d) / float64(all)
					b.ReportMetric(share*took.seconds*1e9/took.hops, strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(stage)+"-ns/hop")
				}
				b.ReportMetric(took.seconds*1e9/took.hops, "all-ns/hop")
			}
		})
	}
}

// shareOut adds up the samples of stacks as pprof writes them: after a line of dashes
// a time with the innermost function, then its callers.
func shareOut(t testing.TB, traces string) map[string]time.Duration {
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
		"      20ms   runtime.memmove\n             x/roce/transport.(*Endpoint).Next\n             x/testbed/sim.(*region).ask (inline)\n"+line+
		"     1.01s   x/testbed/sim.(*queue).push (inline)\n             x/testbed/sim.(*region).fly\n"+line+
		"      10ms   x/p4switch/interp.(*Traces).exec\n             x/testbed/sim/p4.(*Switch).IngressInPlace\n"+line+
		"      10ms   runtime.main\n")
	want := map[string]time.Duration{
		"NIC, agent, collective": 20 * time.Millisecond, "event queue": 1010 * time.Millisecond,
		"P4 ingress": 10 * time.Millisecond, elsewhere: 10 * time.Millisecond,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
