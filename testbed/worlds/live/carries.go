package live

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
)

// Rates of a live fabric: the highest that a link may have, and about what two
// cores carry from all hosts together, in packets of 9,000 bytes.
const (
	maxRate         = fabric.Gbps
	CarriedTogether = 200 * fabric.Mbps
)

// CheckRates returns an error for a fabric whose link rates processes on one machine cannot carry.
func CheckRates(f *fabric.Fabric) error {
	for i := range f.Links() {
		if l := f.Link(fabric.LinkID(i)); l.Rate > maxRate {
			return fmt.Errorf("%w: %s has %v; a machine carries some %v in all. Divide the rates of all links by the same number, to at most "+
				"%v, 30Mb/s say; sizes, switch.buffer and ecn by it too, and multiply agent.failed_path_memory, rto and times of events by it",
				coordinator.ErrUnsupported, f.LinkName(l.ID), l.Rate, CarriedTogether, maxRate)
		}
	}
	return nil
}
