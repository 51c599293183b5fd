package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// maxCutOff is the number of hosts that [Run.CutOff] names.
const maxCutOff = 4

// CutOff names the hosts that have no link at a time of the run, and says since when the first of them has none; "" if
// each host has one. A link that is cut in one direction carries no messages. A host of a server with several GPUs goes
// on over another's link.
func (r Run) CutOff(at fabric.Time) string {
	f := r.Fabric
	down := make([]fabric.Time, f.HostLinks()) // when the link was cut, plus 1; 0: it is not
	for _, e := range r.Events {
		if int(e.Link) >= len(down) || e.At > at {
			continue
		}
		switch {
		case e.Up:
			down[e.Link] = 0
		case e.Cuts() && down[e.Link] == 0:
			down[e.Link] = e.At + 1
		}
	}
	// since returns when the last link of a host was cut, plus 1.
	since := func(h fabric.NodeID) (last fabric.Time) {
		for q := range f.Planes() {
			t := down[f.HostLink(h, q)]
			if t == 0 {
				return 0
			}
			last = max(last, t)
		}
		return last
	}
	if s := r.Scenario.Servers; s.Grouped() {
		own := since
		since = func(h fabric.NodeID) (last fabric.Time) { // of the server, all of whose hosts have the same
			for rank := range f.Hosts() {
				if s.Host(f, rank) != h {
					continue
				}
				for gpu := range s.GPUs {
					t := own(s.Host(f, rank/s.GPUs*s.GPUs+gpu))
					if t == 0 {
						return 0
					}
					last = max(last, t)
				}
			}
			return last
		}
	}
	var first fabric.Time
	var names []string
	var only fabric.NodeID
	for h := range fabric.NodeID(f.Hosts()) {
		t := since(h)
		if t == 0 {
			continue
		}
		if len(names) == 0 || t < first {
			first, only = t, h
		}
		names = append(names, f.Name(h))
	}
	when := func() string { return (first - 1).String() }
	switch n := len(names); {
	case n == 0:
		return ""
	case n > 1:
		if n > maxCutOff {
			names = append(slices.Clone(names[:maxCutOff]), fmt.Sprintf("%d more", n-maxCutOff))
		}
		last := len(names) - 1
		return fmt.Sprintf("%s and %s are cut off: they have no link, %s none since %s", strings.Join(names[:last], ", "), names[last], f.Name(only), when())
	case f.Planes() == 1:
		return fmt.Sprintf("%s is cut off: its only link %s is cut since %s", names[0], f.LinkName(f.HostLink(only, 0)), when())
	}
	return fmt.Sprintf("%s is cut off: all of its %d links are cut since %s", names[0], f.Planes(), when())
}
