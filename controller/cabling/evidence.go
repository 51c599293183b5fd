package cabling

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Place is a port of a node. Port 0 is one that the fabric does not know: ID is
// then the number by which the switch does.
type Place struct {
	Node fabric.NodeID
	Port fabric.PortNo
	ID   uint32
}

// At returns the place of a link's end.
func At(e fabric.End) Place { return Place{Node: e.Node, Port: e.Port} }

// Arrival is a frame that came in at a place and that another sent.
type Arrival struct{ At, From Place }

// Stranger is a frame that came in at a place, from somebody whom the fabric does
// not know.
type Stranger struct {
	At  Place
	Who string
}

// Evidence is what a check found out.
type Evidence struct {
	Received  []Arrival
	Strangers []Stranger
	Unasked   map[fabric.NodeID]error // switches that could not be asked, and why
	Down      map[Place]bool          // ports that the switch calls down
}

// expected returns where a place's cable should lead. ok is false where there
// should be none.
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

// Names writes places for people; nil is [PlainNames].
type Names func(Place) string

// PlainNames writes a place as "tor0 port 3".
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
