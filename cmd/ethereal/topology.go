package main

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// topology is the JSON form of a fabric: what a program that builds it needs.
type topology struct {
	Version int             `json:"version"` // of this form: 1
	Kind    string          `json:"kind"`
	Nodes   []topologyNode  `json:"nodes"`  // by id
	Links   []topologyLink  `json:"links"`  // by id
	Labels  []topologyLabel `json:"labels"` // the path labels in use
}

type topologyNode struct {
	ID    fabric.NodeID  `json:"id"`
	Name  string         `json:"name"`
	Tier  string         `json:"tier"` // host, tor, agg or core
	Pod   int            `json:"pod"`  // -1 for cores and spines
	Index int            `json:"index"`
	MAC   string         `json:"mac"`
	Ports []topologyPort `json:"ports"`

	IPv4    *netip.Addr   `json:"ipv4,omitempty"`    // of a host
	IPv6    *netip.Addr   `json:"ipv6,omitempty"`    // of a host
	Prefix4 *netip.Prefix `json:"prefix4,omitempty"` // of a ToR's hosts
	Prefix6 *netip.Prefix `json:"prefix6,omitempty"` // of a ToR's hosts
}

type topologyPort struct {
	Port     fabric.PortNo `json:"port"` // P4 port number
	Name     string        `json:"name"` // in gNMI
	Up       bool          `json:"up"`   // faces the cores
	Link     string        `json:"link"`
	Peer     string        `json:"peer"`
	PeerPort fabric.PortNo `json:"peer_port"`
}

type topologyLink struct {
	ID      fabric.LinkID `json:"id"`
	Name    string        `json:"name"`
	A       topologyEnd   `json:"a"` // the end nearer the hosts
	B       topologyEnd   `json:"b"`
	RateBps int64         `json:"rate_bps"`
	DelayPs int64         `json:"delay_ps"` // propagation, one way
}

type topologyEnd struct {
	Node string        `json:"node"`
	Port fabric.PortNo `json:"port"`
}

// topologyLabel is the uplinks, counted from 0, that packets with a label take.
type topologyLabel struct {
	Label     fabric.Label `json:"label"`
	ToRUplink *int         `json:"tor_uplink,omitempty"` // not in a dragonfly
	AggUplink *int         `json:"agg_uplink,omitempty"` // three tiers only
	Pod       *int         `json:"pod,omitempty"`        // dragonfly only
}

func newTopology(f *fabric.Fabric) topology {
	t := topology{Version: 1, Kind: f.Spec().Kind}
	for i := range f.Nodes() {
		n := f.Node(fabric.NodeID(i))
		mac := f.MAC(n.ID)
		node := topologyNode{
			ID: n.ID, Name: f.Name(n.ID), Tier: n.Tier.String(), Pod: n.Pod, Index: n.Index, MAC: net.HardwareAddr(mac[:]).String(),
		}
		for p := fabric.PortNo(1); int(p) <= n.Ports(); p++ {
			link := n.Link(p)
			peer := f.Link(link).Peer(n.ID)
			node.Ports = append(node.Ports, topologyPort{
				Port: p, Name: fmt.Sprintf("Ethernet%d", p), Up: p >= n.FirstUplink(), Link: f.LinkName(link),
				Peer: f.Name(peer.Node), PeerPort: peer.Port,
			})
		}
		switch n.Tier {
		case fabric.Host:
			node.IPv4, node.IPv6 = new(f.HostAddr4(n.ID)), new(f.HostAddr6(n.ID))
		case fabric.ToR:
			node.Prefix4, node.Prefix6 = new(f.ToRPrefix4(n.ID)), new(f.ToRPrefix6(n.ID))
		}
		t.Nodes = append(t.Nodes, node)
	}
	end := func(e fabric.End) topologyEnd { return topologyEnd{f.Name(e.Node), e.Port} }
	for i := range f.Links() {
		l := f.Link(fabric.LinkID(i))
		t.Links = append(t.Links, topologyLink{
			ID: l.ID, Name: f.LinkName(l.ID), A: end(l.A), B: end(l.B), RateBps: int64(l.Rate), DelayPs: int64(l.Delay),
		})
	}
	for l := range f.LabelSpan() {
		u, v, ok := f.SplitLabel(l)
		if !ok {
			continue
		}
		label := topologyLabel{Label: l, ToRUplink: &u}
		switch {
		case !f.Clos():
			label.ToRUplink, label.Pod = nil, &u
		case f.ThreeTier():
			label.AggUplink = &v
		}
		t.Labels = append(t.Labels, label)
	}
	return t
}
