package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// Step is a repetition of a workload's job: of its steps, or of its only collective.
type Step struct {
	Job  int `json:"job"`  // number of the job, from 1
	Step int `json:"step"` // number of the repetition, from 1
	// Begin is when the first rank begins the step, End when the last one has ended it; nil: not in the run.
	Begin *float64 `json:"begin_us"`
	End   *float64 `json:"end_us"`
	// Bound is the step bound of the step alone, on the fabric without failures; nil: none.
	Bound *float64 `json:"bound_us"`
	Parts []Part   `json:"parts"` // its computations and collectives, in order
}

// Part is a computation or a collective of a [Step].
type Part struct {
	Name  string   `json:"name"` // such as "all-reduce 100MB"
	Begin *float64 `json:"begin_us"`
	End   *float64 `json:"end_us"`
	// BusBandwidth is that of a collective; see [Result].
	BusBandwidth *float64 `json:"bus_gb_per_s"`
}

// BusBandwidth returns the bus bandwidth of a collective in GB/s, of its bus bytes (see
// [github.com/ethereal-fabric/ethereal/testbed/workload/collective.Spec.BusBytes]) and its begin and end in
// microseconds; nil: it has none, or has not ended.
func BusBandwidth(bytes float64, begin, end *float64) *float64 {
	us, ok := timeBetween(begin, end)
	if !ok || us <= 0 || bytes <= 0 {
		return nil
	}
	gb := roundFourDigits(bytes / us / 1e3)
	return &gb
}

// timeBetween returns the time from a begin to an end; ok is false without either.
func timeBetween(begin, end *float64) (us float64, ok bool) {
	if begin == nil || end == nil {
		return 0, false
	}
	return *end - *begin, true
}

// StepsCSV writes a line per step and part of all results. A step's own line names no part.
func StepsCSV(w io.Writer, rs []*Result) error {
	rows := [][]string{{"scenario", "failure", "notifier", "collective", "variant", "scheme", "seed", "job", "step", "part", "begin_us", "end_us",
		"took_us", "bound_us", "bus_gb_per_s"}}
	for _, r := range Distinct(rs) {
		for _, s := range r.Steps {
			row := func(part string, begin, end, bound, bus *float64) {
				text := ""
				if us, ok := timeBetween(begin, end); ok {
					text = csvNumber(&us)
				}
				rows = append(rows, []string{r.Scenario, r.Failure, r.Notifier, r.Collective, r.variantText(""), r.Scheme,
					strconv.FormatUint(r.Seed, 10), strconv.Itoa(s.Job), strconv.Itoa(s.Step), part,
					csvNumber(begin), csvNumber(end), text, csvNumber(bound), csvNumber(bus)})
			}
			row("", s.Begin, s.End, s.Bound, nil)
			for _, p := range s.Parts {
				row(p.Name, p.Begin, p.End, nil, p.BusBandwidth)
			}
		}
	}
	if err := csv.NewWriter(w).WriteAll(rows); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// stepsTexts describes the steps of each job with several ones.
func stepsTexts(r *Result) []string {
	var out []string
	for first := 0; first < len(r.Steps); {
		n := first + 1
		for n < len(r.Steps) && r.Steps[n].Job == r.Steps[first].Job {
			n++
		}
		if text := stepsText(r.Steps[first:n], r.Steps[len(r.Steps)-1].Job > 1); text != "" {
			out = append(out, text)
		}
		first = n
	}
	return out
}

// stepsText describes the steps of a job. It names the longest, if it is longer than most by more than 1 %.
func stepsText(steps []Step, named bool) string {
	var times []float64
	longest, most := 0, 0.0
	for _, s := range steps {
		if us, ok := timeBetween(s.Begin, s.End); ok {
			times = append(times, us)
			if us > most {
				longest, most = s.Step, us
			}
		}
	}
	if len(steps) < 2 || len(times) == 0 {
		return ""
	}
	slices.Sort(times)
	usual := times[(len(times)-1)/2]
	text := fmt.Sprintf("%d steps", len(steps))
	if named {
		text = fmt.Sprintf("job %d: %s", steps[0].Job, text)
	}
	if len(times) < len(steps) {
		text += fmt.Sprintf(", %d of them complete,", len(times))
	}
	text += " took " + roughMicros(usual) + " each"
	if bound := steps[0].Bound; bound != nil {
		text += fmt.Sprintf(" (at least %s)", roughMicros(*bound))
	}
	if most > usual*1.01 {
		text += fmt.Sprintf("; step %d took %s instead of %s", longest, roughMicros(most), roughMicros(usual))
	}
	return text
}
