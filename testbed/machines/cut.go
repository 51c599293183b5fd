package machines

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Cut returns the machine of each node. Pods, or ToRs with their hosts where there are two tiers, go to machines in order,
// as evenly as they divide. A core or spine goes where most of its links end, among equals to the machine with fewest of them.
func Cut(f *fabric.Fabric, machines int) ([]int, error) {
	spec := f.Spec()
	whole, what := f.ToRs(), "ToRs"
	if f.ThreeTier() {
		whole, what = spec.Pods, "pods"
	}
	if machines < 1 || machines > whole {
		return nil, fmt.Errorf("%d machines for a fabric of %d %s, which stay whole; write 1 to %d", machines, whole, what, whole)
	}
	at := make([]int, f.Nodes())
	for i := range f.ToRs() {
		unit := i
		if f.ThreeTier() {
			unit = i / spec.ToRsPerPod
		}
		tor := f.ToRID(i)
		at[tor] = unit * machines / whole
		first, count := f.HostsOf(tor)
		for h := range count {
			at[int(first)+h] = at[tor]
		}
	}
	top := make([]int, machines) // cores or spines of each machine
	place := func(id fabric.NodeID) {
		links := make([]int, machines)
		for p := 1; p <= f.Node(id).Ports(); p++ {
			l, ok := f.LinkAt(id, fabric.PortNo(p))
			if !ok {
				continue
			}
			links[at[other(f.Link(l), id)]]++
		}
		best := 0
		for m := range machines {
			if links[m] > links[best] || links[m] == links[best] && top[m] < top[best] {
				best = m
			}
		}
		at[id] = best
		top[best]++
	}
	for i := range f.Aggs() {
		if f.ThreeTier() {
			at[f.AggID(i)] = i / spec.AggsPerPod * machines / whole
		} else {
			place(f.AggID(i))
		}
	}
	for i := range f.Cores() {
		place(f.CoreID(i))
	}
	return at, nil
}

// other returns the node at the other end.
func other(l *fabric.Link, id fabric.NodeID) fabric.NodeID {
	if l.A.Node == id {
		return l.B.Node
	}
	return l.A.Node
}

// Crossing returns the links whose ends are on two machines.
func Crossing(f *fabric.Fabric, at []int) []fabric.LinkID {
	var out []fabric.LinkID
	for i := range f.Links() {
		if l := f.Link(fabric.LinkID(i)); at[l.A.Node] != at[l.B.Node] {
			out = append(out, fabric.LinkID(i))
		}
	}
	return out
}
