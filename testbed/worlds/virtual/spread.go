package virtual

import (
	"math"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// measureSpread fills the quantiles over uplinks and over ports.
func (w *world) measureSpread(r *report.Result) {
	var loads, longest, mean []float64
	for _, n := range w.switches {
		sw := w.f.Node(n.id)
		for port := fabric.PortNo(1); int(port) <= sw.Ports(); port++ {
			d := w.net.SendDirection(n.id, port)
			c := w.net.Counters(d)
			longest = append(longest, float64(c.MaxQueue))
			mean = append(mean, c.MeanQueue)
			if sw.Tier == fabric.ToR && port >= sw.FirstUplink() {
				loads = append(loads, r.Links[d].Share)
			}
		}
	}
	r.UplinkLoads, r.QueueMax, r.QueueMean = quantiles(loads), quantiles(longest), quantiles(mean)
}

// quantileSteps is the number of equal steps from the smallest value to the largest.
const quantileSteps = 20

// quantiles returns the values at 0, 5, ... 100 % of all, by nearest rank, with four significant digits. Empty for
// no values.
func quantiles(values []float64) []float64 {
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	out := make([]float64, quantileSteps+1)
	for i := range out {
		out[i] = significant(values[(len(values)-1)*i/quantileSteps])
	}
	return out
}

// significant rounds to four significant digits.
func significant(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-3)
	if unit >= 1 {
		return math.Round(v/unit) * unit
	}
	return math.Round(v/unit) / math.Round(1/unit)
}
