package hostagent

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// lossVerdicts runs a test of a path that loses a share of its packets until it ends,
// many times, and returns the share of times that it finds the path lossy.
func lossVerdicts(lt LossTest, loss float64, times int) float64 {
	rng := rand.New(rand.NewPCG(1, 2))
	w := lt.withDefaults().against(0)
	lossy := 0
	for range times {
		var r record
		for {
			if rng.Float64() < loss {
				r.lost++
			} else {
				r.delivered++
			}
			if s := w.sum(r); s >= w.lossy {
				lossy++
				break
			} else if s <= w.healthy {
				break
			}
		}
	}
	return float64(lossy) / float64(times)
}

// The test's error rates are at most those that it states, and above Lossy it does
// better.
func TestLossErrorRates(t *testing.T) {
	for _, c := range []struct {
		name        string
		test        LossTest
		loss        float64
		least, most float64
		times       int
	}{
		{"healthy", LossTest{}, DefaultHealthyLoss, 0, DefaultLossAlpha, 2000},
		{"lossy", LossTest{}, DefaultLossyLoss, 1 - DefaultLossBeta, 1, 2000},
		{"1 %", LossTest{}, 0.01, 0.999, 1, 2000},
		{"healthy, wide", LossTest{Healthy: 1e-3, Lossy: 2e-2, Alpha: 1e-2, Beta: 5e-2}, 1e-3, 0, 1e-2, 20000},
		{"lossy, wide", LossTest{Healthy: 1e-3, Lossy: 2e-2, Alpha: 1e-2, Beta: 5e-2}, 2e-2, 0.95, 1, 20000},
	} {
		got := lossVerdicts(c.test, c.loss, c.times)
		wrong := min(1-c.least, c.most) // the rate that is stated
		slack := 3 * math.Sqrt(wrong/float64(c.times))
		if got < c.least-slack || got > c.most+slack {
			t.Errorf("%s: found lossy in %.4f of the tests; want %.4f to %.4f", c.name, got, c.least, c.most)
		}
	}
}

// A record that is begun anew when it is looked at is that of a test that ends as it
// goes along.
func TestLossRestart(t *testing.T) {
	w := LossTest{}.withDefaults().against(0)
	each := uint32(-w.healthy/w.fine) + 1 // packets that end a test which began with nothing
	for _, c := range []struct{ have, want record }{
		{record{}, record{}},
		{record{delivered: 10}, record{delivered: 10}},
		{record{delivered: 3*each + 7}, record{delivered: 7}},
		{record{delivered: 100, lost: 1}, record{delivered: 100, lost: 1}},
		{record{delivered: 1 << 31, lost: 1}, w.restart(record{delivered: 1<<31 - uint32((w.loss-w.healthy)/w.fine)})},
	} {
		if got := w.restart(c.have); got != c.want || w.sum(got) < w.healthy-w.fine {
			t.Errorf("%+v: begun anew as %+v, want %+v", c.have, got, c.want)
		}
	}
}

// What all uplinks lose is no reason to leave one, what one of them loses is; and
// whatever is lost, every ToR can be reached.
func TestLossOfAll(t *testing.T) {
	for _, one := range []bool{false, true} {
		f := mustFabric(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 8, Spines: 8, HostsPerToR: 8})
		c := mustCore(t, Config{Fabric: f})
		rng := rand.New(rand.NewPCG(3, 4))
		now := fabric.Time(0)
		for i := range 400 {
			now += 50 * fabric.Microsecond // apart: no flip is fresh
			flow := Flow{ID: uint64(i), Dst: fabric.NodeID(8 + rng.IntN(56)), Bytes: 80000}
			if err := c.Post(now, []Flow{flow}); err != nil {
				t.Fatal(err)
			}
			for _, p := range c.Ready().Open {
				if lost := rng.Float64() < 0.05; lost && (!one || p.Label == 3) {
					c.Lost(now, p.QP, Loss{Packets: 1, Since: now})
				}
				c.Acked(now, p.QP, p.Bytes)
				c.Done(now, p.QP)
			}
			checkInvariants(t, c)
		}
		good := 0
		for d := fabric.NodeID(8); d < 64; d += 8 {
			good += len(c.GoodPaths(d))
		}
		s := c.Stats()
		if one && (good != 7*7 || s.Left != 1) || !one && good < 7*4 {
			t.Errorf("one uplink alone %v: %d of 56 paths are good, %+v", one, good, s)
		}
	}
}
