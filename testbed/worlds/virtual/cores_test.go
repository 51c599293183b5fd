package virtual

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// onCores returns a run's result with the given regions and cores, what it reported, and
// how it was shared out.
func onCores(t testing.TB, lab *Lab, run scenario.Run, regions, cores int) (
	*report.Result, []report.Event, sim.RegionShares,
) {
	t.Helper()
	var happened []report.Event
	w, err := newWorld(lab, run, scenario.Observer{
		Regions: regions, Cores: cores, Happened: func(h report.Event) { happened = append(happened, h) },
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.simulate(context.Background()); err != nil {
		t.Fatal(err)
	}
	r, err := w.measure()
	if err != nil {
		t.Fatal(err)
	}
	return r, happened, w.net.Shares()
}

// compareCores holds a run in several regions against one in one region. It returns the number of events, and of those
// that were not in windows.
func compareCores(t testing.TB, lab *Lab, run scenario.Run, regions, cores int) (events, inTurn int64) {
	t.Helper()
	want, wantHappened, _ := onCores(t, lab, run, 1, 1)
	got, happened, shares := onCores(t, lab, run, regions, cores)
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(report.Result{}, "WallMS")); d != "" {
		t.Errorf("%d regions, %d cores (-one, +several):\n%s", regions, cores, d)
	}
	if d := cmp.Diff(wantHappened, happened); d != "" {
		t.Errorf("%d regions, %d cores happened (-one, +several):\n%s", regions, cores, d)
	}
	return int64(got.SimEvents), shares.InTurn
}

// TestCoresAgree: in several regions, on one core or several, every scheme, with every
// notifier, whatever fails, gives the result of one, the hash of its events included.
func TestCoresAgree(t *testing.T) {
	lab := newLab(t)
	files := []string{"demo", "failures", "schemes", "ring-restore", "lossless", "workloads"}
	others := [][2]int{{8, 1}, {2, 2}, {8, 3}, {3, 2}} // regions, cores: of each run one, in turn
	most := fabric.Bytes(200e3)
	if testing.Short() { // with the race detector each takes ten times as long
		files, others, most = []string{"schemes", "ring-restore", "lossless"}, [][2]int{{8, 3}}, 160e3
	}
	for _, file := range files {
		s, err := scenario.Load("../../scenarios/" + file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		s.Seeds = []uint64{7}
		for i := range s.Collectives {
			s.Collectives[i].Bytes = min(s.Collectives[i].Bytes, most)
		}
		runs, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, run := range runs {
			if testing.Short() && seen[run.Scheme.String()] {
				continue
			}
			seen[run.Scheme.String()] = true
			t.Run(file+" "+run.String(), func(t *testing.T) {
				// As many runs are of one notifier and collective as there are schemes: their number
				// alone would give each scheme the same way each time.
				way := others[(run.Index+run.Index/len(others))%len(others)]
				events, inTurn := compareCores(t, lab, run, way[0], way[1])
				if events < 2*inTurn && run.Program == nil {
					t.Errorf("%d of %d events were not in windows", inTurn, events)
				}
			})
		}
	}
}

// TestCoresAgreeOnTrimming: packets cut to their headers count alike, whether the fast path through the P4 program or
// the interpreter processes them, which several regions do for different packets.
func TestCoresAgreeOnTrimming(t *testing.T) {
	s := scenario.Default()
	s.Name = "trim"
	s.Fabric = fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 3, HostsPerToR: 4}
	s.Switch.Trim, s.Host.Receiver = 16, scenario.GoBackN
	s.Collectives = []scenario.Collective{{Kind: "all-to-all", Bytes: 60e3}}
	s.Schemes = []scenario.Scheme{{Name: "ecmp"}}
	s.Failures = []scenario.Failure{{Name: "healthy"}}
	s.Deadline = 300 * fabric.Microsecond
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	lab := newLab(t)
	for _, way := range [][2]int{{3, 1}, {3, 2}, {6, 2}} {
		compareCores(t, lab, runs[0], way[0], way[1])
	}
}

// TestCoresSoonReports: agents' reports that come sooner than a window is long keep
// a run on one core, though the hosts' links are shorter still.
func TestCoresSoonReports(t *testing.T) {
	s := scenario.Default()
	s.Name = "soon"
	s.Fabric = fabric.Spec{
		Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 2, HostsPerToR: 2,
		HostLink:  fabric.LinkSpec{Rate: 400 * fabric.Gbps, Delay: 100 * fabric.Nanosecond},
		ToRUplink: fabric.LinkSpec{Rate: 400 * fabric.Gbps, Delay: 500 * fabric.Nanosecond},
	}
	s.Control.PushDelay = 200 * fabric.Nanosecond
	s.Schemes = []scenario.Scheme{{Name: "ethereal", Params: map[string]string{"suspicion": "on"}}}
	s.Collectives = []scenario.Collective{{Kind: "all-to-all", Bytes: 400e3}}
	s.Failures = []scenario.Failure{{
		Name: "black hole", Notifiers: []scenario.Notifier{scenario.NotifyTimeout},
		Events: []scenario.Event{{At: fabric.Microsecond, Link: "tor0-spine0", Action: scenario.Cut}},
	}}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	compareCores(t, newLab(t), runs[0], 2, 2)
}

// TestCoresAgreeOnWorkloads: random training iterations, on servers of several GPUs or of one, whose ranks begin and
// end operations at any time, give one result in several regions too.
func TestCoresAgreeOnWorkloads(t *testing.T) {
	lab := newLab(t)
	rng := rand.New(rand.NewPCG(52, 1))
	count, windows := 40, 0
	if testing.Short() {
		count = 6
	}
	for i := range count {
		pick := func(of ...string) string { return of[rng.IntN(len(of))] }
		hosts := 2 << rng.IntN(2) // below each of 4 ToRs
		gpus := min(hosts, 1<<rng.IntN(3))
		pipeline := 1 + rng.IntN(5)/4
		work := fmt.Sprintf("gpt: {layers: 4, hidden: 512, tensor: %d, data: %d, pipeline: %d, "+
			"algorithm: %s, in_order: %s, scale: %d, teraflops: %d}", gpus, 4*hosts/gpus/pipeline, pipeline,
			pick("ring", "direct"), pick("true", "false"), 1<<(2+rng.IntN(5)), 30+rng.IntN(3000))
		servers := ""
		if gpus > 1 {
			servers = fmt.Sprintf("servers: {gpus: %d}", gpus)
		}
		text := fmt.Sprintf(`
name: random
fabric: {kind: leaf-spine, tors: 4, spines: 3, hosts_per_tor: %d}
%s
fast_forward: %s
host: {payload: %s, congestion_control: %s}
collectives: [{kind: workload, file: w.yaml}]
schemes: [%s]
failures:
  - {name: f, notifiers: [%s], events: [{at: %dus, action: %s, link: uplink of tor0}]}
seeds: %d
deadline: 1s
`, hosts, servers, pick(`""`, "repeats"), pick("1024B", "4096B", "9000B"), pick("dctcp", "swift", "dcqcn"),
			pick("ethereal", "ethereal", "ecmp", "spray"), pick("quench", "gnmi", "timeout"), 1+rng.IntN(200),
			pick("cut, detection: 5us", "degrade, rate: 100Gb/s"), i+1)
		dir := t.TempDir()
		for name, content := range map[string]string{"random.yaml": text, "w.yaml": work} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := scenario.Load(filepath.Join(dir, "random.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		runs, err := s.Expand()
		if err != nil {
			t.Fatal(err)
		}
		events, inTurn := compareCores(t, lab, runs[0], 2+rng.IntN(3), 1+rng.IntN(3))
		if events > 2*inTurn {
			windows++
		}
		t.Logf("%d: %d of %d events in turn%s%s", i, inTurn, events, text, work)
	}
	if windows == 0 {
		t.Error("no run had most of its events in windows")
	}
}
