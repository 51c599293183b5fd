package p4rt

import (
	"context"
	"fmt"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/controller/targets"
)

// Names of the counters that the controller and the testbed read. A program may lack some.
const (
	CounterData     = "port_tx_data"    // data packets sent, by egress port
	CounterControl  = "port_tx_control" // control packets sent, by egress port
	CounterDrops    = "drops"           // packets dropped, by reason
	CounterFallback = "fallback"        // packets rerouted around a dead port, by reason
)

// CounterID returns the id of an indirect counter of the program, by the controller's name. ok is false if the
// program has none.
func (p *Pipeline) CounterID(name string) (id uint32, ok bool) {
	name = p.schema.called.Of(name)
	for _, c := range p.config.GetP4Info().GetCounters() {
		if pre := c.GetPreamble(); pre.GetName() == name || pre.GetAlias() == name {
			return pre.GetId(), true
		}
	}
	return 0, false
}

// ReadCounter calls cell for each cell of an indirect counter, with its index. The caller need not be primary.
func ReadCounter(ctx context.Context, client p4.P4RuntimeClient, device uint64, counter uint32, cell func(index int64, data *p4.CounterData)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream if it is left early
	stream, err := client.Read(ctx, &p4.ReadRequest{DeviceId: device, Entities: []*p4.Entity{{
		Entity: &p4.Entity_CounterEntry{CounterEntry: &p4.CounterEntry{CounterId: counter}},
	}}})
	if err == nil {
		err = targets.ReadEntities(stream, func(es []*p4.Entity) {
			for _, e := range es {
				c := e.GetCounterEntry()
				cell(c.GetIndex().GetIndex(), c.GetData())
			}
		})
	}
	if err != nil {
		return fmt.Errorf("p4rt: counter %d of device %d: %w", counter, device, err)
	}
	return nil
}
