package virtual

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

var oneLab = sync.OnceValues(NewLab)

func newLab(t testing.TB) *Lab {
	t.Helper()
	lab, err := oneLab()
	if err != nil {
		t.Fatal(err)
	}
	return lab
}

// demo returns the runs of the demo scenario that keep holds for, after edit.
func demo(t testing.TB, edit func(*scenario.Scenario), keep func(scenario.Run) bool) []scenario.Run {
	t.Helper()
	s, err := scenario.Load("../../scenarios/demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(s)
	}
	all, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	var runs []scenario.Run
	for _, r := range all {
		if keep(r) {
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		t.Fatal("no run of the demo is left")
	}
	return runs
}

func ethereal(r scenario.Run) bool { return r.Scheme.Name == scenario.Ethereal }
func healthy(r scenario.Run) bool  { return ethereal(r) && r.Notifier == scenario.NotifyNone }

func mustRun(t testing.TB, lab *Lab, r scenario.Run) *report.Result {
	t.Helper()
	result, err := lab.Run(context.Background(), r, scenario.Observer{})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// oneGoroutine leaves a test out with -short, by which the race detector's run is
// shorter: one that simulates in one goroutine has nothing for it to see.
func oneGoroutine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("one goroutine, many packets")
	}
}

// TestHealthyNearBound: without a failure Ethereal is within 5 % of what is
// possible, and the ToRs' uplinks carry the same bytes, by their P4 counters.
func TestHealthyNearBound(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	for _, run := range demo(t, nil, healthy) {
		r := mustRun(t, lab, run)
		ratio, ok := r.Slowdown()
		if !ok || ratio < 1 || ratio > 1.05 {
			t.Errorf("%v: CCT is %.3f of the lower bound, want 1 to 1.05", run, ratio)
		}
		if float64(r.UplinkBytesMax) > r.UplinkBytesMean*1.0001 {
			t.Errorf("%v: the most loaded uplink carried %d bytes, the mean is %.0f", run, r.UplinkBytesMax, r.UplinkBytesMean)
		}
		if r.Drops != 0 || r.Retransmissions != 0 {
			t.Errorf("%v: %d drops, %d retransmissions on a healthy fabric", run, r.Drops, r.Retransmissions)
		}
	}
}

// TestTheoremOne reads the ToRs' uplink counters over P4Runtime after an
// all-to-all on random fabrics: every uplink of a ToR carries n*f/s bytes, to
// within the rounding of pieces and the headers that pieces add.
func TestTheoremOne(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	rapid.Check(t, func(rt *rapid.T) {
		spec := rapid.SampledFrom([]fabric.Spec{
			{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 4, HostsPerToR: 3},
			{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 6, HostsPerToR: 4},
			{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 3, HostsPerToR: 5},
			{Kind: fabric.KindFatTree, Pods: 2, ToRsPerPod: 2, AggsPerPod: 2, Cores: 6, HostsPerToR: 2},
			{Kind: fabric.KindFatTree, Pods: 3, ToRsPerPod: 1, AggsPerPod: 3, Cores: 3, HostsPerToR: 2},
		}).Draw(rt, "fabric")
		perPair := rapid.Int64Range(1, 300_000).Draw(rt, "bytes per pair")
		seed := rapid.Uint64Range(1, 1000).Draw(rt, "seed")
		f, err := fabric.New(spec)
		if err != nil {
			rt.Fatal(err)
		}
		run := demo(t, func(s *scenario.Scenario) {
			s.Fabric = spec
			s.Failures = s.Failures[:1]
			s.Collectives = s.Collectives[:1]
			s.Collectives[0].Bytes = fabric.Bytes(perPair * int64(f.Hosts()))
			s.Seeds = scenario.Seeds{seed}
		}, healthy)[0]
		r, err := lab.Run(context.Background(), run, scenario.Observer{})
		if err != nil {
			rt.Fatal(err)
		}
		if !r.Finished {
			rt.Fatal("the all-to-all did not finish")
		}
		// What each ToR sends up, and how much that may be off: each piece of
		// each of its flows is rounded by less than its flow's number of pieces,
		// and brings at most one packet's headers more than its share.
		const headers = 14 + 20 + 8 + 12 + 16 + 4
		hosts := spec.HostsPerToR
		uplinks := f.Node(f.ToRID(0)).Uplinks()
		paths := len(f.PathLabels(f.ToRID(0), f.ToRID(f.ToRs()-1)))
		flows := hosts * (f.Hosts() - hosts)
		packets := flows * int(math.Ceil(float64(perPair)/9000))
		want := float64(flows)*float64(perPair)/float64(uplinks) + float64(packets)*(headers-16)/float64(uplinks)
		slack := float64(flows * (paths + 1) * (headers + paths))
		for _, l := range r.Links {
			if strings.HasPrefix(l.From, "tor") && !strings.HasPrefix(l.To, "h") &&
				math.Abs(float64(l.DataBytes)-want) > slack {
				rt.Fatalf("%s>%s carried %d bytes, want %.0f within %.0f", l.From, l.To, l.DataBytes, want, slack)
			}
		}
	})
}

