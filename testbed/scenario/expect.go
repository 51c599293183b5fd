package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

// Expectation is an expected value or range of a measure in every run. At least one of Is, Min and Max is given.
type Expectation struct {
	That   string   `yaml:"that" required:"for example finished"` // name of the measure
	Of     string   `yaml:"of"`                                   // name of a host: its value alone
	Is     Amount   `yaml:"is"`
	Min    Amount   `yaml:"min"`
	Max    Amount   `yaml:"max"`
	Worlds []string `yaml:"worlds"` // worlds in which it is checked; empty: all
	Why    string   `yaml:"why"`    // printed if the expectation fails
}

// Amount is a number, a time, or yes or no: 3, 1.5, 200us, true.
type Amount struct {
	Set   bool
	Time  bool
	Value float64 // a number; a time in us
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

// Measure is a measurable quantity of a run.
type Measure struct {
	Name string
	Help string
	Time bool // its unit is time
}

// Measures returns the quantities with which expectations compare.
func Measures() []Measure {
	return []Measure{
		{"finished", "every message completed, once", false},
		{"cct", "collective completion time", true},
		{"slowdown", "completion time over the lower bound", false},
		{"step_slowdown", "completion time over the step bound", false},
		{"flips", "changes of a queue pair's path", false},
		{"last_flip", "from the first failure to the last flip away from it", true},
		{"timeouts", "retransmission timers that expired", false},
		{"retransmissions", "retransmitted data packets", false},
		{"quenches", "source quenches that hosts received", false},
		{"lost", "packets lost to the failure", false},
		{"drops", "packets dropped for want of buffer or route", false},
		{"qps", "most queue pairs a host had open at once", false},
		{"imbalance", "most loaded ToR uplink over the mean", false},
		{"gnmi", "gNMI notifications of ports that the controller took", false},
		{"writes", "table writes of a switch, however many requests each took", false},
		{"pushes", "link updates pushed to agents", false},
		{"first_gnmi", "from the first event to the first gNMI notification after it", true},
		{"first_write", "from the first event to the first P4Runtime write after it", true},
		{"first_flip", "from the first event to the first flip after it", true},
	}
}

func measureNames() []string {
	var names []string
	for _, m := range Measures() {
		names = append(names, m.Name)
	}
	return names
}

// flipsMeasure is the only measure that can be per host.
const flipsMeasure = "flips"

func (x Expectation) check(f *fabric.Fabric, path string, complain reportError) {
	all := Measures()
	i := slices.IndexFunc(all, func(m Measure) bool { return m.Name == x.That })
	if i < 0 {
		complain(path+".that", fmt.Sprintf("%q is unknown", x.That), strictyaml.Choose(x.That, measureNames()))
		return
	}
	if !x.Is.Set && !x.Min.Set && !x.Max.Set {
		complain(path, "expects nothing", "add is, min or max")
	}
	for _, a := range []Amount{x.Is, x.Min, x.Max} {
		if a.Set && a.Time != all[i].Time && (a.Value != 0 || a.Time) {
			complain(path, fmt.Sprintf("%s of %v", x.That, a), map[bool]string{
				true: "write a time with its unit, as in 200us", false: "write a number without a unit",
			}[all[i].Time])
		}
	}
	if x.Of != "" && f != nil {
		id, err := f.NodeByName(x.Of)
		if x.That != flipsMeasure || err != nil || f.Node(id).Tier != fabric.Host {
			complain(path+".of", fmt.Sprintf("%s of %s is not measured", x.That, x.Of), "only flips are known by host, as in of: h0")
		}
	}
	for _, w := range x.Worlds {
		if !slices.Contains(WorldNames(), w) {
			complain(path+".worlds", fmt.Sprintf("%q is unknown", w), "write some of "+strings.Join(WorldNames(), ", "))
		}
	}
}
