package hostagent

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// linkState is the core's knowledge of one link.
type linkState struct {
	evidence evidence // that it is dead; 0: alive
	weight   uint32   // by its rate, of fullRate; valid only for links in slowLinks
	push     pushedLink
	quench   quenchedLink
}

// evidence is why a link counts as dead. Each bit is set and cleared by one detector alone.
type evidence uint8

const (
	reported   evidence = 1 << iota // a controller reported the link dead
	suspected                       // by a controller, from all agents' time-outs
	quenched                        // by a switch, within the memory
	probedDead                      // this host's path probes found the link dead
)

func (ps *paths) link(id fabric.LinkID) *linkState {
	l := ps.links[id]
	if l == nil {
		l = new(linkState)
		ps.links[id] = l
	}
	return l
}

// markChanged records that a link's state may have changed: the next movePieces recomputes the paths over it.
func (ps *paths) markChanged(id fabric.LinkID) {
	at, listed := slices.BinarySearch(ps.deadLinks, id)
	switch dead := ps.links[id].evidence != 0; {
	case dead && !listed:
		ps.deadLinks = slices.Insert(ps.deadLinks, at, id)
		ps.noteCutOff(id, 1)
	case !dead && listed:
		ps.deadLinks = slices.Delete(ps.deadLinks, at, at+1)
		ps.noteCutOff(id, -1)
	}
	for _, d := range ps.destinations {
		if _, ok := ps.pathsOver(d, id); ok {
			d.dirty = true
		}
	}
}

// noteCutOff updates the count of another host's dead links: see [Core.towards].
func (ps *paths) noteCutOff(id fabric.LinkID, change int) {
	host := ps.fabric.Link(id).A.Node
	if ps.fabric.Node(host).Tier != fabric.Host || host == ps.cfg.Host {
		return
	}
	if ps.cutOff[host] += change; ps.cutOff[host] == 0 {
		delete(ps.cutOff, host)
		return
	}
	rack := ps.lookup(ps.fabric.ToROf(host), wholeRack)
	if rack == nil {
		return
	}
	var theirs *destination
	for p, next := rack.first, (*piece)(nil); p != nil; p = next {
		if next = p.next; p.host != host {
			continue
		}
		if theirs == nil {
			theirs = ps.destination(rack.tor, host)
		}
		rack.unlink(p)
		rack.bytes[p.path] -= p.left
		p.race = nil
		p.dst = theirs
		theirs.link(p)
		theirs.bytes[p.path] += p.left
		theirs.used.set(int(p.path))
	}
}
