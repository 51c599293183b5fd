package hostcheck

import "github.com/ethereal-fabric/ethereal/fabric"

// Config says which host this is to be.
type Config struct {
	Fabric    *fabric.Fabric
	Host      fabric.NodeID
	Interface string
	MTU       int    // that RoCEv2 packets need of the interface, in bytes
	Sys       string // where sysfs is; empty: /sys
	Verbs     string // path of the socket at which `ethereal host nic` is a device; empty: it is to be none
	Owners    string // path of the socket at which queue pairs' owners join the agent; empty: none do
}
