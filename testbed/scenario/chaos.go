package scenario

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Drawn returns the events of the case in a run with that seed, in order of time; each Chaos is replaced by the
// failures that the seed draws.
func (c Failure) Drawn(f *fabric.Fabric, seed uint64) []Event {
	var out []Event
	for i, e := range c.Events {
		if e.Action == Chaos {
			out = append(out, e.failures(f, rand.New(rand.NewPCG(seed, 0x6368616f73+uint64(i))))...) // "chaos"
		} else {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return out
}

// failures draws the failures of a Chaos. Of ten failures one is a switch above the ToRs that dies, two are links
// that silently lose all packets, and seven are links that are cut. Each begins within its period and ends within
// Down. At most two overlap, and these have no switch in common: if a host were cut off, it could only wait, which
// proves nothing.
func (e Event) failures(f *fabric.Fabric, rng *rand.Rand) []Event {
	var links, switches []Event // that may fail; a host has only one link
	for l := f.HostLinks(); l < f.Links(); l++ {
		links = append(links, Event{Link: f.LinkName(fabric.LinkID(l))})
	}
	for i := range f.Switches() {
		if id := fabric.NodeID(f.Hosts() + i); f.Node(id).Tier != fabric.ToR {
			switches = append(switches, Event{Node: f.Name(id)})
		}
	}
	if len(links) == 0 {
		return nil
	}
	if len(switches) == 0 { // of a dragonfly all have hosts
		switches = links
	}
	var out []Event
	var ends fabric.Time        // end of the previous failure
	var touched []fabric.NodeID // its nodes
	for i := range fabric.Time(e.Times) {
		places, action, loss, detection := links, Cut, Share(0), e.Detection
		switch rng.IntN(10) {
		case 0:
			places = switches
		case 1, 2:
			action, loss, detection = Gray, 1, 0
		}
		at := e.At + i*e.Period + fabric.Time(rng.Int64N(int64(e.Period)))
		lasts := 1 + fabric.Time(rng.Int64N(int64(e.Down)))
		place := places[rng.IntN(len(places))]
		for tries := 0; at <= ends && slices.ContainsFunc(place.nodes(f), func(id fabric.NodeID) bool { return slices.Contains(touched, id) }); tries++ {
			if place = places[rng.IntN(len(places))]; tries == 100 { // a small fabric: place it after the previous one
				at = ends + 1
			}
		}
		touched, ends = place.nodes(f), at+lasts
		down, up := place, place
		down.At, down.Action, down.Loss, down.Detection = at, action, loss, detection
		up.At, up.Action, up.Detection = ends, Restore, detection
		out = append(out, down, up)
	}
	return out
}

// nodes returns the nodes at the ends of an event's links.
func (e Event) nodes(f *fabric.Fabric) (out []fabric.NodeID) {
	links, _ := e.Links(f, 0) // the names come from the fabric
	for _, l := range links {
		out = append(out, f.Link(l).A.Node, f.Link(l).B.Node)
	}
	return out
}
