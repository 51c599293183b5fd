package hostagent

import (
	"fmt"
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Defaults of a [LossTest].
const (
	// DefaultHealthyLoss is the default of [LossTest].Healthy. On a link within IEEE 802.3's bit error ratio of 1e-12
	// one frame of 9 KB in 1.4e7 is lost.
	DefaultHealthyLoss = 1e-7
	DefaultLossyLoss   = 1e-3
	DefaultLossAlpha   = 1e-3
	DefaultLossBeta    = 1e-2
)

// lossRatio is the smallest ratio of a lossy path's losses to the others' losses.
const lossRatio = 10

// LossTest is Wald's sequential probability ratio test between two loss ratios (lost packets per packet) of a path. It
// starts again whenever it finds the path healthy. Zeros mean the defaults.
type LossTest struct {
	// Healthy is a loss ratio that is no reason to leave a path; Lossy is the smallest ratio at which leaving pays. If
	// most other paths of the host lose more than Healthy, their median replaces it, and Lossy is at least ten times
	// the median: a loss on all paths is no reason to leave one.
	Healthy, Lossy float64 `json:",omitzero"`
	// Alpha is the largest probability that the test finds a healthy path lossy, Beta that it finds a lossy one
	// healthy.
	Alpha, Beta float64 `json:",omitzero"`
	Off         bool    `json:",omitzero"`
	// Unmarked says that switches can drop packets before they mark all, if many of their queues are long: a loss by
	// congestion on one path is then soon followed by losses on others, for which the agent waits.
	Unmarked bool `json:",omitzero"`
	// Pauses says that switches pause senders (PFC), so that a time-out on a path that answers probes does not count as
	// a loss.
	Pauses bool `json:",omitzero"`
}

func (t LossTest) withDefaults() LossTest {
	setZero(&t.Healthy, DefaultHealthyLoss)
	setZero(&t.Lossy, DefaultLossyLoss)
	setZero(&t.Alpha, DefaultLossAlpha)
	setZero(&t.Beta, DefaultLossBeta)
	return t
}

func (t LossTest) validate() error {
	for _, p := range []struct {
		name string
		v    float64
	}{{"Healthy", t.Healthy}, {"Lossy", t.Lossy}, {"Alpha", t.Alpha}, {"Beta", t.Beta}} {
		if !(p.v >= 0 && p.v <= 0.5) {
			return fmt.Errorf("%w: Losses.%s: %g is no share of 0 to 0.5", ErrConfig, p.name, p.v)
		}
	}
	if t = t.withDefaults(); t.Healthy >= t.Lossy {
		return fmt.Errorf("%w: Losses: Healthy is %g, Lossy %g; use a greater one", ErrConfig, t.Healthy, t.Lossy)
	}
	return nil
}

// record counts a path's packets since the test last restarted.
type record struct{ delivered, lost uint32 }

// uplinkRecord counts an uplink's packets, over all destinations.
type uplinkRecord struct {
	record
	lastLossAt fabric.Time // time of the latest loss
}

// weights are the test's increment for a lost packet, its decrement for another packet, and the sums at which it
// ends.
type weights struct{ loss, fine, lossy, healthy float64 }

// against returns the weights if most other paths have the given loss ratio.
func (t LossTest) against(others float64) weights {
	p := max(t.Healthy, min(others, 0.1))
	q := max(t.Lossy, min(lossRatio*p, 0.9))
	if p == t.Healthy {
		q = t.Lossy
	}
	return weights{
		loss: math.Log(q / p), fine: math.Log((1 - p) / (1 - q)),
		lossy: math.Log((1 - t.Beta) / t.Alpha), healthy: math.Log(t.Beta / (1 - t.Alpha)),
	}
}

func (w weights) sum(r record) float64 { return w.loss*float64(r.lost) - w.fine*float64(r.delivered) }

// restart returns the record since the test's last restart: with the losses first, the test restarts whenever the
// packets so far have proved the path healthy.
func (w weights) restart(r record) record {
	if first := (w.loss*float64(r.lost) - w.healthy) / w.fine; r.lost > 0 && float64(r.delivered) > first {
		r = record{delivered: r.delivered - uint32(first)}
	}
	if r.lost == 0 {
		r.delivered %= uint32(-w.healthy/w.fine) + 1
	}
	return r
}
