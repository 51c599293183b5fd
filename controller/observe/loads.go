package observe

import (
	"slices"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/imbalance"
)

// Limits of reading counters.
const (
	maxUneven         = 3 // maximum number of unevenly loaded switches in the status
	maxFailedReadings = 3 // failed readings after which the last one no longer counts
)

// Loads computes the links' loads from the switches' counters of sent bytes. What hosts send is not counted.
type Loads struct {
	shape *imbalance.Shape
	stale time.Duration // age at which a reading no longer counts

	mu      sync.Mutex
	bytes   []uint64    // last reading, by direction
	read    []time.Time // time of it; zero: none yet
	rates   []float64   // bytes per second between the last two readings
	busiest float64     // highest rate so far
}

// NewLoads returns the loads of a fabric whose counters are read at an interval.
func NewLoads(f *fabric.Fabric, every time.Duration) *Loads {
	dirs := 2 * f.Links()
	return &Loads{
		shape: imbalance.Of(f), stale: maxFailedReadings * ReadWithin(every),
		bytes: make([]uint64, dirs), read: make([]time.Time, dirs), rates: make([]float64, dirs),
	}
}

// ReadWithin returns the time allowed for a switch's answer, if counters are read at that interval.
func ReadWithin(every time.Duration) time.Duration { return max(every, time.Second) }

// Store stores a reading of a counter of sent bytes. dir is the link's direction: 2*link away from the hosts, 2*link+1
// towards them. A counter that fell was restarted.
func (l *Loads) Store(dir int, now time.Time, bytes uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := l.read[dir]; !last.IsZero() && now.After(last) && bytes >= l.bytes[dir] {
		l.rates[dir] = float64(bytes-l.bytes[dir]) / now.Sub(last).Seconds()
		l.busiest = max(l.busiest, l.rates[dir])
	} else {
		l.rates[dir] = 0
	}
	l.bytes[dir], l.read[dir] = bytes, now
}

// Rates returns the present rates by link direction, and the highest rate so far, in bytes per second. unknown marks
// the directions that were not read recently, such as those of a switch that does not answer; their rate is 0.
func (l *Loads) Rates() (rates []float64, busiest float64, unknown []bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rates, unknown = slices.Clone(l.rates), make([]bool, len(l.rates))
	for dir, at := range l.read {
		if at.IsZero() || time.Since(at) > l.stale {
			rates[dir], unknown[dir] = 0, true
		}
	}
	return rates, l.busiest, unknown
}

// UnreadSwitches returns the names of the switches with an unknown direction.
func UnreadSwitches(f *fabric.Fabric, unknown []bool) []string {
	var names []string
	for dir, is := range unknown {
		l := f.Link(fabric.LinkID(dir / 2))
		from := l.A.Node
		if dir%2 == 1 {
			from = l.B.Node
		}
		if is && int(from) >= f.Hosts() { // hosts' sending is not counted
			names = append(names, f.Name(from))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// SendDirection returns the direction in which a port sends: 2*link away from the hosts, 2*link+1 towards them.
func SendDirection(f *fabric.Fabric, node fabric.NodeID, port fabric.PortNo) int {
	l := f.Link(f.Node(node).Link(port))
	if l.A.Node == node {
		return int(2 * l.ID)
	}
	return int(2*l.ID + 1)
}

// TierLoad is how evenly the links of a tier are used in one direction, since the previous reading of the counters.
type TierLoad struct {
	Tier      string   `json:"tier"` // tier and direction, such as "tor up"
	Mean      float64  `json:"mean_bytes_per_second"`
	Max       float64  `json:"max_bytes_per_second"`
	Imbalance float64  `json:"imbalance"` // load of the busiest link over the mean, minus 1
	Busiest   string   `json:"busiest,omitempty"`
	Hot       []string `json:"hot,omitempty"`  // uplinks with more than 1.25 times the mean of their switch
	Cold      []string `json:"cold,omitempty"` // uplinks with less than 0.75 times the mean of their switch
}

// UnevenSwitch is a switch with uneven uplinks.
type UnevenSwitch struct {
	Switch     string  `json:"switch"`
	Most       string  `json:"most"`
	Least      string  `json:"least"`
	Difference float64 `json:"difference"` // difference of the most and least used uplink's load, over the mean
}

// LoadStatus is a summary of the links' loads.
type LoadStatus struct {
	Tiers  []TierLoad     `json:"tiers"`
	Uneven []UnevenSwitch `json:"most_uneven,omitempty"` // by the difference in bytes between two uplinks
	Unread []string       `json:"unread,omitempty"`      // switches whose counters were not read recently: their links count as idle
}

// Status summarises the loads.
func (l *Loads) Status(f *fabric.Fabric) *LoadStatus {
	if l == nil {
		return nil
	}
	rates, _, unknown := l.Rates()
	report := l.shape.Report(rates)
	s := &LoadStatus{Unread: UnreadSwitches(f, unknown)}
	names := func(dirs []int) (out []string) {
		for _, d := range dirs {
			out = append(out, imbalance.DirName(f, d))
		}
		return out
	}
	for i := range report.Tiers {
		t := &report.Tiers[i]
		if t.Name == "host up" {
			continue // not counted
		}
		x := TierLoad{Tier: t.Name, Mean: t.Mean, Max: t.Max, Imbalance: t.Imbalance(), Hot: names(t.Hot), Cold: names(t.Cold)}
		if t.Busiest >= 0 {
			x.Busiest = imbalance.DirName(f, t.Busiest)
		}
		s.Tiers = append(s.Tiers, x)
	}
	for _, g := range report.Uneven[:min(maxUneven, len(report.Uneven))] {
		if g.Difference() > 0 {
			s.Uneven = append(s.Uneven, UnevenSwitch{f.Name(g.Switch), imbalance.DirName(f, g.Most), imbalance.DirName(f, g.Least), g.Difference()})
		}
	}
	return s
}