// TestSameSeedSameRun: the hash covers every packet's departure, header and
// time. Another seed gives another run.
func TestSameSeedSameRun(t *testing.T) {
	lab, other := newLab(t), newLab(t)
	runs := demo(t, func(s *scenario.Scenario) { s.Seeds = scenario.Seeds{1, 2} }, func(r scenario.Run) bool {
		return ethereal(r) && r.Notifier == scenario.NotifyQuench && r.Collective.Kind == "all-to-all"
	})
	first, again, different := mustRun(t, lab, runs[0]), mustRun(t, other, runs[0]), mustRun(t, lab, runs[1])
	if first.EventsSHA256 != again.EventsSHA256 {
		t.Errorf("seed %d: hashes %s and %s", runs[0].Seed, first.EventsSHA256, again.EventsSHA256)
	}
	if first.EventsSHA256 == different.EventsSHA256 {
		t.Errorf("seeds %d and %d gave the same run", runs[0].Seed, runs[1].Seed)
	}
}

// witness notes, for each host, when its packets met the dead link: when they
// were lost to it, and when a switch first sent a quench about one.
type witness struct {
	f        *fabric.Fabric
	firstHit map[fabric.NodeID]fabric.Time // lost or quenched
	quenched map[fabric.NodeID]fabric.Time
	lost     map[fabric.NodeID][]fabric.Time
}

func newWitness(f *fabric.Fabric) *witness {
	return &witness{f, map[fabric.NodeID]fabric.Time{}, map[fabric.NodeID]fabric.Time{}, map[fabric.NodeID][]fabric.Time{}}
}

func (w *witness) Trace(r sim.Record) {
	var host fabric.NodeID
	switch {
	case len(r.Header) < 42:
		return
	case r.Kind == sim.RecordSend && int(r.Header[36])<<8|int(r.Header[37]) == p4src.QuenchUDPPort:
		host, _ = w.f.HostByAddr(netip.AddrFrom4([4]byte(r.Header[30:34])))
		if _, known := w.quenched[host]; !known {
			w.quenched[host] = r.At
		}
	case r.Kind == sim.RecordLost:
		host, _ = w.f.HostByAddr(netip.AddrFrom4([4]byte(r.Header[26:30])))
		w.lost[host] = append(w.lost[host], r.At)
	default:
		return
	}
	if _, known := w.firstHit[host]; !known {
		w.firstHit[host] = r.At
	}
}

// fullPacket is the bytes on the wire of the largest packet.
const fullPacket = 9000 + headerBytes + ipv4Bytes + 16 + fabric.FrameOverhead

