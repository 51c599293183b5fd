package virtual

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// BenchmarkQuench cuts an uplink in 100 runs, at random times of different collectives. For each queue pair that sends
// by the dead port, and that a quench or a notice moves, it reports the time to its first packet by another path, in
// idle round trips: from when the switch knows of the cut, or from the queue pair's first packet by the dead path after
// that.
func BenchmarkQuench(b *testing.B) {
	lab := newLab(b)
	for b.Loop() {
		rng := rand.New(rand.NewPCG(52, 7))
		var trips, flips []float64
		cuts, other := 0, 0
		for cuts < 100 {
			run := randomCut(b, rng)
			seen := departures{f: run.Fabric, of: map[queuePair][]fabric.Time{}}
			w, err := newWorld(lab, run, scenario.Observer{}, seen)
			if err != nil {
				b.Fatal(err)
			}
			if err := w.simulate(context.Background()); err != nil {
				b.Fatal(err)
			}
			got, flipped, rest := reactions(w, run, seen)
			other += rest
			if len(got) == 0 {
				continue // the collective had ended, or nothing went by the link
			}
			cuts++
			trips, flips = append(trips, got...), append(flips, flipped...)
		}
		for name, list := range map[string][]float64{"packet": trips, "flip": flips} {
			slices.Sort(list)
			within, _ := slices.BinarySearch(list, 2)
			b.ReportMetric(100*float64(within)/float64(len(list)), name+"-%within-2-trips")
			for _, p := range []int{50, 95, 99, 100} {
				b.ReportMetric(list[p*(len(list)-1)/100], fmt.Sprintf("%s-trips-p%d", name, p))
			}
		}
		b.ReportMetric(float64(len(trips)), "moves")
		b.ReportMetric(float64(other), "other-moves")
	}
}

// randomCut draws a run whose uplink is cut.
func randomCut(b *testing.B, rng *rand.Rand) scenario.Run {
	b.Helper()
	links := [2]string{fmt.Sprintf("tor%d-spine%d", rng.IntN(8), rng.IntN(4)), ""}
	tor := rng.IntN(8)
	links[1] = fmt.Sprintf("tor%d-agg%d", tor, tor/2*2+rng.IntN(2))
	kind := rng.IntN(2)
	text := fmt.Sprintf(`
name: quench
fabric: %s
host: {payload: 4096B}
collectives: [%s]
schemes: [ethereal]
failures: [{name: cut, notifiers: [quench], events: [{at: %dus, action: cut, link: %s, detection: %dus}]}]
seeds: %d
`, []string{
		"{kind: leaf-spine, tors: 8, spines: 4, hosts_per_tor: 4}",
		"{kind: fat-tree, pods: 4, tors_per_pod: 2, aggs_per_pod: 2, cores: 4, hosts_per_tor: 4}",
	}[kind], []string{
		"{kind: permutation, shift: 16, bytes: 2MB}", "{kind: all-to-all, bytes: 2MB}", "{kind: all-reduce, algorithm: ring, bytes: 4MB}",
	}[rng.IntN(3)], 2+rng.IntN(40), links[kind], 1+rng.IntN(10), 1+rng.IntN(1000))
	s, err := scenario.Parse("quench.yaml", []byte(text), nil)
	if err != nil {
		b.Fatal(err)
	}
	runs, err := s.Expand()
	if err != nil {
		b.Fatal(err)
	}
	return runs[0]
}

// reactions returns, for each queue pair that quenches or notices moved away from the dead link while it sent, after
// how many round trips it was moved, and its first packet left by the new path. other counts moves for another reason.
func reactions(w *world, run scenario.Run, seen departures) (trips, flips []float64, other int) {
	cut := run.Events[0]
	hops, link := fabric.Time(4), run.Fabric.Link(0)
	if run.Fabric.Spec().Kind == fabric.KindFatTree {
		hops = 6
	}
	rtt := float64(hops * (2*link.Delay + link.Rate.TimeFor(fullPacket-9000+4096) +
		link.Rate.TimeFor(headerBytes+ipv4Bytes+aethBytes+fabric.FrameOverhead)))
	done := map[queuePair]bool{}
	for _, f := range w.flips {
		at := fabric.Time(f.Time * float64(fabric.Microsecond))
		host, err := run.Fabric.NodeByName(f.Host)
		if err != nil || at < cut.At {
			continue
		}
		id := queuePair{host, f.QP}
		if done[id] {
			continue
		}
		done[id] = true
		if f.Reason != hostagent.ByQuench.String() {
			other++
			continue
		}
		began, moved := fabric.Time(-1), fabric.Time(-1)
		for _, d := range seen.of[id] {
			switch {
			case d < cut.At:
			case d <= at && began < 0:
				began = max(d, cut.At+cut.Detection)
			case d >= at && moved < 0:
				moved = d
			}
		}
		if began >= 0 && moved >= 0 {
			trips = append(trips, float64(moved-began)/rtt)
			flips = append(flips, float64(max(at-began, 0))/rtt)
		}
	}
	return trips, flips, other
}

type queuePair struct {
	host fabric.NodeID
	qp   uint32
}

// departures are when hosts sent the data packets of their queue pairs.
type departures struct {
	f  *fabric.Fabric
	of map[queuePair][]fabric.Time
}

func (s departures) Trace(r sim.Record) {
	const bth = 42
	if r.Kind != sim.RecordSend || int(r.Node) >= s.f.Hosts() || len(r.Header) < bth+12 ||
		binary.BigEndian.Uint16(r.Header[36:]) != fabric.RoCEPort || r.Payload == 0 {
		return
	}
	id := queuePair{r.Node, binary.BigEndian.Uint32(r.Header[bth+4:]) & 0xffffff}
	s.of[id] = append(s.of[id], r.At)
}
