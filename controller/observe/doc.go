// Package observe keeps what a controller measures apart from link states: loads of links, results of path probes,
// the largest flows, and switches' reasons for drops. It bounds the memory for these reports, and presents them in
// the status and on the page. Package daemon asks for the reports.
package observe

import "github.com/ethereal-fabric/ethereal/fabric"

// NodeID converts a number from a message into a NodeID; a number that does not fit becomes one that no node has.
func NodeID(n uint32) fabric.NodeID { return fabric.NodeID(min(n, 1<<31-1)) }
