package importer_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/importer"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// read reads files with these contents, made by us in the formats of other programs.
func read(t *testing.T, kind string, o importer.Options, texts ...string) (*importer.Imported, error) {
	t.Helper()
	dir := t.TempDir()
	var paths []string
	for i, text := range texts {
		path := filepath.Join(dir, "file"+string(rune('a'+i)))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return importer.Read(kind, paths, o)
}

// load writes what was read, and returns the scenario's only healthy run.
func load(t *testing.T, im *importer.Imported) scenario.Run {
	t.Helper()
	dir := t.TempDir()
	text, _, err := im.Scenario("test")
	if err != nil {
		t.Fatal(err)
	}
	var workload strings.Builder
	if err := im.Workload(&workload); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{importer.ScenarioFile: string(text), importer.WorkloadFile: workload.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := scenario.Load(filepath.Join(dir, importer.ScenarioFile))
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, text, workload.String())
	}
	runs, err := s.Expand()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return runs[0]
}

// traffic returns the number of messages of a run's workload, and their bytes.
func traffic(t *testing.T, r scenario.Run) (messages int, bytes int64) {
	t.Helper()
	all, err := r.Program.Traffic()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		bytes += m.Bytes
	}
	return len(all), bytes
}

func hasNote(im *importer.Imported, text string) bool {
	return strings.Contains(strings.Join(im.Notes, "\n"), text)
}

const htsimTopology = `# our own
Nodes 32
Tiers 3
Podsize 8

Tier 0
Oversubscribed 2
Downlink_speed_Gbps 100
Radix_Down 4
Radix_Up 2
Downlink_Latency_ns 1000
Switch_Latency_ns 200
Queue_Up 100

Tier 1
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 4
Downlink_Latency_ns 1000
Switch_Latency_ns 400

Tier 2
Downlink_speed_Gbps 50
Radix_Down 8
Downlink_Latency_ns 1000
Switch_Latency_ns 600
Bundle 2
`

func TestHtsimTopology(t *testing.T) {
	im, err := read(t, "htsim", importer.Options{}, htsimTopology)
	if err != nil {
		t.Fatal(err)
	}
	want := fabric.Spec{
		Kind: fabric.KindFatTree, Pods: 4, ToRsPerPod: 2, AggsPerPod: 2, Cores: 4, HostsPerToR: 4,
		HostLink:  fabric.LinkSpec{Rate: 100 * fabric.Gbps, Delay: 1100 * fabric.Nanosecond},
		ToRUplink: fabric.LinkSpec{Rate: 200 * fabric.Gbps, Delay: 1300 * fabric.Nanosecond},
		AggUplink: fabric.LinkSpec{Rate: 100 * fabric.Gbps, Delay: 1500 * fabric.Nanosecond},
	}
	if diff := cmp.Diff(want, *im.Fabric); diff != "" {
		t.Error(diff)
	}
	if !hasNote(im, "bundles of parallel links") || !hasNote(im, "sizes of queues are left out; a switch's ports share switch.buffer here: 1, ") {
		t.Errorf("notes: %q", im.Notes)
	}
	load(t, im)
}

// TestHtsimMatrix: triggers become events; a oneshot begins at the first activation, a barrier at its count, and the
// flows of a multishot one at each.
func TestHtsimMatrix(t *testing.T) {
	im, err := read(t, "htsim", importer.Options{Starts: "ps"}, `Nodes 32
Connections 8
Triggers 3
Failures 1
0->1 id 1 start 0 size 1000 send_done_trigger 1 recv_done_trigger 3
2->3 id 2 start 1500000 size 2000 send_done_trigger 1 recv_done_trigger 3
1->4 id 3 trigger 1 size 3000
1->5 id 4 trigger 2 size 4000 prio 7
4->6 id 5 trigger 3 size 5000 recv_done_trigger 2
4->7 id 6 trigger 3 size 6000
8->8 id 7 start 0 size 10
9->8 id 8 start 0 size 10
trigger id 1 barrier count 2
trigger id 2 oneshot
trigger id 3 multishot
failure switch_type AGG switch_id 3 link_id 1
`, htsimTopology)
	if err != nil {
		t.Fatal(err)
	}
	r := load(t, im)
	if messages, bytes := traffic(t, r); messages != 7 || bytes != 21_010 {
		t.Errorf("%d messages, %d bytes", messages, bytes)
	}
	if diff := cmp.Diff([]string{"agg3-core3"}, im.Cuts); diff != "" {
		t.Error(diff)
	}
	for i, want := range []struct {
		after string
		count int
		at    fabric.Time
	}{{"", 0, 0}, {"", 0, 1500 * fabric.Nanosecond}, {"t1", 2, 0}, {"t2", 0, 0}, {"t3", 0, 0}, {"t3", 2, 0}} {
		if f := im.Flows[i]; f.After != want.after || f.Count != want.count || f.At != want.at {
			t.Errorf("flow %d: %+v, want %+v", i, f, want)
		}
	}
	for _, note := range []string{"priorities of flows are left out: 1", "flows from a node to itself are left out: 1"} {
		if !hasNote(im, note) {
			t.Errorf("no note %q in %q", note, im.Notes)
		}
	}
}

