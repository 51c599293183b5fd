package cases

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// Figures are the measured values of one run of a case, as in [report.Result].
type Figures struct {
	Scheme string   `json:"scheme"`
	CCT    *float64 `json:"cct_us"`   // collective completion time; nil: not finished
	Bound  *float64 `json:"bound_us"` // lower bound of the completion time; nil: hosts are unreachable
	// StepBound is at least Bound; nil in records of builds without it.
	StepBound *float64 `json:"step_bound_us,omitempty"`
	End       string   `json:"end"`

	Flips           map[string]int `json:"flips,omitempty"` // number of moves of queue pairs, by reason
	Retransmissions int64          `json:"retransmissions"`
	Timeouts        int64          `json:"timeouts"`
	Drops           int64          `json:"drops"` // packets dropped in switches, without those that the failure lost
	Lost            int64          `json:"lost"`  // packets lost on cut or gray links
	NAKs            int64          `json:"naks"`
	Quenches        int64          `json:"quenches"`
	Marked          int64          `json:"ecn_marked"`
	Pauses          int64          `json:"pauses"`
	QueueMax        float64        `json:"queue_max"` // largest queue of any port, in bytes of data
	Hops            uint64         `json:"packet_hops"`
	WallMS          float64        `json:"wall_ms"`
	Run             string         `json:"run_sha256"`
	Events          string         `json:"events_sha256"`
	AfterEnd        bool           `json:"after_end,omitempty"` // the failure happened after the run's end
}

func figuresOf(r *report.Result) *Figures {
	f := &Figures{
		Scheme: r.Scheme, CCT: r.CCT, Bound: r.Bound, StepBound: r.StepBound, End: string(r.End),
		Retransmissions: r.Retransmissions, Timeouts: r.Timeouts, Drops: r.Drops, Lost: r.LostToFailure, NAKs: r.NAKs,
		Quenches: r.Quenches, Marked: r.Marked, Pauses: r.Pauses, Hops: r.PacketHops, WallMS: r.WallMS,
		Events: r.EventsSHA256, AfterEnd: r.FirstFailure != nil && r.FirstFailure.AfterEnd,
	}
	if len(r.QueueMax) > 0 {
		f.QueueMax = slices.Max(r.QueueMax)
	}
	for _, e := range r.FlipRecords {
		if f.Flips == nil {
			f.Flips = map[string]int{}
		}
		f.Flips[e.Reason]++
	}
	return f
}

// bound returns the larger bound; nil: none.
func (f *Figures) bound() *float64 {
	if f.StepBound != nil {
		return f.StepBound
	}
	return f.Bound
}

// flips returns the number of all flips, without returns to repaired paths.
func (f *Figures) flips() int {
	sum := 0
	for why, n := range f.Flips {
		if why != "return" {
			sum += n
		}
	}
	return sum
}

// Record is the result of a case: one line of JSON.
type Record struct {
	Name    string `json:"name"`
	Seed    uint64 `json:"seed"`
	Index   int    `json:"index"`
	Class   Class  `json:"class"`
	What    string `json:"what"`
	Program string `json:"program"`

	Fabric     string `json:"fabric"`
	Collective string `json:"collective"`
	Control    string `json:"congestion_control"`

	Allowed float64 `json:"allowed_us"` // time that a failure may add: see [Case.Allowed]
	Trip    float64 `json:"trip_us"`    // see [Case.Trip]
	// Threshold and Patient are [Case.Threshold] and [Case.Patient].
	Threshold int64 `json:"threshold"`
	Patient   int64 `json:"patient"`

	Healthy   *Figures   `json:"healthy,omitempty"`   // Ethereal's run on the healthy fabric
	Failed    *Figures   `json:"failed,omitempty"`    // Ethereal's run with the failure
	Opponents []*Figures `json:"opponents,omitempty"` // other schemes, with the failure if there is one

	Error    string   `json:"error,omitempty"` // why a run could not be carried out
	Violated []string `json:"violated,omitempty"`

	reference *float64 // healthy completion time to compare with; nil: Healthy's
}

// clone copies what [commonCases] changes.
func (r *Record) clone() *Record {
	out := *r
	for _, f := range []**Figures{&out.Healthy, &out.Failed} {
		if *f != nil {
			copied := **f
			*f = &copied
		}
	}
	return &out
}

// drops reports whether a buffer overflowed in one of Ethereal's runs.
func (r *Record) drops() bool {
	return r.Healthy != nil && r.Healthy.Drops > 0 || r.Failed != nil && r.Failed.Drops > 0
}

// runs returns all runs' figures.
func (r *Record) runs() []*Figures {
	var out []*Figures
	for _, f := range append([]*Figures{r.Healthy, r.Failed}, r.Opponents...) {
		if f != nil {
			out = append(out, f)
		}
	}
	return out
}

// Subject returns Ethereal's run with the failure, or the healthy one of a case without failures.
func (r *Record) Subject() *Figures {
	if r.Class == Healthy {
		return r.Healthy
	}
	return r.Failed
}

// Reference is the completion time in microseconds that Ethereal's is compared with: the step bound, or if that is
// later the healthy run's time and what the class allows. ok is false without a bound.
func (r *Record) Reference() (us float64, ok bool) {
	s := r.Subject()
	if s == nil || s.bound() == nil {
		return 0, false
	}
	us = *s.bound()
	if r.Class == Healthy {
		return us, true
	}
	switch {
	case r.reference != nil:
		us = max(us, *r.reference+r.Allowed)
	case r.Healthy != nil && r.Healthy.CCT != nil:
		us = max(us, *r.Healthy.CCT+r.Allowed)
	}
	return us, true
}

// Ratio is Ethereal's completion time over the reference.
func (r *Record) Ratio() (ratio float64, ok bool) {
	us, ok := r.Reference()
	if s := r.Subject(); ok && s.CCT != nil {
		return *s.CCT / us, true
	}
	return 0, false
}

// Best is the fastest opponent that finished; nil: none.
func (r *Record) Best() *Figures {
	var best *Figures
	for _, o := range r.Opponents {
		if o.CCT != nil && (best == nil || *o.CCT < *best.CCT) {
			best = o
		}
	}
	return best
}

// Behind is Ethereal's completion time over the best opponent's.
func (r *Record) Behind() (ratio float64, ok bool) {
	best, s := r.Best(), r.Subject()
	if best == nil || s == nil || s.CCT == nil {
		return 0, false
	}
	return *s.CCT / *best.CCT, true
}
