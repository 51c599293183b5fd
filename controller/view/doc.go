// Package view is the page that shows a fabric: its links and queues over time, its flows, failures, and the
// reactions to them. It shows finished runs, from a [Page], and a live fabric, by [Tick]s that the page's server
// sends. This package has the page's data and writes the page: [HTML] as one file, [ServedHTML] for the server in
// package viewhttp. It opens no sockets.
package view

import "github.com/ethereal-fabric/ethereal/fabric"

// Page is the content of the page.
type Page struct {
	Title   string `json:"title"`
	Version string `json:"version"`
	Live    bool   `json:"live"` // the server sends [Tick]s
	Runs    []*Run `json:"runs"`

	Session string `json:"session,omitempty"` // of the live feed
	Tables  bool   `json:"tables,omitempty"`  // the server knows the switches' tables
	Traces  bool   `json:"traces,omitempty"`  // the server has the runs' traces
}

// Run is a run, or the known state of a live fabric. Times are microseconds from its start. Nodes, links and
// directions are numbered: direction 2*l of link l leads away from the hosts, 2*l+1 towards them.
type Run struct {
	Title string      `json:"title"`
	Facts [][2]string `json:"facts"`
	End   float64     `json:"end"`

	Nodes []Node   `json:"nodes"`
	Links [][2]int `json:"links"` // the end nearer the hosts first

	// Counters per tick: direction d of tick k is at k*2*links + d.
	Ticks     []float64 `json:"ticks"`      // end of each
	Use       []byte    `json:"use"`        // used part of the capacity, in 1/250
	Queue     []byte    `json:"queue"`      // longest queue, in units of QueueUnit bytes: two bytes each, little-endian
	QueueUnit float64   `json:"queue_unit"` // bytes

	Marks  []int   `json:"marks"`  // triples: tick, direction, packets marked there
	Events []Event `json:"events"` // in order of time
	Flows  []Flow  `json:"flows"`  // by start
	Phases []Phase `json:"phases"`
	Left   int     `json:"left"` // number of flows and events left out for lack of room

	Balance []Balance `json:"balance"` // by tier of links

	Trace string `json:"trace,omitempty"` // file that it was read from, if that is a Perfetto trace
}

// Node is a host or a switch.
type Node struct {
	Name string `json:"n"`
	Tier int    `json:"t"` // 0: host
	Pod  int    `json:"p"`
	ToR  int    `json:"r"` // of a host: its ToR; else -1
}

// Event is what happens at one moment.
type Event struct {
	T     float64 `json:"t"`
	Kind  string  `json:"k"`
	Node  int     `json:"n"`           // -1: none
	Dir   int     `json:"d"`           // -1: none
	Count int64   `json:"c,omitempty"` // packets; 0 means one
	QP    uint64  `json:"q,omitempty"`
	Text  string  `json:"x,omitempty"`
}

// Flow is a message, a piece of one, or a probe.
type Flow struct {
	Kind  string  `json:"k"`
	Src   int     `json:"s"`
	Dst   int     `json:"d"`
	Begin float64 `json:"b"`
	End   float64 `json:"e"`
	Bytes int64   `json:"z"`
	QP    uint64  `json:"q,omitempty"`
	Path  []int   `json:"p,omitempty"` // nodes; empty: each packet has its own path, or switches chose it
	Text  string  `json:"x,omitempty"`
}

// Phase is a step of a collective at a host.
type Phase struct {
	Node  int     `json:"n"`
	ID    uint64  `json:"i"`
	Begin float64 `json:"b"`
	End   float64 `json:"e"`
}

// Balance is how evenly the links of a tier were used.
type Balance struct {
	Name      string    `json:"name"`
	Imbalance []float64 `json:"imbalance"` // per tick: busiest over mean, minus 1; 0 where almost nothing was used
	Text      []string  `json:"text"`      // of the whole run
}

// Tick is the news of a live fabric.
type Tick struct {
	T      float64     `json:"t"`     // us
	Use    []byte      `json:"use"`   // by direction, in 1/250 of the capacity
	Queue  []byte      `json:"queue"` // as in [Run]; empty if queues are not measured
	Events []Event     `json:"events,omitempty"`
	State  []string    `json:"state,omitempty"` // by link: "", "down", "drained", "flapping" or "suspected"
	Facts  [][2]string `json:"facts,omitempty"` // names and present values
	Probed []Flow      `json:"probed,omitzero"` // all recently probed paths; nil: unchanged
	// Largest are all pairs of hosts with the most traffic now; nil: unchanged.
	Largest []Flow `json:"largest,omitzero"`
}

// Graph returns the nodes and links of a fabric.
func Graph(f *fabric.Fabric) (nodes []Node, links [][2]int) {
	for id := range fabric.NodeID(f.Nodes()) {
		n := f.Node(id)
		node := Node{Name: f.Name(id), Tier: int(n.Tier), Pod: n.Pod, ToR: -1}
		if n.Tier == fabric.Host {
			node.ToR = int(f.ToROf(id))
		}
		nodes = append(nodes, node)
	}
	for l := range fabric.LinkID(f.Links()) {
		link := f.Link(l)
		links = append(links, [2]int{int(link.A.Node), int(link.B.Node)})
	}
	return nodes, links
}