// hpccTopology has two pods of two ToRs with two hosts, whose numbers are not those of ToRs: host i is below ToR i mod
// 4.
const hpccTopology = `18 10 20
8 9 10 11 12 13 14 15 16 17
0 8 25Gbps 1000ns 0
1 9 25Gbps 1000ns 0
2 10 25Gbps 1000ns 0.01
3 11 25Gbps 1000ns 0
4 8 25Gbps 1000ns 0
5 9 25Gbps 1000ns 0
6 10 25Gbps 1000ns 0
7 11 25Gbps 1000ns 0
8 12 100Gbps 0.002ms 0
8 13 100Gbps 2us 0
9 12 100Gbps 2us 0
9 13 100Gbps 2us 0
10 14 100Gbps 2us 0
10 15 100Gbps 2us 0
11 14 100Gbps 2us 0
11 15 100Gbps 2us 0
12 16 100Gbps 2us 0
13 17 100Gbps 2us 0
14 16 100Gbps 2us 0
15 17 100Gbps 2us 0
`

func TestHPCC(t *testing.T) {
	im, err := read(t, "hpcc", importer.Options{}, "3\n0 4 3 100 1000 2.0\n1 7 3 100 2000 2.000001\n2 2 3 100 9 2.5\n3 3 3 100 5 9\n", hpccTopology)
	if err != nil {
		t.Fatal(err)
	}
	want := fabric.Spec{
		Kind: fabric.KindFatTree, Pods: 2, ToRsPerPod: 2, AggsPerPod: 2, Cores: 2, HostsPerToR: 2,
		HostLink:  fabric.LinkSpec{Rate: 25 * fabric.Gbps, Delay: fabric.Microsecond},
		ToRUplink: fabric.LinkSpec{Rate: 100 * fabric.Gbps, Delay: 2 * fabric.Microsecond},
		AggUplink: fabric.LinkSpec{Rate: 100 * fabric.Gbps, Delay: 2 * fabric.Microsecond},
	}
	if diff := cmp.Diff(want, *im.Fabric); diff != "" {
		t.Error(diff)
	}
	// Host 0 and 4 are below one ToR: ranks 0 and 1. Host 1 is rank 2, host 7 rank 7.
	got := [][2]int{{im.Flows[0].From, im.Flows[0].To}, {im.Flows[1].From, im.Flows[1].To}}
	if diff := cmp.Diff([][2]int{{0, 1}, {2, 7}}, got); diff != "" {
		t.Error(diff)
	}
	if len(im.Flows) != 2 || im.Flows[1].At != fabric.Microsecond {
		t.Errorf("flows %+v", im.Flows)
	}
	for _, note := range []string{
		"error rates of links are left out; write a failure with action: gray: 1, the first", "flows from a host to itself are left out: 1",
		"times count from the first flow's start, 2 s", "lines behind the first 3 flows are left out", "hosts have other numbers here",
	} {
		if !hasNote(im, note) {
			t.Errorf("no note %q in %q", note, im.Notes)
		}
	}
	if messages, bytes := traffic(t, load(t, im)); messages != 2 || bytes != 3000 {
		t.Errorf("%d messages, %d bytes", messages, bytes)
	}
}

func TestHPCCPlanes(t *testing.T) {
	im, err := read(t, "hpcc", importer.Options{}, `8 4 8
4 5 6 7
0 4 100Gbps 1us 0
1 4 100Gbps 1us 0
2 4 100Gbps 1us 0
3 4 100Gbps 1us 0
0 5 100Gbps 1us 0
1 5 100Gbps 1us 0
2 5 100Gbps 1us 0
3 5 100Gbps 1us 0
`)
	if err != nil {
		t.Fatal(err)
	}
	if im.Fabric.Planes != 2 || im.Fabric.HostsPerToR != 4 {
		t.Errorf("%+v", im.Fabric)
	}
}

