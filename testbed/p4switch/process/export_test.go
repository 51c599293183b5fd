package process

import "github.com/ethereal-fabric/ethereal/testbed/p4switch/server"

// PortCounters is what gNMI says of a port.
func (d *Device) PortCounters(number uint32) server.Counters { return d.portCounters(number) }

// RefuseKernel is what happens when the kernel does not take a program.
func (d *Device) RefuseKernel(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.useKernel(nil, err)
}
