package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// made returns made-up results in the shape of the demo's: two collectives, two
// schemes, healthy and with a cut under each notifier. They are not
// measurements; they only have to look like some.
func made(spec fabric.Spec, seeds ...uint64) []*Result {
	f, err := fabric.New(spec)
	if err != nil {
		panic(err)
	}
	if len(seeds) == 0 {
		seeds = []uint64{1}
	}
	var out []*Result
	add := func(failure, notifier, op string, bytes int64, ideal float64) {
		for _, scheme := range []string{"ethereal", "ecmp"} {
			for _, seed := range seeds {
				out = append(out, madeRun(f, spec, failure, notifier, op, bytes, ideal, scheme, seed))
			}
		}
	}
	ops := []struct {
		name  string
		ideal float64
	}{{"all-to-all", 309.4}, {"all-reduce/halving-doubling", 634.2}}
	for _, o := range ops {
		add("healthy", "none", o.name, 16e6, o.ideal)
	}
	for _, o := range ops {
		for _, n := range []string{"timeout", "quench", "gnmi"} {
			add("tor0-agg0 cut", n, o.name, 16e6, o.ideal*1.6)
		}
	}
	return out
}

func madeRun(f *fabric.Fabric, spec fabric.Spec, failure, notifier, op string, bytes int64, ideal float64, scheme string, seed uint64) *Result {
	rng := rand.New(rand.NewPCG(seed, uint64(len(failure+notifier+op+scheme))))
	bound, step := ideal, 1.01*ideal
	cct := ideal * (1.02 + 0.01*rng.Float64())
	if scheme == "ecmp" {
		cct = ideal * (1.7 + 0.4*rng.Float64())
	}
	r := &Result{
		Scenario: "demo", Scheme: scheme, Collective: op, Notifier: notifier, Seed: seed, Bound: &bound, StepBound: &step,
		EventsSHA256: fmt.Sprintf("%064x", rng.Uint64()), Failure: failure, Bytes: bytes, Finished: true, End: Finished,
		QPsPerHostMax: map[string]int{"ethereal": 28, "ecmp": 15}[scheme], PacketHops: 610_000 + rng.Uint64N(1e4),
		SimEvents: 2_400_000 + rng.Uint64N(1e5), WallMS: 812, Fabric: spec, Marked: rng.Int64N(900),
	}
	cut := failure != "healthy"
	if cut {
		madeFailure(r, rng, &cct)
	}
	r.CCT, r.EndTime = &cct, cct
	if cut && scheme == "ecmp" && notifier == "timeout" {
		r.CCT, r.EndTime, r.Finished, r.End = nil, 20000, false, Deadline
	}
	var total, uplinks int64
	for i := range f.Links() {
		l := f.Link(fabric.LinkID(i))
		lower, upper := f.Name(l.A.Node), f.Name(l.B.Node)
		load := 15e6
		for _, up := range []bool{true, false} {
			from, to := lower, upper
			if !up {
				from, to = upper, lower
			}
			b := load
			if scheme == "ecmp" && f.Node(l.A.Node).Tier != fabric.Host {
				b = load * math.Exp(rng.NormFloat64()*0.35)
			}
			if cut && f.LinkName(l.ID) == "tor0-agg0" {
				b *= 0.07
			} else if cut && l.A.Node == f.ToRID(0) {
				b *= 1.9
			}
			n := int64(b)
			r.Links = append(r.Links, LinkLoad{
				Link: f.LinkName(l.ID), From: from, To: to, DataBytes: n, ControlBytes: n / 150,
				Share: min(1, float64(n)*8e6/float64(l.Rate)/r.EndTime), Cut: cut && f.LinkName(l.ID) == "tor0-agg0",
			})
			if up && f.Node(l.A.Node).Tier == fabric.ToR {
				total, uplinks = total+n, uplinks+1
				r.UplinkBytesMax = max(r.UplinkBytesMax, n)
			}
		}
	}
	r.UplinkBytesMean = float64(total) / float64(uplinks)
	return r
}

func madeFailure(r *Result, rng *rand.Rand, cct *float64) {
	add := func(t float64, k Kind, where, text string) { r.Timeline = append(r.Timeline, Event{t, k, where, text}) }
	add(20, KindCut, "tor0-agg0", "link cut")
	add(20.02, KindFirstHit, "tor0", "h1 to h9")
	flipAt, delay := 0.0, 0.0
	switch r.Notifier {
	case "timeout":
		for i := range 12 {
			add(1020.3+float64(i)*1.7, KindTimeout, "h0", "qp 7")
		}
		flipAt, delay = 1020.3, 1.7
		*cct += 1020
		r.Timeouts, r.LostToFailure = 12, 8212
	case "quench":
		add(30, KindDetect, "tor0", "port 3 down")
		for i := range 14 {
			add(30.9+float64(i)*0.2, KindQuench, "h0", "port 3")
		}
		flipAt, delay = 30.9, 0.2
		*cct += 14
		r.Quenches, r.LostToFailure = 14, 431
	case "gnmi":
		add(30, KindDetect, "tor0", "port 3 down")
		add(80, KindGNMI, "controller", "tor0 Ethernet3 DOWN")
		add(110, KindPush, "h0", "tor0-agg0")
		add(140, KindWrite, "tor0", "4 updates")
		flipAt, delay = 110, 0.05
		*cct += 96
		r.LostToFailure = 3120
	}
	if r.Scheme == "ethereal" {
		for i := range 14 {
			t := flipAt + float64(i)*delay
			r.FlipRecords = append(r.FlipRecords, FlipEvent{t, fmt.Sprintf("h%d", i%2), uint32(i + 3), 1, 2, r.Notifier})
			add(t+2.3, KindRetransmit, "h0", "")
		}
		last := r.FlipRecords[len(r.FlipRecords)-1].Time - 20
		r.LastFlip, r.Flips = &last, 14
	} else {
		for range 40 {
			add(1020+rng.Float64()*900, KindRetransmit, "h1", "")
		}
	}
	r.Retransmissions = r.LostToFailure + 55
	slices.SortStableFunc(r.Timeline, func(a, b Event) int {
		if a.Time < b.Time {
			return -1
		} else if a.Time > b.Time {
			return 1
		}
		return 0
	})
}
