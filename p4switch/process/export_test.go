package process

import (
	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
)

// PortCounters is what gNMI says of a port.
func (d *Device) PortCounters(number uint32) portstate.Counters { return d.portCounters(number) }

// RefuseKernel is what happens when the kernel does not take a program.
func (d *Device) RefuseKernel(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.datapath.(*kernelDatapath).useProgram(nil, err)
}
