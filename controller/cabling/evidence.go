package cabling

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Place is a port of a node. Port 0 is a port that the fabric does not have; ID is then the switch's number of it.
type Place struct {
	Node fabric.NodeID
	Port fabric.PortNo
	ID   uint32
}

// At returns the place of a link's end.
func At(e fabric.End) Place { return Place{Node: e.Node, Port: e.Port} }

// Arrival is a frame's receiving place and its sending place.
type Arrival struct{ At, From Place }

// Stranger is a frame from a sender that the fabric does not have, and the place that received it.
type Stranger struct {
	At  Place
	Who string
}

// Evidence is what a check has observed.
type Evidence struct {
	Received  []Arrival
	Strangers []Stranger
	Unasked   map[fabric.NodeID]error // switches that could not be asked, and why
	Down      map[Place]bool          // ports that the switch reports down
}

// expected returns the place to which a place's cable should lead. ok is false if there should be no cable.
func expected(f *fabric.Fabric, p Place) (_ Place, ok bool) {
	if p.Port == 0 {
		return Place{}, false
	}
	l, ok := f.LinkAt(p.Node, p.Port)
	if !ok {
		return Place{}, false
	}
	return At(f.Link(l).Peer(p.Node)), true
}

// Names formats places for display; nil means [PlainNames].
type Names func(Place) string

// PlainNames formats a place as "tor0 port 3".
func PlainNames(f *fabric.Fabric) Names {
	return func(p Place) string {
		n := f.Node(p.Node)
		switch {
		case p.Port == 0:
			return fmt.Sprintf("%s device port %d (none of the fabric's)", f.Name(p.Node), p.ID)
		case int(p.Port) > n.Ports():
			return fmt.Sprintf("%s port %d (none of the fabric's)", f.Name(p.Node), p.Port)
		case n.Tier == fabric.Host:
			return f.Name(p.Node)
		}
		return fmt.Sprintf("%s port %d", f.Name(p.Node), p.Port)
	}
}
