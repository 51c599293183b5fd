package cabling

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Place is a port of a node. Port 0 means a port that the fabric file does not have; ID is then the switch's own number
// for it.
type Place struct {
	Node fabric.NodeID
	Port fabric.PortNo
	ID   uint32
}

// PlaceOf returns the node and port of a link's end.
func PlaceOf(e fabric.End) Place { return Place{Node: e.Node, Port: e.Port} }

// Arrival is a received frame: the port that received it, and the port that sent it.
type Arrival struct{ At, From Place }

// Stranger is a frame from a sender that is not in the fabric file, and the port that received it.
type Stranger struct {
	At  Place
	Who string
}

// Evidence is what a cabling check has observed: frames received, switches not reached, ports down.
type Evidence struct {
	Received  []Arrival
	Strangers []Stranger
	Unasked   map[fabric.NodeID]error // switches that could not be reached, and the error
	Down      map[Place]bool          // ports that the switch reports down
}

// plannedPeer returns the place to which a place's cable should lead. ok is false if there should be no cable.
func plannedPeer(f *fabric.Fabric, p Place) (_ Place, ok bool) {
	if p.Port == 0 {
		return Place{}, false
	}
	l, ok := f.LinkAt(p.Node, p.Port)
	if !ok {
		return Place{}, false
	}
	return PlaceOf(f.Link(l).Peer(p.Node)), true
}

// Names is a function that formats places for display; nil means [PlainNames].
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
