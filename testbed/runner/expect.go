package runner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// measureReaders returns the reading function of each of [scenario.Measures]. ok is false if a run has no such value,
// such as the completion time of an unfinished run.
func measureReaders() map[string]func(o *Outcome) (value float64, ok bool) {
	count := func(f func(r *report.Result) int64) func(*Outcome) (float64, bool) {
		return func(o *Outcome) (float64, bool) { return float64(f(o.Result)), true }
	}
	maybe := func(f func(r *report.Result) *float64) func(*Outcome) (float64, bool) {
		return func(o *Outcome) (float64, bool) {
			if v := f(o.Result); v != nil {
				return *v, true
			}
			return 0, false
		}
	}
	recorded := func(kind report.Kind) func(*Outcome) (float64, bool) {
		return func(o *Outcome) (float64, bool) { return float64(len(o.Record.Kind(kind))), true }
	}
	after := func(kind report.Kind) func(*Outcome) (float64, bool) {
		return func(o *Outcome) (float64, bool) {
			e, ok := firstEvent(o.Run)
			if !ok {
				return 0, false
			}
			first := e.At
			for _, r := range o.Record.Kind(kind) {
				if at := r.At(); at >= first {
					return (at - first).Micros(), true
				}
			}
			return 0, false
		}
	}
	return map[string]func(o *Outcome) (value float64, ok bool){
		"finished": count(func(r *report.Result) int64 {
			if r.Finished {
				return 1
			}
			return 0
		}),
		"cct":             maybe(func(r *report.Result) *float64 { return r.CCT }),
		"slowdown":        func(o *Outcome) (float64, bool) { return o.Result.Slowdown() },
		"step_slowdown":   func(o *Outcome) (float64, bool) { return o.Result.StepSlowdown() },
		"flips":           count(func(r *report.Result) int64 { return int64(r.Flips) }),
		"last_flip":       maybe(func(r *report.Result) *float64 { return r.LastFlip }),
		"timeouts":        count(func(r *report.Result) int64 { return r.Timeouts }),
		"retransmissions": count(func(r *report.Result) int64 { return r.Retransmissions }),
		"quenches":        count(func(r *report.Result) int64 { return r.Quenches }),
		"lost":            count(func(r *report.Result) int64 { return r.LostToFailure }),
		"drops":           count(func(r *report.Result) int64 { return r.Drops }),
		"qps":             count(func(r *report.Result) int64 { return int64(r.QPsPerHostMax) }),
		"imbalance": func(o *Outcome) (float64, bool) {
			if o.Result.UplinkBytesMean <= 0 {
				return 0, false
			}
			return float64(o.Result.UplinkBytesMax) / o.Result.UplinkBytesMean, true
		},
		"gnmi":        recorded("gnmi"),
		"writes":      recorded("write"),
		"pushes":      recorded("push"),
		"first_gnmi":  after("gnmi"),
		"first_write": after("write"),
		"first_flip":  after("flip"),
	}
}

// Verdict is whether a run met one expectation of its scenario, with the measured value.
type Verdict struct {
	scenario.Expectation
	Held     bool
	Measured string
}

func (v Verdict) String() string {
	var parts []string
	if v.Is.Set {
		parts = append(parts, "= "+v.Is.String())
	}
	if v.Min.Set {
		parts = append(parts, ">= "+v.Min.String())
	}
	if v.Max.Set {
		parts = append(parts, "<= "+v.Max.String())
	}
	what := v.That
	if v.Of != "" {
		what += " of " + v.Of
	}
	s := fmt.Sprintf("%s %s (%s)", what, v.Measured, strings.Join(parts, ", "))
	if !v.Held && v.Why != "" {
		s += ": " + v.Why
	}
	return s
}

// judgeExpectation compares an expectation with the measurement.
func judgeExpectation(x scenario.Expectation, o *Outcome) Verdict {
	v := Verdict{Expectation: x, Measured: "none"}
	all := scenario.Measures()
	m := all[slices.IndexFunc(all, func(m scenario.Measure) bool { return m.Name == x.That })]
	value, ok := measureReaders()[x.That](o)
	if x.Of != "" {
		value = 0
		for _, f := range o.Result.FlipRecords {
			if f.Host == x.Of {
				value++
			}
		}
	}
	if !ok {
		return v
	}
	v.Measured = scenario.Amount{Time: m.Time, Value: value}.String()
	v.Held = (!x.Is.Set || value == x.Is.Value) && (!x.Min.Set || value >= x.Min.Value) && (!x.Max.Set || value <= x.Max.Value)
	return v
}
