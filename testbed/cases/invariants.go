package cases

import "slices"

// Limits of the invariants.
const (
	maxRatioHealthy  = 1.05 // largest allowed ratio to the best opponent's completion time on a healthy fabric
	maxRatioFailed   = 1.10 // of the best opponent, with a failure
	maxRatioNotified = 1.3  // of the reference, if a link is cut
	maxRatioImpaired = 2    // of the reference, if a link is gray or degraded
)

// Invariant is a property that a record of some classes should have.
type Invariant struct {
	Name    string
	Meaning string
	Classes []Class // classes of cases that must satisfy it; empty: all
	Holds   func(*Record) bool

	// Listed: a violation is worth a look, but is not a fault by itself.
	Listed bool
}

// Invariants returns all invariants.
func Invariants() []Invariant {
	notified, failed := []Class{Quench, GNMI}, []Class{Quench, GNMI, Late, NotNotified, Flap, Gray, Degraded}
	return []Invariant{
		{Name: "runs", Meaning: "every run can be carried out, without panic and within the time limit",
			Holds: func(r *Record) bool { return r.Error == "" && r.Subject() != nil && r.Subject().End != "interrupted" }},
		{Name: "bound", Meaning: "no run is faster than its lower bounds", Holds: notBelowBound},
		{Name: "finishes", Meaning: "the collective completes",
			Holds: func(r *Record) bool { return r.Subject().CCT != nil && r.Healthy.CCT != nil }},

		{Name: "healthy-no-flip", Meaning: "no queue pair leaves a path of a healthy fabric that drops nothing",
			Holds: func(r *Record) bool { return r.Healthy.flips() == 0 || r.Healthy.Drops > 0 }},
		{Name: "healthy-no-drop", Meaning: "a healthy fabric drops only without PFC, and only if a queue reached its limit",
			Holds: func(r *Record) bool { return r.Healthy.Lost == 0 && (r.Healthy.Drops == 0 || dropsExplained(r)) }},
		{Name: "healthy-no-retransmission", Meaning: "nothing is retransmitted on a healthy fabric that drops nothing",
			Holds: func(r *Record) bool {
				return r.Healthy.Retransmissions == 0 || r.Healthy.Drops > 0 || r.impatient(r.Healthy)
			}},
		{Name: "healthy-no-timeout", Meaning: "no timer expires on a healthy fabric that drops nothing",
			Holds: func(r *Record) bool { return r.Healthy.Timeouts == 0 || r.Healthy.Drops > 0 || r.impatient(r.Healthy) }},
		{Name: "healthy-flip-on-loss", Meaning: "no queue pair leaves a path of a healthy fabric whose buffers overflow",
			Holds: func(r *Record) bool { return r.Healthy.flips() == 0 || r.Healthy.Drops == 0 }},
		{Name: "healthy-as-fast", Meaning: "Ethereal takes at most 5 % longer than the best opponent",
			Classes: []Class{Healthy}, Holds: withinLimit((*Record).Behind, maxRatioHealthy)},

		{Name: "notified-in-time", Meaning: "at most 1.3 times the reference",
			Classes: notified, Holds: withinLimit((*Record).Ratio, maxRatioNotified)},
		{Name: "no-timeout", Meaning: "no timer expires if no buffer overflows and no link loses single packets",
			Classes: append(notified, Late, NotNotified, Flap, Degraded),
			Holds:   func(r *Record) bool { return r.Failed.Timeouts == 0 || r.Failed.Drops > 0 || r.impatient(r.Failed) }},
		{Name: "unnotified-in-time", Meaning: "at most 1.3 times the reference", Listed: true,
			Classes: []Class{Late, NotNotified, Flap}, Holds: withinLimit((*Record).Ratio, maxRatioNotified)},
		{Name: "impaired-in-time", Meaning: "at most 2 times the reference", Listed: true,
			Classes: []Class{Gray, Degraded}, Holds: withinLimit((*Record).Ratio, maxRatioImpaired)},
		{Name: "failed-as-fast", Meaning: "Ethereal takes at most 10 % longer than the best opponent", Listed: true,
			Classes: failed, Holds: withinLimit((*Record).Behind, maxRatioFailed)},
	}
}

// notBelowBound compares with nine digits: the results are rounded.
func notBelowBound(r *Record) bool {
	return !slices.ContainsFunc(r.runs(), func(f *Figures) bool {
		return f.CCT != nil && f.bound() != nil && *f.CCT < *f.bound()*(1-1e-9)
	})
}

// impatient reports whether timers expired because packets waited longer than the timer.
func (r *Record) impatient(f *Figures) bool {
	return f.Timeouts > 0 && r.Patient > 0 && int64(f.QueueMax) > r.Patient
}

// dropsExplained reports whether a healthy run's drops can be the buffer's.
func dropsExplained(r *Record) bool {
	return r.Healthy.Pauses == 0 && int64(r.Healthy.QueueMax)+largestPacket >= r.Threshold
}

// largestPacket is the size in bytes of the largest data packet, with its headers.
const largestPacket = 9600 + header

// Faults returns those of the violated invariants whose violation is a fault by itself.
func Faults(violated []string) []string {
	var out []string
	for _, i := range Invariants() {
		if !i.Listed && slices.Contains(violated, i.Name) {
			out = append(out, i.Name)
		}
	}
	return out
}

// withinLimit returns a property that also holds where there is no ratio.
func withinLimit(ratio func(*Record) (float64, bool), limit float64) func(*Record) bool {
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
