//go:build unix

package bench

import (
	"bytes"
	"context"
	"encoding/json"
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
	"syscall"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

var (
	repeat = flag.Int("performance.runs", 1, "runs of each simulator; the median counts")
	only   = flag.String("performance.cases", "permutation,recursive-doubling", "cases: permutation, recursive-doubling, all-to-all")
	size   = flag.Int64("performance.bytes", 0, "of the cases' collectives; 0: what they are documented with")
)

// helper, in the environment, makes this binary carry out one of our runs.
const helper = "ETHEREAL_PERFORMANCE_CASE"

// A workload is the same messages in both simulators: 512 GPUs, 32 ToRs, 32
// aggregation switches, 16 cores, not oversubscribed, 400 Gb/s hosts, 4 KiB.
type workload struct {
	name string
	op   scenario.Collective
}

func workloads() []workload {
	return []workload{
		{"permutation", scenario.Collective{Kind: "permutation", Bytes: 4 << 20, Shift: 256}},
		{"recursive-doubling", scenario.Collective{Kind: "all-reduce", Algorithm: "halving-doubling", Bytes: 4 << 20}},
		{"all-to-all", scenario.Collective{Kind: "all-to-all", Bytes: 8 << 20}}, // 261,632 flows of 16 KiB
	}
}

func find(t *testing.T, name string) workload {
	t.Helper()
	i := slices.IndexFunc(workloads(), func(w workload) bool { return w.name == name })
	if i < 0 {
		t.Fatalf("-performance.cases: no case %q", name)
	}
	w := workloads()[i]
	if *size > 0 {
		w.op.Bytes = fabric.Bytes(*size)
	}
	return w
}

func (w workload) run(t *testing.T) scenario.Run {
	t.Helper()
	s := scenario.Default()
	fast := fabric.LinkSpec{Rate: 1600e9, Delay: 500 * fabric.Nanosecond}
	s.Name = w.name
	s.Fabric = fabric.Spec{
		Kind: fabric.KindFatTree, Pods: 8, ToRsPerPod: 4, AggsPerPod: 4, Cores: 16, HostsPerToR: 16,
		HostLink: fabric.LinkSpec{Rate: 400e9, Delay: 500 * fabric.Nanosecond}, ToRUplink: fast, AggUplink: fast,
	}
	s.Host.Payload = 4096
	s.Collectives = []scenario.Collective{w.op}
	s.Schemes = []scenario.Scheme{{Name: "ethereal"}}
	s.Failures = []scenario.Failure{{Name: "healthy"}}
	s.Seeds = scenario.Seeds{1}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	return runs[0]
}

// cost is what one run of a simulator took, in a process of its own.
type cost struct {
	hops    float64
	seconds float64 // of CPU, user and system
	mb      float64 // resident at most
}

func (c cost) rate() float64 { return c.hops / c.seconds / 1e6 }

// measure runs a command to its end.
func measure(t *testing.T, c *exec.Cmd) (out string, seconds, mb float64) {
	t.Helper()
	var buf bytes.Buffer
	c.Stdout, c.Stderr = &buf, &buf
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %v\n%.2000s", c.Args, err, buf.String())
	}
	u, ok := c.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Skip("no resource usage of processes here")
	}
	return buf.String(), float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9, float64(u.Maxrss) / 1024
}

// TestAgainstHtsim runs the same messages through uet-htsim (HTSIM names its
// htsim_uec) and through the virtual world, in turn, and compares packet-hops per
// CPU-second: data packets and acknowledgements, one for every link crossed.
func TestAgainstHtsim(t *testing.T) {
	htsim := os.Getenv("HTSIM")
	if htsim == "" {
		t.Skip("HTSIM does not name an htsim_uec; see docs/performance.md")
	}
	fmt.Println("case\tsimulator\tMhops\tcpu_s\tMhops/cpu_s\tMB")
	for name := range strings.SplitSeq(*only, ",") {
		w := find(t, name)
		var theirs, ours []cost
		for range *repeat {
			theirs = append(theirs, w.htsim(t, htsim))
			ours = append(ours, w.ours(t))
		}
		a, b := median(theirs), median(ours)
		for _, x := range []struct {
			who string
			c   cost
		}{{"htsim", a}, {"ethereal", b}} {
			fmt.Printf("%s\t%s\t%.2f\t%.2f\t%.3f\t%.0f\n", name, x.who, x.c.hops/1e6, x.c.seconds, x.c.rate(), x.c.mb)
		}
		fmt.Printf("%s\tratio\t\t\t%.2f\n", name, b.rate()/a.rate())
	}
}

func median(c []cost) cost {
	slices.SortFunc(c, func(a, b cost) int { return int(1e6 * (a.rate() - b.rate())) })
	return c[len(c)/2]
}