// baseRTT is the round trip of a full packet and its acknowledgement over the
// fabric's longest path, when nothing else is on it.
func baseRTT(f *fabric.Fabric) fabric.Time {
	l := f.Link(0)
	return 6 * (2*l.Delay + l.Rate.TimeFor(fullPacket) +
		l.Rate.TimeFor(headerBytes+ipv4Bytes+aethBytes+fabric.FrameOverhead))
}

// TestIPv6FlowLabel carries the label in the IPv6 flow label, healthy and with
// a failure: the load is as even and the quench arrives as it does by IPv4.
func TestIPv6FlowLabel(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	runs := demo(t, func(s *scenario.Scenario) {
		s.Host.IPv6 = true
		s.Host.Carrier = scenario.IPv6FlowLabel
		s.Collectives = s.Collectives[:1]
	}, func(r scenario.Run) bool {
		return healthy(r) || ethereal(r) && r.Notifier == scenario.NotifyQuench
	})
	for _, run := range runs {
		r := mustRun(t, lab, run)
		if !r.Finished {
			t.Errorf("%v: not finished", run)
		}
		if run.Notifier == scenario.NotifyNone && float64(r.UplinkBytesMax) > r.UplinkBytesMean*1.0001 {
			t.Errorf("%v: the most loaded uplink carried %d bytes, the mean is %.0f", run, r.UplinkBytesMax, r.UplinkBytesMean)
		}
		if run.Notifier == scenario.NotifyQuench && (r.Quenches == 0 || r.Flips == 0 || r.Timeouts != 0) {
			t.Errorf("%v: %d quenches, %d flips, %d time-outs", run, r.Quenches, r.Flips, r.Timeouts)
		}
	}
}

// TestRecovery: when the link comes back, what was flipped away returns.
func TestRecovery(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	runs := demo(t, func(s *scenario.Scenario) {
		s.Collectives = s.Collectives[:1]
		s.Collectives[0].Bytes *= 2 // what was flipped is still under way
		back := s.Failures[1].Events[0]
		back.At, back.Action = 150*fabric.Microsecond, scenario.Restore
		s.Failures[1].Events = append(s.Failures[1].Events, back)
	}, func(r scenario.Run) bool { return ethereal(r) && r.Notifier == scenario.NotifyGNMI })
	r := mustRun(t, lab, runs[0])
	returns := 0
	for _, f := range r.FlipRecords {
		if f.Reason == "return" {
			returns++
		}
	}
	if !r.Finished || returns == 0 {
		t.Errorf("finished: %v, %d of %d flips are returns", r.Finished, returns, r.Flips)
	}
}

// TestChangesOverlap: links change while the controller still writes what an
// earlier change asked for.
func TestChangesOverlap(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	for _, gap := range []fabric.Time{fabric.Microsecond, 40 * fabric.Microsecond, 150 * fabric.Microsecond} {
		runs := demo(t, func(s *scenario.Scenario) {
			s.Collectives = s.Collectives[:1]
			first := s.Failures[1].Events[0]
			second, back := first, first
			second.Link, second.At = "agg3-core2", first.At+gap
			back.Action, back.At = scenario.Restore, first.At+2*gap+first.Detection
			s.Failures[1].Events = []scenario.Event{first, second, back}
		}, func(r scenario.Run) bool { return ethereal(r) && r.Notifier == scenario.NotifyGNMI })
		if r := mustRun(t, lab, runs[0]); !r.Finished {
			t.Errorf("changes %v apart: not finished", gap)
		}
	}
}

// TestInterrupt: a cancelled run says what it knows.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	obs := scenario.Observer{Progress: func(scenario.Progress) {
		if calls++; calls == 3 {
			cancel()
		}
	}}
	r, err := newLab(t).Run(ctx, demo(t, nil, healthy)[0], obs)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want that of the context", err)
	}
	if r == nil || r.Finished || r.CCT != nil || r.End != report.Interrupted || r.UplinkBytesMax == 0 {
		t.Errorf("a cancelled run: finished %v, CCT %v, end %q, largest uplink load %d", r.Finished, r.CCT, r.End, r.UplinkBytesMax)
	}
}

