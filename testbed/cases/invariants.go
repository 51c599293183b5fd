package cases

import "slices"

// Limits of the invariants.
const (
	behindHealthy  = 1.05 // of the best opponent, healthy
	behindFailed   = 1.10 // of the best opponent, with a failure
	notifiedWithin = 1.3  // of the reference, where hosts are notified within 30 us
)

// Invariant is a property that a record of some classes should have.
type Invariant struct {
	Name    string
	Meaning string
	Classes []Class // empty: all
	Holds   func(*Record) bool
}

// Invariants returns all invariants.
func Invariants() []Invariant {
	notified := []Class{Quench, GNMI}
	unnotified := []Class{Late, Nobody}
	cut := append(notified, unnotified...)
	return []Invariant{
		{"runs", "every run can be carried out, without panic and within the time limit", nil, func(r *Record) bool {
			return r.Error == "" && r.Subject() != nil && r.Subject().End != "interrupted"
		}},
		{"finishes", "the collective completes", nil, func(r *Record) bool { return r.Subject().CCT != nil && r.Healthy.CCT != nil }},

		{"healthy-no-flip", "no queue pair leaves a path of a healthy fabric", nil, func(r *Record) bool { return r.Healthy.flips() == 0 }},
		{"healthy-no-drop", "switches of a healthy fabric drop nothing, unless a queue could reach the buffer's limit", nil, func(r *Record) bool {
			return r.Healthy.Lost == 0 && (r.Healthy.Drops == 0 || r.Healthy.Pauses == 0)
		}},
		{"healthy-no-retransmission", "nothing is retransmitted if nothing was lost", nil, func(r *Record) bool {
			return r.Healthy.Retransmissions == 0 || r.Healthy.Drops+r.Healthy.Lost > 0
		}},
		{"healthy-no-timeout", "no timer expires if nothing was lost", nil, func(r *Record) bool {
			return r.Healthy.Timeouts == 0 || r.Healthy.Drops+r.Healthy.Lost > 0
		}},
		{"healthy-as-fast", "Ethereal takes at most 5 % longer than the best opponent", []Class{Healthy}, within((*Record).Behind, behindHealthy)},

		{"notified-in-time", "at most 1.3 times the reference", notified, within((*Record).Ratio, notifiedWithin)},
		{"cut-no-timeout", "no timer expires if no buffer overflowed", cut, func(r *Record) bool {
			return r.Failed.Timeouts == 0 || r.Failed.Drops > 0
		}},
		{"failed-as-fast", "Ethereal takes at most 10 % longer than the best opponent", []Class{Quench, GNMI, Late, Nobody, Flap, Gray, Degraded},
			within((*Record).Behind, behindFailed)},
	}
}

// within returns a property that also holds where there is no ratio.
func within(ratio func(*Record) (float64, bool), limit float64) func(*Record) bool {
	return func(r *Record) bool {
		x, ok := ratio(r)
		return !ok || x <= limit
	}
}

// Violations returns the names of the invariants that a record violates. A case that could not be run violates the
// first alone. What follows a failure is not asked of a run that ended before it.
func Violations(r *Record) []string {
	var out []string
	for _, i := range Invariants() {
		if len(i.Classes) > 0 && (!slices.Contains(i.Classes, r.Class) || r.Subject().AfterEnd) {
			continue
		}
		if !i.Holds(r) {
			out = append(out, i.Name)
			if i.Name == "runs" {
				break
			}
		}
	}
	return out
}
