//go:build unix

package bench

import (
	"bytes"
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

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// BenchmarkHtsim runs the same messages through uet-htsim (HTSIM names its htsim_uec) and through the virtual world:
// fat-trees of [FatTree], of 512 GPUs with 32 ToRs, 32 aggregation switches and 16 cores, 400 Gb/s, 4 KiB packets.
// Packet-hops are data packets and acknowledgements, one for every link crossed. With nscc both have Ultra Ethernet's
// rate control and trimming; htsim then acknowledges every 16 KiB, the virtual world every packet and, beside it, every
// fourth.
func BenchmarkHtsim(b *testing.B) {
	htsim := os.Getenv("HTSIM")
	if htsim == "" {
		b.Skip("HTSIM does not name an htsim_uec; see docs/results/performance.md")
	}
	nscc := []workload{
		{"permutation", 128, 2 << 20, 1, ""}, {"permutation", 1024, 2 << 20, 1, ""}, {"all-to-all", 128, 4 << 20, 1, ""},
		{"incast", 128, 2 << 20, 1, ""}, {"incast", 128, 2 << 20, 1, "reps"},
	}
	for _, w := range slices.Concat([]workload{permutation, halving512, allToAll}, nscc) {
		name := w.Kind
		if w.NSCC > 0 {
			name = strings.TrimSuffix(fmt.Sprintf("nscc-%s-%d-%s", w.Kind, w.GPUs, w.Scheme), "-")
		}
		b.Run(name+"/htsim", func(b *testing.B) {
			for b.Loop() {
				w.htsim(b, htsim).report(b)
			}
		})
		ours := func(b *testing.B) {
			for b.Loop() {
				took, _ := job{Workload: w}.start(b)
				took.report(b)
			}
		}
		b.Run(name+"/ethereal", ours)
		if w.NSCC > 0 {
			w.NSCC = 4
			b.Run(name+"/ethereal-ack_every-4", ours)
		}
	}
}

// htsim writes the fabric and the messages as htsim reads them. A 1.6 Tb/s link
// is a bundle of four.
func (w workload) htsim(t *testing.B, binary string) cost {
	t.Helper()
	dir := t.TempDir()
	topo, matrix := filepath.Join(dir, "fabric.topo"), filepath.Join(dir, "messages.cm")
	if err := os.WriteFile(topo, fmt.Appendf(nil, htsimFabric, w.GPUs, w.GPUs/64*4), 0o600); err != nil {
		t.Fatal(err)
	}
	text, links, packets := w.matrix(t)
	if err := os.WriteFile(matrix, text, 0o600); err != nil {
		t.Fatal(err)
	}
	options := []string{"-topo", topo, "-tm", matrix, "-linkspeed", "400000", "-mtu", "4096", "-end", "100000", "-o", filepath.Join(dir, "log")}
	if w.NSCC > 0 {
		options = append(options, "-sender_cc_only", "-sender_cc_algo", "nscc")
	}
	c := exec.Command(binary, options...)
	c.Dir = dir // it writes more files, wherever it is
	out, took := measure(t, c)
	m := regexp.MustCompile(`New: (\d+) Rtx: (\d+) .*ACKs: (\d+) NACKs: (\d+)`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("no packet counts in %.500s", out[max(0, len(out)-500):])
	}
	var counts [4]float64
	sent := 0.0
	for i, x := range m[1:] {
		counts[i], _ = strconv.ParseFloat(string(x), 64)
		sent += counts[i]
	}
	if counts[0] < packets {
		t.Fatalf("htsim sent %.0f packets of the %.0f that the messages have", counts[0], packets)
	}
	took.hops = sent * links / packets
	return took
}

// htsimFabric takes the number of GPUs, and of links of a core switch.
const htsimFabric = `Nodes %d
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
Radix_Down %d
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
// partners of halving-doubling are tied in pairs.
func (w workload) matrix(t *testing.B) (text []byte, links, packets float64) {
	t.Helper()
	run, err := w.run()
	if err != nil {
		t.Fatal(err)
	}
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
	head := fmt.Sprintf("Nodes %d\nConnections %d\n", w.GPUs, id)
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
