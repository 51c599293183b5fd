// Package view is the page that shows a fabric: its links and queues over time, its flows, failures, and the
// reactions to them. It shows finished runs, from a [Page], and a live fabric, by [Tick]s that the page's server
// sends. This package has the page's data and writes the page: [HTML] as one file, [ServedHTML] for the server in
// package viewhttp. It opens no sockets.
package view

import "github.com/ethereal-fabric/ethereal/fabric"

// Page is the content of the web page that shows runs or a live fabric.
type Page struct {
	Title   string `json:"title"`
	Version string `json:"version"`
	Live    bool   `json:"live"` // the page is live: the server sends [Tick]s
	Runs    []*Run `json:"runs"`

	Session string `json:"session,omitempty"` // identifies the live feed of [Tick]s
	Tables  bool   `json:"tables,omitempty"`  // the server knows the switches' tables
	Traces  bool   `json:"traces,omitempty"`  // the server has the runs' traces
}

// Run is one run, or the state of a live fabric, as the web page shows it. Times are in microseconds from its start.
// Nodes, links and link directions are numbers: direction 2*l of link l leads away from the hosts, 2*l+1 towards them.
type Run struct {
	Title string      `json:"title"`
	Facts [][2]string `json:"facts"`
	End   float64     `json:"end"`

	Nodes []Node   `json:"nodes"`
	Links [][2]int `json:"links"` // nodes of each link, the end nearer the hosts first

	// Counters per tick: direction d of tick k is at k*2*links + d.
	Ticks     []float64 `json:"ticks"`      // end of each
	Use       []byte    `json:"use"`        // used share of the capacity, in 1/250
	Queue     []byte    `json:"queue"`      // longest queue, in units of QueueUnit bytes: two bytes each, little-endian
	QueueUnit float64   `json:"queue_unit"` // number of bytes that one unit in field Queue stands for

	Marks  []int   `json:"marks"`  // triples: tick, direction, number of packets marked there
	Events []Event `json:"events"` // the run's events, in order of time
	Flows  []Flow  `json:"flows"`  // the run's flows, ordered by start time
	Phases []Phase `json:"phases"`
	Left   int     `json:"left"` // number of flows and events omitted for lack of room

	Balance []Balance `json:"balance"` // by tier of links and direction

	Trace string `json:"trace,omitempty"` // file that it was read from, if that is a Perfetto trace
}

// Node is a host or a switch.
type Node struct {
	Name string `json:"n"`
	Tier int    `json:"t"` // 0: host; 1: ToR; and so on
	Pod  int    `json:"p"`
	ToR  int    `json:"r"` // of a host: its ToR; else -1
}

// Event is something that happened at a moment of a run: a cut, a loss, a notification.
type Event struct {
	T     float64 `json:"t"`
	Kind  string  `json:"k"`
	Node  int     `json:"n"`           // index of the node concerned; -1: none
	Dir   int     `json:"d"`           // index of the link direction concerned; -1: none
	Count int64   `json:"c,omitempty"` // number of packets; 0 means one
	QP    uint64  `json:"q,omitempty"`
	Text  string  `json:"x,omitempty"`
}

// Flow is a message, a piece of one, or a probe: its time and its path.
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
	Text      []string  `json:"text"`      // about the whole run, in short lines
}

// Tick is an update of the web page of a live fabric.
type Tick struct {
	T      float64     `json:"t"`     // time in us from the run's start
	Use    []byte      `json:"use"`   // by link direction, in 1/250 of the capacity
	Queue  []byte      `json:"queue"` // as in [Run]; empty if queues are not measured
	Events []Event     `json:"events,omitempty"`
	State  []string    `json:"state,omitempty"` // by link: "", "down", "drained", "flapping" or "suspected"
	Facts  [][2]string `json:"facts,omitempty"` // names and present values of statistics
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