func TestHPCCNoClos(t *testing.T) {
	for what, edit := range map[string][2]string{
		"switch 9 has 3 hosts and switch 10 2":                      {"0 8 25Gbps", "0 9 25Gbps"},
		"the link has 40Gb/s and 1us, and that of line 3 25Gb/s":    {"7 11 25Gbps", "7 11 40Gbps"},
		"host 0 has 1 links and host 1 2":                           {"18 10 20", "18 10 21"},
		"switches 8 and 9 have hosts and are linked":                {"8 13 100Gbps", "8 9 100Gbps"},
		"are of one tier and linked":                                {"11 15 100Gbps", "11 16 100Gbps"},
		`:3: a node is "99"; write 0 to 17`:                         {"0 8 25Gbps", "99 8 25Gbps"},
		`:4: the rate is "25Gbs"; write a number and one of Gbps`:   {"1 9 25Gbps", "1 9 25Gbs"},
		"aggregation switch 14 has 2 links upwards, and another 1":  {"14 16 100Gbps", "14 16 100Gbps 2us 0 14 17 100Gbps"},
		"aggregation switches have 1 sets of core switches; 2, one": {"13 17 100Gbps 2us 0\n14 16 100Gbps 2us 0\n15 17", "13 16 100Gbps 2us 0\n14 16 100Gbps 2us 0\n15 16"},
	} {
		text := strings.Replace(hpccTopology, edit[0], edit[1], 1)
		if strings.HasPrefix(what, "host 0") {
			text += "1 9 25Gbps 1us 0\n1 12 25Gbps 1us 0\n"
			text = strings.Replace(text, "18 10 21", "18 10 22", 1)
		}
		if strings.HasPrefix(what, "aggregation switch 14") {
			text = strings.Replace(text, "18 10 20", "18 10 21", 1)
		}
		_, err := read(t, "hpcc", importer.Options{}, text)
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
}

const ncclTopology = `<system version="1">
 <cpu numaid="0" arch="x86_64">
  <pci busid="0000:10:00.0" class="0x060400" link_speed="32 GT/s" link_width="16">
   <pci busid="0000:11:00.0" class="0x030200"><gpu dev="0" sm="90" rank="0"><nvlink target="0000:1f:00.0" count="18" tclass="0x068000"/></gpu></pci>
   <pci busid="0000:12:00.0" class="0x020700"><nic><net name="mlx5_0" dev="0" speed="400000" port="1"/></nic></pci>
  </pci>
 </cpu>
 <cpu numaid="1" arch="x86_64">
  <pci busid="0000:20:00.0" class="0x060400" link_speed="32 GT/s" link_width="16">
   <pci busid="0000:21:00.0" class="0x030200"><gpu dev="1" sm="90" rank="1"><nvlink target="0000:1f:00.0" count="18" tclass="0x068000"/></gpu></pci>
   <pci busid="0000:22:00.0" class="0x020700"><nic><net name="mlx5_1" dev="1" speed="400000" port="1"/></nic></pci>
  </pci>
 </cpu>
</system>
`

const ncclGraphs = `<graphs version="1">
 <graph id="0" pattern="4" crossnic="0" nchannels="2" speedintra="20" speedinter="20" typeintra="NVL" typeinter="PIX" samechannels="0">
  <channel><net dev="0"/><gpu dev="0"/><gpu dev="1"/><net dev="0"/></channel>
  <channel><net dev="1"/><gpu dev="1"/><gpu dev="0"/><net dev="1"/></channel>
 </graph>
 <graph id="1" pattern="1" crossnic="0" nchannels="0" speedintra="20" speedinter="20"/>
</graphs>
`

func TestNCCL(t *testing.T) {
	im, err := read(t, "nccl", importer.Options{Servers: 3}, ncclGraphs, ncclTopology)
	if err != nil {
		t.Fatal(err)
	}
	want := importer.Servers{GPUs: 2, Wiring: "rail", CrossRail: "internal",
		Internal: fabric.LinkSpec{Rate: 2966 * fabric.Gbps, Delay: 300 * fabric.Nanosecond}}
	if diff := cmp.Diff(want, *im.Servers); diff != "" {
		t.Error(diff)
	}
	if s := im.Fabric; s.ToRs != 2 || s.HostsPerToR != 3 || s.HostLink.Rate != 400*fabric.Gbps {
		t.Errorf("%+v", s)
	}
	if len(im.Jobs) != 2 || im.Jobs[0].Ranks != "0,1,2,3,4,5" || im.Jobs[1].Ranks != "1,0,3,2,5,4" {
		t.Errorf("%+v", im.Jobs)
	}
	// A ring all-reduce of S bytes sends 2(n-1)S in all.
	if _, bytes := traffic(t, load(t, im)); bytes < 2*5*256_000_000-100 || bytes > 2*5*256_000_000 {
		t.Errorf("%d bytes", bytes)
	}
	if !hasNote(im, "graphs other than rings are left out: 1") {
		t.Errorf("%q", im.Notes)
	}
}

func TestNCCLChannels(t *testing.T) {
	text := `<graphs version="1"><graph pattern="4" speedinter="1">` + strings.Repeat(`<channel><gpu dev="0"/></channel>`, 65) + "</graph></graphs>"
	_, err := read(t, "nccl", importer.Options{Servers: 2}, text)
	if err == nil || !strings.Contains(err.Error(), "65 channels of rings; name a file of graphs with pattern 4 and at most 64") {
		t.Errorf("%v", err)
	}
}

// TestFileName: the name of a file is in what is written, as a comment of one line.
func TestFileName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a\nname: b")
	if err := os.WriteFile(path, []byte("Nodes 4\nConnections 1\n0->1 start 0 size 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	im, err := importer.Read("htsim", []string{path}, importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	load(t, im)
}

func TestNCCLGraphAlone(t *testing.T) {
	im, err := read(t, "nccl", importer.Options{Servers: 2}, ncclGraphs)
	if err != nil {
		t.Fatal(err)
	}
	if im.Fabric.HostLink.Rate != 160*fabric.Gbps { // two channels of 20 GB/s by two GPUs
		t.Errorf("%v", im.Fabric.HostLink.Rate)
	}
	load(t, im)
}

// TestHtsimStarts: htsim_uec takes start times for microseconds, others for picoseconds.
func TestHtsimStarts(t *testing.T) {
	for _, c := range []struct {
		start, unit string
		want        fabric.Time
	}{{"15", "", 15 * fabric.Microsecond}, {"2000000", "", 2 * fabric.Microsecond}, {"15", "ps", 15}, {"2000000", "us", 2 * fabric.Second}} {
		im, err := read(t, "htsim", importer.Options{Starts: c.unit}, "Nodes 4\nConnections 1\n0->1 start "+c.start+" size 9\n")
		if err != nil {
			t.Fatal(err)
		}
		if im.Flows[0].At != c.want || hasNote(im, "start times are taken for ") != (c.unit == "") {
			t.Errorf("%+v: %v %q", c, im.Flows[0].At, im.Notes)
		}
	}
}

// TestNCCLTopologyToFill: files for NCCL_TOPO_FILE have PCI devices alone, whose classes say what they are.
func TestNCCLTopologyToFill(t *testing.T) {
	pci := `<pci busid="1" class="0x060400"><pci busid="2" class="0x030200"/><pci busid="3" class="0x020700"/></pci>`
	im, err := read(t, "nccl", importer.Options{Servers: 2, Rate: 200 * fabric.Gbps}, `<system version="1"><cpu numaid="0">`+pci+pci+`</cpu></system>`)
	if err != nil {
		t.Fatal(err)
	}
	if im.Servers.GPUs != 2 || im.Fabric.HostLink.Rate != 200*fabric.Gbps || !hasNote(im, "network interfaces without a speed have 200Gb/s; see --nic-rate: 2") {
		t.Errorf("%+v %q", im.Fabric, im.Notes)
	}
}

func TestRecognise(t *testing.T) {
	for want, text := range map[string]string{
		"a topology of htsim": htsimTopology, "a topology of HPCC's ns-3": hpccTopology,
		"a topology of NCCL (NCCL_TOPO_DUMP_FILE)": ncclTopology, "graphs of NCCL (NCCL_GRAPH_DUMP_FILE)": ncclGraphs,
		"a workload of SimAI": simaiWorkload, "a topology of SimAI": simaiTopology, "a workload of AICB": aicbWorkload,
		"a connection matrix of htsim": "Nodes 4\nConnections 1\n0->1 start 0 size 1\n", "flows of HPCC's ns-3": "1\n0 1 3 100 10 2\n",
		"": "name: x\nfabric: {kind: fat-tree, k: 4}\n",
	} {
		if _, what, _ := importer.Recognise([]byte(text)); what != want {
			t.Errorf("%q is taken for %q, want %q", text[:20], what, want)
		}
	}
	_, err := read(t, "hpcc", importer.Options{}, htsimTopology)
	if err == nil || !strings.Contains(err.Error(), "is a topology of htsim; write ethereal import htsim ") {
		t.Errorf("%v", err)
	}
	_, err = read(t, "hpcc", importer.Options{}, hpccTopology, hpccTopology)
	if err == nil || !strings.Contains(err.Error(), "are both a topology of HPCC's ns-3; name one") {
		t.Errorf("%v", err)
	}
	_, err = read(t, "aicb", importer.Options{Ranks: 4},
		"comm_type,comm_group,msg_size,_elapsed_time\nCommType.computation,None,None,5\n")
	if err == nil || !strings.Contains(err.Error(), "no collective of at least two ranks; name a workload with some") {
		t.Errorf("%v", err)
	}
	_, err = read(t, "htsim", importer.Options{}, htsimTopology, "Nodes 64\nConnections 1\n0->63 start 0 size 1\n")
	if err == nil || !strings.Contains(err.Error(), "has 64 ranks, and the topology 32 hosts") {
		t.Errorf("%v", err)
	}
}

func TestHtsimErrors(t *testing.T) {
	head := "Nodes 4\nConnections 1\n"
	for want, text := range map[string]string{
		"Connections 1, and the file has 2; write that number":            head + "0->1 start 0 size 1\n0->2 start 0 size 1\n",
		":3: a flow needs start or trigger, and not both":                 head + "0->1 id 1 start 0 trigger 1 size 1\n",
		":3: a node is \"4\"; write 0 to 3":                               head + "0->4 start 0 size 1\n",
		":3: the flow has no size":                                        head + "0->1 start 0\n",
		":3: \"weight\" is unknown; write id, start":                      head + "0->1 start 0 size 1 weight 3\n",
		":3: size has no value":                                           head + "0->1 start 0 size\n",
		"trigger 5 is waited for and not given":                           head + "0->1 id 1 trigger 5 size 1\n",
		"trigger 1 is activated 0 times, and flow 0->1 needs 1":           head + "Triggers 1\n0->1 id 1 trigger 1 size 1\ntrigger id 1 oneshot\n",
		"trigger 9 is activated and not given; write a line trigger id 9": head + "0->1 id 1 start 0 size 1 send_done_trigger 9\n",
	} {
		_, err := read(t, "htsim", importer.Options{}, text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// FuzzRead reads what is no file of these kinds: it ends, and what it takes is a scenario, or is refused with a reason.
func FuzzRead(f *testing.F) {
	for _, text := range []string{htsimTopology, hpccTopology, ncclTopology, ncclGraphs, simaiWorkload, simaiTopology, aicbWorkload, "Nodes 4\nConnections 1\nTriggers 1\n0->1 id 1 start 0 size 9 send_done_trigger 1\ntrigger id 1 oneshot\n",
		"1\n0 1 3 100 10 2\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		kind, _, ok := importer.Recognise(data)
		if !ok {
			return
		}
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		im, err := importer.Read(kind, []string{path}, importer.Options{Servers: 2, Ranks: 16})
		if err != nil {
			return
		}
		if im.Ranks > 4096 || len(im.Flows) > 4096 || im.Fabric != nil && im.Fabric.Pods*im.Fabric.ToRs > 1<<12 {
			return // slow, and nothing new
		}
		text, _, err := im.Scenario("fuzz")
		if err != nil {
			return
		}
		main := filepath.Join(filepath.Dir(path), importer.ScenarioFile)
		var workload strings.Builder
		if err := im.Workload(&workload); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{main: string(text), filepath.Join(filepath.Dir(path), importer.WorkloadFile): workload.String()} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := scenario.Load(main); err != nil && strings.Contains(err.Error(), "scenario.yaml:") {
			t.Fatalf("%v\n%s", err, text)
		}
	})
}
