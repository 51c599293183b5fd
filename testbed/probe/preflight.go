package probe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/checklist"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
)

// Probes of a path in a preflight, and how long one waits for its acknowledgement.
const (
	preflightProbes = 4
	preflightTrip   = 500 * time.Millisecond
)

// Preflight makes every host's agent probe all paths to one host under each other ToR by zero-length RDMA WRITEs, whose
// ACKs have the given priority. The deployment's file says how to reach the agents.
func Preflight(ctx context.Context, f *fabric.Fabric, file string, ackPriority int) ([]checklist.Line, error) {
	d, err := deployment.Load(file)
	if err != nil {
		return nil, err
	}
	if len(d.Hosts) != f.Hosts() {
		return nil, fmt.Errorf("%s: %d hosts for a fabric of %d", file, len(d.Hosts), f.Hosts())
	}
	p := &Prober{
		Fabric: f, Packets: preflightProbes, Timeout: preflightTrip,
		Socket: func(h fabric.NodeID) string { return d.Hosts[h] },
	}
	lines := make([]checklist.Line, f.Hosts())
	found := make([][]Path, f.Hosts())
	var g errgroup.Group
	g.SetLimit(4) // probes are not to make queues
	for h := range f.Hosts() {
		g.Go(func() (err error) {
			if found[h], err = p.probeHost(ctx, fabric.NodeID(h)); err != nil {
				lines[h] = checklist.Line{
					Light: checklist.Red, Subject: f.Name(fabric.NodeID(h)), Check: "paths", Seen: err.Error(),
					Remedy: "start its agent with --listen-socket, or correct hosts in " + file,
				}
			}
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	lines = slices.DeleteFunc(lines, func(l checklist.Line) bool { return l.Subject == "" })
	return append(lines, judgePaths(f, slices.Concat(found...), ackPriority)), nil
}

// judgePaths says in one line how many paths lose probes, and what these have in common.
func judgePaths(f *fabric.Fabric, found []Path, ackPriority int) checklist.Line {
	line := checklist.Line{Light: checklist.Green, Subject: "fabric", Check: "paths"}
	var lossy, clean []Path
	for _, p := range found {
		if p.Lost > 0 {
			lossy = append(lossy, p)
		} else {
			clean = append(clean, p)
		}
	}
	line.Seen = fmt.Sprintf("%d of %d paths answer every probe", len(clean), len(found))
	if len(lossy) == 0 {
		return line
	}
	line.Light = checklist.Red
	one := lossy[0]
	line.Seen += fmt.Sprintf("; from %s to %s by label %d %d of %d are lost", one.From, one.To, one.Label, one.Lost, one.Sent)
	at := "the switches"
	if common := commonSwitches(f, lossy, clean); len(common) > 0 {
		at = strings.Join(common, ", ")
		line.Seen += "; all paths that lose cross " + at + ", and no other does"
	}
	line.Remedy = fmt.Sprintf("see why %s drops: acknowledgements have priority %d and need %d "+
		"--priority-queues (an ethereal switch says so on its standard error); then look for a cable that loses", at, ackPriority, ackPriority+1)
	return line
}

// commonSwitches returns the switches that all lossy paths cross, and no clean one.
func commonSwitches(f *fabric.Fabric, lossy, clean []Path) (names []string) {
	crossed := func(paths []Path) map[fabric.NodeID]int {
		n := map[fabric.NodeID]int{}
		for _, p := range paths {
			src, err := f.NodeByName(p.From)
			dst, err2 := f.NodeByName(p.To)
			if err != nil || err2 != nil {
				continue
			}
			hops, _ := f.Path(nil, f.ToROf(src), f.ToROf(dst), fabric.Label(p.Label))
			for _, h := range hops {
				n[h.From]++
			}
			n[f.ToROf(dst)]++
		}
		return n
	}
	bad, good := crossed(lossy), crossed(clean)
	for i := range f.Switches() {
		if id := fabric.NodeID(f.Hosts() + i); bad[id] == len(lossy) && good[id] == 0 {
			names = append(names, f.Name(id))
		}
	}
	return names
}
