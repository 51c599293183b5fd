package hostcheck

import "github.com/ethereal-fabric/ethereal/fabric"

// Config describes the host to check.
type Config struct {
	Fabric    *fabric.Fabric
	Host      fabric.NodeID
	Interface string
	MTU       int    // that RoCEv2 packets need, in bytes
	Sys       string // sysfs' folder; empty: /sys
	Verbs     string // socket at which `ethereal host nic` serves a device; empty: not used
	Owners    string // socket at which queue pairs' owners connect to the agent; empty: not used
}