func (w workload) ours(t *testing.T) cost {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe, "-test.run=^TestHelper$", "-test.v", fmt.Sprintf("-performance.bytes=%d", *size))
	c.Env = append(os.Environ(), helper+"="+w.name, "GOMAXPROCS=1")
	out, seconds, mb := measure(t, c)
	m := regexp.MustCompile(`hops (\d+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no hops in %.500s", out)
	}
	hops, _ := strconv.ParseFloat(m[1], 64)
	return cost{hops, seconds, mb}
}

// TestHelper is the other process of TestAgainstHtsim and TestReferenceCases.
func TestHelper(t *testing.T) {
	name := os.Getenv(helper)
	if name == "" {
		t.Skip("run by other tests")
	}
	var run scenario.Run
	if i := slices.IndexFunc(references(), func(w reference) bool { return w.name == name }); i >= 0 {
		run = references()[i].run(t)
	} else {
		run = find(t, name).run(t)
	}
	r, err := virtual.Runner()(context.Background(), run, scenario.Observer{})
	if err != nil || !r.Finished {
		t.Fatal(r, err)
	}
	b, err := json.Marshal(r.CCT)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("hops %d cct_us %s\n", r.PacketHops, b)
}

// htsim writes the fabric and the messages as htsim reads them. A 1.6 Tb/s link
// is a bundle of four.
func (w workload) htsim(t *testing.T, binary string) cost {
	t.Helper()
	dir := t.TempDir()
	topo, matrix := filepath.Join(dir, "fabric.topo"), filepath.Join(dir, "messages.cm")
	if err := os.WriteFile(topo, []byte(htsimFabric), 0o600); err != nil {
		t.Fatal(err)
	}
	text, links, packets := w.matrix(t)
	if err := os.WriteFile(matrix, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(binary, "-topo", topo, "-tm", matrix, "-linkspeed", "400000", "-mtu", "4096",
		"-end", "100000", "-o", filepath.Join(dir, "log"))
	c.Dir = dir // it writes more files, wherever it is
	out, seconds, mb := measure(t, c)
	m := regexp.MustCompile(`New: (\d+) Rtx: (\d+) .*ACKs: (\d+) NACKs: (\d+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no packet counts in %.500s", out[max(0, len(out)-500):])
	}
	var counts [4]float64
	sent := 0.0
	for i, x := range m[1:] {
		counts[i], _ = strconv.ParseFloat(x, 64)
		sent += counts[i]
	}
	if counts[0] < packets {
		t.Fatalf("htsim sent %.0f packets of the %.0f that the messages have", counts[0], packets)
	}
	return cost{sent * links / packets, seconds, mb}
}

const htsimFabric = `Nodes 512
Tiers 3
Podsize 64

Tier 0
Downlink_speed_Gbps 400
Radix_Down 16
Radix_Up 16
Downlink_Latency_ns 500
Switch_Latency_ns 0

Tier 1
Downlink_speed_Gbps 400
Radix_Down 16
Radix_Up 16
Downlink_Latency_ns 500
Switch_Latency_ns 0
Bundle 4

Tier 2
Downlink_speed_Gbps 400
Radix_Down 32
Downlink_Latency_ns 500
Switch_Latency_ns 0
Bundle 4
`

// matrix lists the messages of all phases. It also returns how many links their
// packets cross and how many packets there are.
//
// A rank begins a phase when it has sent and received all of the one before. In
// htsim only the end of a sender's message, all of it acknowledged, fires a trigger
// ([UecSrc] in uec.cpp; a receiver's end trigger is stored and never fired), and
// each message has one. So the ranks that are tied to each other in a phase, by
// messages in either direction, share a barrier: their next messages begin when all
// of those are acknowledged, half a round trip after the last one has arrived. The
// partners of recursive doubling are tied in pairs.
func (w workload) matrix(t *testing.T) (text []byte, links, packets float64) {
	t.Helper()
	run := w.run(t)
	job, err := collective.New(run.CollectiveSpec())
	if err != nil {
		t.Fatal(err)
	}
	var b, triggers bytes.Buffer
	id, barriers := 0, 0
	waits := map[int]int{} // by rank: the trigger of its next phase
	for phase := range job.Phases() {
		var sends []collective.Send
		tied := newTies(run.Fabric.Hosts())
		for s := range job.Traffic(phase) {
			sends = append(sends, s)
			tied.join(s.Src, s.Dst)
		}
		barrier, count := map[int]int{}, map[int]int{} // by the ranks' root
		for _, s := range sends {
			root := tied.root(s.Src)
			if count[root]++; count[root] == 1 && phase+1 < job.Phases() {
				barriers++
				barrier[root] = barriers
			}
		}
		for _, s := range sends {
			id++
			fmt.Fprintf(&b, "%d->%d id %d ", s.Src, s.Dst, id)
			if on := waits[s.Src]; on == 0 {
				b.WriteString("start 0")
			} else {
				fmt.Fprintf(&b, "trigger %d", on)
			}
			fmt.Fprintf(&b, " size %d", s.Bytes)
			if then := barrier[tied.root(s.Src)]; then > 0 {
				fmt.Fprintf(&b, " send_done_trigger %d", then)
			}
			b.WriteByte('\n')
			n := float64((s.Bytes + 4095) / 4096)
			packets += n
			switch src, dst := run.Fabric.ToROf(fabric.NodeID(s.Src)), run.Fabric.ToROf(fabric.NodeID(s.Dst)); {
			case src == dst:
				links += 2 * n
			case run.Fabric.Node(src).Pod == run.Fabric.Node(dst).Pod:
				links += 4 * n
			default:
				links += 6 * n
			}
		}
		for rank := range run.Fabric.Hosts() {
			if on := barrier[tied.root(rank)]; on > 0 {
				waits[rank] = on
			}
		}
		for _, root := range slices.Sorted(maps.Keys(barrier)) {
			fmt.Fprintf(&triggers, "trigger id %d barrier count %d\n", barrier[root], count[root])
		}
	}
	head := fmt.Sprintf("Nodes 512\nConnections %d\n", id)
	if barriers > 0 {
		head += fmt.Sprintf("Triggers %d\n", barriers)
	}
	return slices.Concat([]byte(head), b.Bytes(), triggers.Bytes()), links, packets
}

// ties are ranks in sets: the parent of each, itself if it stands for its set.
type ties []int

func newTies(ranks int) ties {
	t := make(ties, ranks)
	for i := range t {
		t[i] = i
	}
	return t
}

func (t ties) root(rank int) int {
	for t[rank] != rank {
		t[rank] = t[t[rank]]
		rank = t[rank]
	}
	return rank
}

func (t ties) join(a, b int) { t[t.root(a)] = t.root(b) }
