package controller

import (
	"math/bits"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/ratio"
)

// weights are the shares of a switch's uplinks, by index. No uplink has more
// than MaxUplinks live paths.
type weights [fabric.MaxUplinks]uint8

// equalWeights returns weights with one share for every uplink of a set.
func equalWeights(set uint64) (w weights) {
	for ; set != 0; set &= set - 1 {
		w[bits.TrailingZeros64(set)] = 1
	}
	return w
}

// without returns w with the uplinks of set taken out.
func (w weights) without(set uint64) weights {
	for ; set != 0; set &= set - 1 {
		w[bits.TrailingZeros64(set)] = 0
	}
	return w
}

// shareTolerance is the excess over its share that a member of an approximated group may get before a larger group is
// tried.
const shareTolerance = 0.05

// fitsWeights reports whether a group with the shares x fits paths with the weights w: it has the same members, and
// none exceeds its share by more than the tolerance.
func fitsWeights(x, w weights, n int) bool {
	sumX, sumW := 0, 0
	for i := range w[:n] {
		if (x[i] == 0) != (w[i] == 0) {
			return false
		}
		sumX, sumW = sumX+int(x[i]), sumW+int(w[i])
	}
	for i := range w[:n] {
		if float64(int(x[i])*sumW) > (1+shareTolerance)*float64(int(w[i])*sumX) {
			return false
		}
	}
	return true
}

// reduceToLimit divides the weights of the first n uplinks by their greatest common divisor. If their sum is still
// above limit, it approximates them by the smallest group in which no member exceeds its share by more than the
// tolerance, or else by the best one within the limit. limit is at least the number of members.
func reduceToLimit(w weights, n, limit int) weights {
	div, sum := 0, 0
	for _, x := range w[:n] {
		div, sum = ratio.GCD(div, int(x)), sum+int(x)
	}
	if div == 0 {
		return w
	}
	if sum/div <= limit {
		if div > 1 {
			for i := range w[:n] {
				w[i] /= uint8(div)
			}
		}
		return w
	}

	// One share each, then one more at a time where the error is least: that gives the best group of every size
	// [Zhou et al., WCMP, EuroSys 2014].
	var x, best weights
	size := 0
	for i := range w[:n] {
		if w[i] > 0 {
			x[i] = 1
			size++
		}
	}
	bestExcess := -1.0
	for {
		worst := 0.0
		for i := range w[:n] {
			if w[i] > 0 {
				worst = max(worst, float64(x[i])/float64(w[i]))
			}
		}
		if excess := worst*float64(sum)/float64(size) - 1; bestExcess < 0 || excess < bestExcess {
			best, bestExcess = x, excess
		}
		if bestExcess <= shareTolerance || size == limit {
			return reduceToLimit(best, n, limit)
		}
		next := -1
		for i := range w[:n] {
			if w[i] > 0 && (next < 0 || (int(x[i])+1)*int(w[next]) < (int(x[next])+1)*int(w[i])) {
				next = i
			}
		}
		x[next]++
		size++
	}
}
