// Package imbalance reports how evenly the links of a fabric are used: per tier, per group of uplinks among which a
// switch chooses, and which links stand out.
//
// Use is one number per direction of a link (2*link leads away from the hosts, 2*link+1 towards them): a part of
// the capacity, bytes, or any other additive quantity, over one window of time.
package imbalance

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Default thresholds: a link of a group is hot above HotAt times the group's mean, and cold below ColdAt times it.
// In a group whose mean is below Quiet times its tier's mean, no link stands out.
const (
	HotAt  = 1.25
	ColdAt = 0.75
	Quiet  = 0.1
)

// Tier is the use of all links between two tiers in one direction.
type Tier struct {
	Name      string // such as "tor up" or "agg down": the tier of the links' lower ends, and the direction
	Links     int
	Mean, Max float64
	Busiest   int // the link direction with Max (2*link upwards, 2*link+1 downwards); -1: nothing was used
	Hot, Cold []int
}

// Imbalance returns the use of the busiest link divided by the mean, minus 1; 0 if no link was used.
func (t *Tier) Imbalance() float64 {
	if t.Mean <= 0 {
		return 0
	}
	return t.Max/t.Mean - 1
}

// Group is the links over which a switch sends to one tier: its equal-cost choices.
type Group struct {
	Switch      fabric.NodeID
	Up          bool
	Most, Least int // link directions (2*link upwards, 2*link+1 downwards)
	MostUse     float64
	LeastUse    float64
	Mean        float64
	tier        int
	all         []int
}

// Difference returns the difference in use between the most and the least used link, divided by the mean.
func (g *Group) Difference() float64 {
	if g.Mean <= 0 {
		return 0
	}
	return (g.MostUse - g.LeastUse) / g.Mean
}

// Report says how evenly the links of a fabric were used in a window of time.
type Report struct {
	Tiers  []Tier
	Uneven []Group // groups of two or more links, the largest difference in bytes first
}

// Shape groups a fabric's links by the tiers that they connect. It is computed once for many reports.
type Shape struct {
	f      *fabric.Fabric
	names  []string
	tierOf []int // by direction
	groups []Group
}

// Of returns which of a fabric's links lead from which tier to which, for reports about their use.
func Of(f *fabric.Fabric) *Shape {
	s := &Shape{f: f, tierOf: make([]int, 2*f.Links())}
	numbers, groups := map[string]int{}, map[[2]int]int{}
	for d := range s.tierOf {
		l := f.Link(fabric.LinkID(d / 2))
		up := d%2 == 0
		name := f.Node(l.A.Node).Tier.String() + map[bool]string{true: " up", false: " down"}[up]
		n, ok := numbers[name]
		if !ok {
			n = len(s.names)
			numbers[name] = n
			s.names = append(s.names, name)
		}
		s.tierOf[d] = n
		from := l.B.Node
		if up {
			from = l.A.Node
		}
		key := [2]int{int(from), n}
		g, ok := groups[key]
		if !ok {
			g = len(s.groups)
			groups[key] = g
			s.groups = append(s.groups, Group{Switch: from, Up: up, tier: n})
		}
		s.groups[g].all = append(s.groups[g].all, d)
	}
	return s
}

// Tiers returns the tiers' names, in the order of reports.
func (s *Shape) Tiers() []string { return s.names }

// Report compares the use of links. use has a number, such as bytes, for each direction: 2*link upwards, 2*link+1
// downwards.
func (s *Shape) Report(use []float64) Report {
	r := Report{Tiers: make([]Tier, len(s.names))}
	for i := range r.Tiers {
		r.Tiers[i] = Tier{Name: s.names[i], Busiest: -1}
	}
	for d, u := range use {
		t := &r.Tiers[s.tierOf[d]]
		t.Links++
		t.Mean += u
		if u > t.Max {
			t.Max, t.Busiest = u, d
		}
	}
	for i := range r.Tiers {
		r.Tiers[i].Mean /= float64(max(1, r.Tiers[i].Links))
	}
	for _, g := range s.groups {
		// A switch cannot choose among its downlinks.
		if len(g.all) < 2 || !g.Up {
			continue
		}
		g.computeImbalance(use)
		t := &r.Tiers[g.tier]
		if g.Mean <= 0 || g.Mean < Quiet*t.Mean {
			continue
		}
		for _, d := range g.all {
			switch {
			case use[d] > HotAt*g.Mean:
				t.Hot = append(t.Hot, d)
			case use[d] < ColdAt*g.Mean:
				t.Cold = append(t.Cold, d)
			}
		}
		r.Uneven = append(r.Uneven, g)
	}
	slices.SortStableFunc(r.Uneven, func(a, b Group) int { return cmp.Compare(b.MostUse-b.LeastUse, a.MostUse-a.LeastUse) })
	return r
}

func (g *Group) computeImbalance(use []float64) {
	g.Most, g.Least = g.all[0], g.all[0]
	for _, d := range g.all {
		g.Mean += use[d]
		if use[d] > use[g.Most] {
			g.Most = d
		}
		if use[d] < use[g.Least] {
			g.Least = d
		}
	}
	g.Mean /= float64(len(g.all))
	g.MostUse, g.LeastUse = use[g.Most], use[g.Least]
}

// DirName returns the name of a link's direction, the sender first: "tor0>agg1". d is 2*link upwards, 2*link+1
// downwards.
func DirName(f *fabric.Fabric, d int) string {
	l := f.Link(fabric.LinkID(d / 2))
	from, to := l.A.Node, l.B.Node
	if d%2 == 1 {
		from, to = to, from
	}
	return f.Name(from) + ">" + f.Name(to)
}

// Text returns the report about one tier, by its index in Report.Tiers, as lines of text for a terminal.
func (r *Report) Text(f *fabric.Fabric, tier int) []string {
	t := &r.Tiers[tier]
	if t.Busiest < 0 {
		return nil
	}
	lines := []string{fmt.Sprintf("busiest %s, %.3f of the mean; %d links hot, %d cold", DirName(f, t.Busiest), t.Max/t.Mean, len(t.Hot), len(t.Cold))}
	for _, g := range r.Uneven {
		if g.tier == tier && g.Difference() >= 0.05 {
			lines = append(lines, fmt.Sprintf("most uneven: %s, %s %.2f and %s %.2f of its mean", f.Name(g.Switch),
				DirName(f, g.Most), g.MostUse/g.Mean, DirName(f, g.Least), g.LeastUse/g.Mean))
			break
		}
	}
	return lines
}
