// Package observe is what a controller knows beside the state of links: what links carry, what probes say of paths, which
// flows are the largest, why switches drop packets. It keeps what others report within bounds, and says it in the status and
// on the page; package daemon asks for it.
package observe

import "github.com/ethereal-fabric/ethereal/fabric"

// NodeID keeps a number from outside from becoming another one.
func NodeID(n uint32) fabric.NodeID { return fabric.NodeID(min(n, 1<<31-1)) }
