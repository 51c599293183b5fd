package experiment

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// Expectation is what an experiment expects of a measure. At least one of Is,
// Min and Max is given.
type Expectation struct {
	That   string   `yaml:"that" required:"for example finished"` // the measure
	Of     string   `yaml:"of"`                                   // of this host alone
	Is     Amount   `yaml:"is"`
	Min    Amount   `yaml:"min"`
	Max    Amount   `yaml:"max"`
	Worlds []string `yaml:"worlds"` // empty: all
	Why    string   `yaml:"why"`    // for those who read that it did not hold
}

// Amount is a number, a time, or yes or no: 3, 1.5, 200us, true.
type Amount struct {
	Set   bool
	Time  bool
	Value float64 // a time in us
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Amount) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	switch s {
	case "true", "yes":
		*a = Amount{Set: true, Value: 1}
		return nil
	case "false", "no":
		*a = Amount{Set: true}
		return nil
	}
	if v, err := strconv.ParseFloat(s, 64); err == nil && v == v {
		*a = Amount{Set: true, Value: v}
		return nil
	}
	var t fabric.Time
	if err := t.UnmarshalText(text); err != nil {
		return fmt.Errorf("%q is neither a number nor a time", s)
	}
	*a = Amount{Set: true, Time: true, Value: t.Micros()}
	return nil
}

func (a Amount) String() string {
	if a.Time {
		return fabric.Time(a.Value * float64(fabric.Microsecond)).String()
	}
	return strconv.FormatFloat(a.Value, 'g', 6, 64)
}

// measure reads one number of an outcome. ok is false when there is none, such
// as the completion time of what did not finish.
type measure struct {
	name, help string
	time       bool // in us
	read       func(o *Outcome) (value float64, ok bool)
}

// measures are what can be expected of.
func measures() []measure {
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
	recorded := func(kind string) func(*Outcome) (float64, bool) {
		return func(o *Outcome) (float64, bool) { return float64(len(o.Record.Kind(kind))), true }
	}
	after := func(kind string) func(*Outcome) (float64, bool) {
		return func(o *Outcome) (float64, bool) {
			if len(o.Experiment.Steps) == 0 {
				return 0, false
			}
			first := o.Experiment.Steps[0].At
			for _, h := range o.Record.Kind(kind) {
				if h.At >= first {
					return (h.At - first).Micros(), true
				}
			}
			return 0, false
		}
	}
	return []measure{
		{"finished", "every message completed, once", false, count(func(r *report.Result) int64 {
			if r.Finished {
				return 1
			}
			return 0
		})},
		{"cct", "collective completion time", true, maybe(func(r *report.Result) *float64 { return r.CCT })},
		{"slowdown", "completion time over the lower bound", false, func(o *Outcome) (float64, bool) { return o.Result.Slowdown() }},
		{"flips", "changes of a queue pair's path", false, count(func(r *report.Result) int64 { return int64(r.Flips) })},
		{"last_flip", "from the first failure to the last flip away from it", true, maybe(func(r *report.Result) *float64 { return r.LastFlip })},
		{"timeouts", "retransmission timers that expired", false, count(func(r *report.Result) int64 { return r.Timeouts })},
		{"retransmissions", "data packets sent again", false, count(func(r *report.Result) int64 { return r.Retransmissions })},
		{"quenches", "source quenches that hosts received", false, count(func(r *report.Result) int64 { return r.Quenches })},
		{"lost", "packets lost to the failure", false, count(func(r *report.Result) int64 { return r.LostToFailure })},
		{"drops", "packets dropped for want of buffer or route", false, count(func(r *report.Result) int64 { return r.Drops })},
		{"qps", "most queue pairs a host had open at once", false, count(func(r *report.Result) int64 { return int64(r.QPsPerHostMax) })},
		{"imbalance", "most loaded ToR uplink over the mean", false, func(o *Outcome) (float64, bool) {
			if o.Result.UplinkBytesMean <= 0 {
				return 0, false
			}
			return float64(o.Result.UplinkBytesMax) / o.Result.UplinkBytesMean, true
		}},
		{"gnmi", "gNMI notifications of ports that the controller took", false, recorded("gnmi")},
		{"writes", "P4Runtime writes", false, recorded("write")},
		{"pushes", "link updates pushed to agents", false, recorded("push")},
		{"first_gnmi", "from the first step to the first gNMI notification after it", true, after("gnmi")},
		{"first_write", "from the first step to the first P4Runtime write after it", true, after("write")},
		{"first_flip", "from the first step to the first flip after it", true, after("flip")},
	}
}

// flipsOf is the one measure that can be a host's.
const flipsOf = "flips"

func (x Expectation) check(f *fabric.Fabric, path string, complain func(key, problem, remedy string)) {
	all := measures()
	var names []string
	for _, m := range all {
		names = append(names, m.name)
	}
	i := slices.Index(names, x.That)
	if i < 0 {
		complain(path+".that", fmt.Sprintf("%q is unknown", x.That), "write one of "+strings.Join(names, ", "))
		return
	}
	if !x.Is.Set && !x.Min.Set && !x.Max.Set {
		complain(path, "expects nothing", "add is, min or max")
	}
	for _, a := range []Amount{x.Is, x.Min, x.Max} {
		if a.Set && a.Time != all[i].time && (a.Value != 0 || a.Time) {
			complain(path, fmt.Sprintf("%s of %v", x.That, a), map[bool]string{
				true: "write a time with its unit, as in 200us", false: "write a number without a unit",
			}[all[i].time])
		}
	}
	if x.Of != "" {
		id, err := f.NodeByName(x.Of)
		if x.That != flipsOf || err != nil || f.Node(id).Tier != fabric.Host {
			complain(path+".of", fmt.Sprintf("%s of %s is not measured", x.That, x.Of), "only flips are known by host, as in of: h0")
		}
	}
	for _, w := range x.Worlds {
		if !slices.Contains(WorldNames(), w) {
			complain(path+".worlds", fmt.Sprintf("%q is unknown", w), "write some of "+strings.Join(WorldNames(), ", "))
		}
	}
}

// Verdict is what became of an expectation.
type Verdict struct {
	Expectation
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

// judge compares an expectation with what was measured.
func (x Expectation) judge(o *Outcome) Verdict {
	v := Verdict{Expectation: x, Measured: "none"}
	all := measures()
	m := all[slices.IndexFunc(all, func(m measure) bool { return m.name == x.That })]
	value, ok := m.read(o)
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
	v.Measured = Amount{Time: m.time, Value: value}.String()
	v.Held = (!x.Is.Set || value == x.Is.Value) && (!x.Min.Set || value >= x.Min.Value) && (!x.Max.Set || value <= x.Max.Value)
	return v
}