// TestCapture: tshark takes a capture of the link that fails for RoCEv2 and
// finds nothing malformed.
func TestCapture(t *testing.T) {
	tshark := systemtest.Program(t, "tshark", "", "apt-get install tshark")
	lab := newLab(t)
	run := demo(t, func(s *scenario.Scenario) { s.Collectives = s.Collectives[:1]; s.Collectives[0].Bytes = 1_600_000 },
		func(r scenario.Run) bool { return ethereal(r) && r.Notifier == scenario.NotifyQuench })[0]
	for _, name := range []string{"h0-tor0", "tor0-agg1"} {
		link, err := run.Fabric.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name+".pcap")
		out, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lab.Run(context.Background(), run, scenario.Observer{Captures: []scenario.Capture{{Link: link, W: out}}}); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		// One row of a table, with the frames and bytes that each filter lets through.
		stat := `io,stat,0,frame,infiniband.bth,udp.port == 47910,!infiniband.bth && !(udp.port == 47910),` +
			`_ws.malformed || _ws.short || ip.checksum.status == "Bad"`
		table, err := exec.Command(tshark, "-q", "-r", path, "-z", stat).Output()
		if err != nil {
			t.Fatalf("tshark -z %q: %v", stat, err)
		}
		var all, roce, quenches, other, bad, bytes int
		_, row, _ := strings.Cut(string(table), "<>")
		_, row, _ = strings.Cut(row, "|")
		if _, err := fmt.Sscanf(strings.Join(strings.Fields(row), ""), "%d|%d|%d|%d|%d|%d|%d|%d|%d|%d|",
			&all, &bytes, &roce, &bytes, &quenches, &bytes, &other, &bytes, &bad, &bytes); err != nil {
			t.Fatalf("%v:\n%s", err, table)
		}
		if all == 0 || roce == 0 {
			t.Errorf("%s: %d frames, %d of them RoCEv2", name, all, roce)
		}
		if bad != 0 {
			t.Errorf("%s: %d of %d frames are malformed", name, bad, all)
		}
		// What is not RoCEv2 is the source quench.
		if other != 0 {
			t.Errorf("%s: %d frames are neither RoCEv2 nor quenches", name, other)
		}
		t.Logf("%s: %d frames, %d RoCEv2, %d quenches", name, all, roce, quenches)
	}
}

// TestEventLog: the log is JSON lines, and asking for it does not change the run.
func TestEventLog(t *testing.T) {
	lab := newLab(t)
	run := demo(t, func(s *scenario.Scenario) { s.Collectives = s.Collectives[:1]; s.Collectives[0].Bytes = 160_000 }, healthy)[0]
	var log bytes.Buffer
	r, err := lab.Run(context.Background(), run, scenario.Observer{Events: &log})
	if err != nil {
		t.Fatal(err)
	}
	if quiet := mustRun(t, lab, run); quiet.EventsSHA256 != r.EventsSHA256 {
		t.Error("writing the event log changes the run")
	}
	if lines := bytes.Count(log.Bytes(), []byte("\n")); lines < int(r.PacketHops) {
		t.Errorf("%d lines for %d packet-hops", lines, r.PacketHops)
	}
	if _, err := lab.Run(context.Background(), run, scenario.Observer{Events: failingWriter{}}); err == nil {
		t.Error("a log that cannot be written is not an error")
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// BenchmarkRun is a whole run; packet-hops per second of one core are in it.
func BenchmarkRun(b *testing.B) {
	lab := newLab(b)
	run := demo(b, nil, healthy)[0]
	hops := uint64(0)
	for b.Loop() {
		hops += mustRun(b, lab, run).PacketHops
	}
	b.ReportMetric(float64(hops)/b.Elapsed().Seconds(), "hops/s")
}
