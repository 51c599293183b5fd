package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Flows are the flow completion times (FCTs) of the messages that crossed the fabric and arrived. A message's FCT is
// the time from when its sender posts it until its receiver has its last byte. Its slowdown is its FCT over the time
// that it would take alone on the healthy fabric, in full packets. A message that is sent in smaller pieces can be
// faster: switches forward smaller packets sooner.
type Flows struct {
	Count    int        `json:"count"`
	FCT      Quantiles  `json:"fct_us"`
	Slowdown Quantiles  `json:"slowdown"`
	Sizes    []FlowSize `json:"sizes"` // classes of sizes that have flows, the smallest first
}

// FlowSize is the flows of a class of sizes: larger than the class before, and at most UpTo bytes.
type FlowSize struct {
	UpTo     int64     `json:"up_to_bytes"`
	Count    int       `json:"count"`
	FCT      Quantiles `json:"fct_us"`
	Slowdown Quantiles `json:"slowdown"`
}

// Quantiles describe a distribution, by nearest rank.
type Quantiles struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
	Max  float64 `json:"max"`
}

// FlowTime is a message that has arrived: hosts, size, time of posting, completion time, and the completion time if it
// were alone in the fabric.
type FlowTime struct {
	From, To            string
	Bytes               int64
	Posted, Took, Alone fabric.Time
}

// FlowsCSV writes a line per message, in the order in which they were posted.
func FlowsCSV(w io.Writer, all []FlowTime) error {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b FlowTime) int { return cmp.Compare(a.Posted, b.Posted) })
	out := csv.NewWriter(w)
	out.Write([]string{"from", "to", "bytes", "begin_us", "fct_us", "alone_us", "slowdown"}) //nolint:errcheck // Error returns it
	us := func(t fabric.Time) string { return strconv.FormatFloat(t.Micros(), 'f', -1, 64) }
	for _, f := range all {
		out.Write([]string{f.From, f.To, strconv.FormatInt(f.Bytes, 10), us(f.Posted), us(f.Took), us(f.Alone), //nolint:errcheck // Error returns it
			strconv.FormatFloat(float64(f.Took)/float64(max(f.Alone, 1)), 'f', 4, 64)})
	}
	out.Flush()
	return out.Error()
}

// NewFlows summarizes messages, which it sorts; nil: none.
func NewFlows(all []FlowTime) *Flows {
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b FlowTime) int { return int(min(max(a.Bytes-b.Bytes, -1), 1)) })
	out := &Flows{Count: len(all)}
	out.FCT, out.Slowdown = quantilesOf(all)
	for upTo := int64(10_000); len(all) > 0; upTo *= 10 {
		n, _ := slices.BinarySearchFunc(all, upTo+1, func(f FlowTime, bytes int64) int {
			if f.Bytes < bytes {
				return -1
			}
			return 1
		})
		if n > 0 {
			size := FlowSize{UpTo: upTo, Count: n}
			size.FCT, size.Slowdown = quantilesOf(all[:n])
			out.Sizes, all = append(out.Sizes, size), all[n:]
		}
	}
	return out
}

func quantilesOf(all []FlowTime) (fct, slowdown Quantiles) {
	times, ratios := make([]float64, len(all)), make([]float64, len(all))
	for i, f := range all {
		times[i], ratios[i] = f.Took.Micros(), float64(f.Took)/float64(max(f.Alone, 1))
	}
	return newQuantiles(times), newQuantiles(ratios)
}

// newQuantiles sorts the values.
func newQuantiles(values []float64) Quantiles {
	slices.Sort(values)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	n := float64(len(values))
	at := func(share float64) float64 { return roundFourDigits(values[max(0, int(math.Ceil(share*n-1e-9))-1)]) }
	return Quantiles{Mean: roundFourDigits(sum / n), P50: at(0.5), P95: at(0.95), P99: at(0.99), P999: at(0.999), Max: roundFourDigits(values[len(values)-1])}
}

func roundFourDigits(v float64) float64 { return math.Round(v*1e4) / 1e4 }

// flowsTexts describes the flows of a workload without steps: in other collectives they are parts of the whole.
func flowsTexts(r *Result) []string {
	if r.Flows == nil || len(r.Steps) > 0 || !strings.HasPrefix(r.Collective, "workload/") {
		return nil
	}
	text := func(what string, n int, fct, slowdown Quantiles) string {
		return fmt.Sprintf("%s%s: FCT %s median, %s p99, %s longest; slowdown %.2f median, %.2f p99, %.2f largest", pluralText(n, "flow"), what,
			roughMicros(fct.P50), roughMicros(fct.P99), roughMicros(fct.Max), slowdown.P50, slowdown.P99, slowdown.Max)
	}
	f := r.Flows
	out := []string{text("", f.Count, f.FCT, f.Slowdown)}
	if len(f.Sizes) > 1 {
		for _, s := range f.Sizes {
			out = append(out, text(" up to "+fabric.Bytes(s.UpTo).String(), s.Count, s.FCT, s.Slowdown))
		}
	}
	return out
}

// csvFlows returns the cells about flows.
func (r *Result) csvFlows() []string {
	if r.Flows == nil {
		return make([]string, 7)
	}
	f := r.Flows
	return []string{fmt.Sprint(f.Count), csvNumber(&f.FCT.P50), csvNumber(&f.FCT.P99), csvNumber(&f.FCT.Max),
		csvNumber(&f.Slowdown.P50), csvNumber(&f.Slowdown.P99), csvNumber(&f.Slowdown.Max)}
}
