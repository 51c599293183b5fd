package hostcheck

import "github.com/ethereal-fabric/ethereal/fabric"

// Config describes the host to check.
type Config struct {
	Fabric    *fabric.Fabric
	Host      fabric.NodeID
	Interface string
	MTU       int    // smallest MTU that RoCEv2 packets need, in bytes
	Sys       string // folder where sysfs is mounted; empty: /sys
	Verbs     string // Unix socket at which `ethereal host nic` serves an RDMA device; empty: not used
	Owners    string // Unix socket of the agent to which programs with queue pairs connect; empty: not used
}
