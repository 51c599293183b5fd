//go:build unix

package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/pprof"
	"syscall"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// workload is a collective: in 4 KiB packets on [FatTree], or, of the reference evaluation, in
// 9000-byte packets between 256 GPUs under 16 ToRs and 16 spines.
type workload struct {
	Kind  string // of a collective, or an algorithm of all-reduce
	GPUs  int    // 0: of the reference evaluation
	Bytes int64
	NSCC  int // packets per ACK of Ultra Ethernet's transport; 0: RoCEv2 with DCTCP

	Scheme string // "": ethereal
}

// Cases that several benchmarks share.
var (
	permutation     = workload{"permutation", 512, 4 << 20, 0, ""}
	halving512      = workload{"halving-doubling", 512, 4 << 20, 0, ""}
	allToAll        = workload{"all-to-all", 512, 8 << 20, 0, ""} // 261,632 flows of 16 KiB
	direct          = workload{"direct", 0, 4e6, 0, ""}
	halvingDoubling = workload{"halving-doubling", 0, 64e6, 0, ""}
)

func (w workload) String() string {
	if w.GPUs == 0 {
		return fmt.Sprintf("reference-%s-%v", w.Kind, fabric.Bytes(w.Bytes))
	}
	return fmt.Sprintf("%s-%d-GPUs-%dKiB", w.Kind, w.GPUs, w.Bytes>>10)
}

func (w workload) run() (scenario.Run, error) {
	s := scenario.Default()
	s.Name = w.String()
	if w.GPUs == 0 {
		s.Fabric = fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 16, Spines: 16, HostsPerToR: 16}
	} else {
		var ok bool
		if s.Fabric, ok = FatTree(w.GPUs); !ok {
			return scenario.Run{}, fmt.Errorf("%d GPUs: see FatTree", w.GPUs)
		}
		s.Host.Payload = 4096
	}
	if w.NSCC > 0 { // as testbed/sweeps/ultra-ethernet.yaml
		s.Switch.Trim, s.Switch.ECN = 220480, scenario.ECN{KMin: 45760, KMax: 178880, PMax: 1}
		s.Host.Headers, s.Host.CongestionControl, s.Host.Receiver = 64, transport.NSCC, scenario.IdealReceiver
		s.Host.RTO, s.Host.Completion, s.Host.AckEvery = 10*fabric.Millisecond, scenario.OnAck, w.NSCC
	}
	op := scenario.Collective{Kind: w.Kind, Bytes: fabric.Bytes(w.Bytes)}
	switch w.Kind {
	case "permutation":
		op.Shift = w.GPUs / 2
	case "halving-doubling", "ring", "direct":
		op.Kind, op.Algorithm = "all-reduce", w.Kind
	}
	s.Collectives = []scenario.Collective{op}
	s.Schemes = []scenario.Scheme{{Name: cmp.Or(w.Scheme, "ethereal")}}
	s.Failures = []scenario.Failure{{Name: "healthy"}}
	s.Seeds = scenario.Seeds{1}
	runs, err := s.Expand()
	if err != nil {
		return scenario.Run{}, err
	}
	return runs[0], nil
}

// job is a run in a process of its own.
type job struct {
	Workload       workload
	SetUp          bool // without the collective
	Cores, Regions int
	Profile        string // file for a CPU profile; "": none
}

// asked, in the environment, makes this program carry out a job, write its result, and end.
const asked = "ETHEREAL_BENCH_JOB"

func TestMain(m *testing.M) {
	text := os.Getenv(asked)
	if text == "" {
		os.Exit(m.Run())
	}
	var j job
	err := json.Unmarshal([]byte(text), &j)
	if err == nil {
		err = j.do()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (j job) do() error {
	run, err := j.Workload.run()
	if err != nil {
		return err
	}
	if j.SetUp {
		run.Scenario.Deadline = 1
	}
	if j.Profile != "" {
		f, err := os.Create(j.Profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	r, err := virtual.Runner()(context.Background(), run, scenario.Observer{Cores: j.Cores, Regions: j.Regions})
	if err != nil {
		return err
	}
	if !r.Finished && !j.SetUp {
		return errors.New("the run did not finish")
	}
	r.Links, r.Timeline, r.FlipRecords = nil, nil, nil
	return report.Encode(os.Stdout, r)
}

// cost is what a process took.
type cost struct {
	hops    float64
	seconds float64 // of CPU, user and system
	mb      float64 // resident at most
}

// report adds a cost to a benchmark's line.
func (c cost) report(b *testing.B) {
	b.ReportMetric(c.seconds, "cpu-s")
	b.ReportMetric(c.mb, "MB")
	b.ReportMetric(c.hops/1e6, "Mhops")
	b.ReportMetric(c.hops/c.seconds/1e6, "Mhops/cpu-s")
}

// start carries a job out.
func (j job) start(b *testing.B, environment ...string) (cost, *report.Result) {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	text, err := json.Marshal(j)
	if err != nil {
		b.Fatal(err)
	}
	c := exec.Command(exe)
	c.Env = append(append(os.Environ(), asked+"="+string(text), fmt.Sprintf("GOMAXPROCS=%d", max(1, j.Cores))), environment...)
	out, took := measure(b, c)
	r := new(report.Result)
	if err := json.Unmarshal(out, r); err != nil {
		b.Fatalf("%v: %.500s", err, out)
	}
	took.hops = float64(r.PacketHops)
	return took, r
}

// measure runs a command to its end.
func measure(b *testing.B, c *exec.Cmd) ([]byte, cost) {
	b.Helper()
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		b.Fatalf("%v: %v\n%.2000s", c.Args, err, out.Bytes())
	}
	u, ok := c.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		b.Skip("no resource usage of processes here")
	}
	return out.Bytes(), cost{seconds: float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9, mb: float64(u.Maxrss) / 1024}
}

// BenchmarkReference is what two cases of the reference evaluation cost.
func BenchmarkReference(b *testing.B) {
	for _, w := range []workload{direct, halvingDoubling} {
		b.Run(w.String(), func(b *testing.B) {
			for b.Loop() {
				took, _ := job{Workload: w}.start(b)
				took.report(b)
			}
		})
	}
}

// BenchmarkCores is what regions save, and what a second core does: the time of a whole run, its fabric's tables
// included.
func BenchmarkCores(b *testing.B) {
	for _, w := range []workload{permutation, allToAll, direct, halvingDoubling} {
		hashes := map[string]bool{}
		for _, way := range []struct {
			name           string
			cores, regions int // 0 regions: as many as pay
		}{{"1-core-1-region", 1, 1}, {"1-core", 1, 0}, {"2-cores", 2, 0}} {
			b.Run(w.String()+"/"+way.name, func(b *testing.B) {
				for b.Loop() {
					took, r := job{Workload: w, Cores: way.cores, Regions: way.regions}.start(b, "GOMAXPROCS=2")
					hashes[r.EventsSHA256] = true
					took.report(b)
					b.ReportMetric(r.WallMS/1000, "run-s")
				}
			})
		}
		if len(hashes) > 1 {
			b.Errorf("%v: results differ: %v", w, hashes)
		}
	}
}
