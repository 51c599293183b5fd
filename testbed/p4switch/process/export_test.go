package process

import "github.com/ethereal-fabric/ethereal/testbed/p4switch/server"

// PortCounters is what gNMI says of a port.
func (d *Device) PortCounters(number uint32) server.Counters { return d.portCounters(number) }
