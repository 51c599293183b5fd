package p4rt

import (
	"fmt"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// encodeGroup returns a multicast group with one replica per port.
func (d *Dialect) encodeGroup(e controller.Entry, keyOnly bool) (*p4.Entity, error) {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: %v: %s", ErrEntry, e, fmt.Sprintf(format, args...))
	}
	if e.Value.Hi != 0 || e.Value.Lo == 0 || e.Value.Lo>>16 != 0 {
		return nil, fail("a multicast group's number is 1 to 2^16-1")
	}
	g := &p4.MulticastGroupEntry{MulticastGroupId: uint32(e.Value.Lo)}
	if !keyOnly {
		if err := checkAction(e); err != nil {
			return nil, fail("%v", err)
		}
		first, count := e.Args[0], e.Args[1]
		if first == 0 || count == 0 || first+count > 1<<9 {
			return nil, fail("the ports are 1 to 511")
		}
		for p := first; p < first+count; p++ {
			id := uint32(p)
			if d.Ports.Len() > 0 {
				var ok bool
				if id, ok = d.Ports.ID(fabric.PortNo(p)); !ok {
					return nil, fail("port %d is not mapped; the switch's map has %d ports", p, d.Ports.Len())
				}
			}
			// As for clone sessions: all targets understand the number.
			g.Replicas = append(g.Replicas, &p4.Replica{PortKind: &p4.Replica_EgressPort{EgressPort: id}, Instance: 1})
		}
	}
	return groupEntity(g), nil
}

func groupEntity(g *p4.MulticastGroupEntry) *p4.Entity {
	return &p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{
		PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
			Type: &p4.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: g},
		},
	}}
}

// decodeGroup is the inverse of encodeGroup. A group whose ports are not contiguous is none that the controller
// writes.
func (d *Dialect) decodeGroup(g *p4.MulticastGroupEntry) (controller.Entry, error) {
	e := controller.Entry{Key: controller.Key{
		Table: controller.MulticastGroup, Value: controller.Value{Lo: uint64(g.GetMulticastGroupId())},
	}}
	if len(g.GetReplicas()) == 0 {
		return e, nil // only the key
	}
	fail := func(format string, args ...any) (controller.Entry, error) {
		return controller.Entry{}, fmt.Errorf("%w: %v: %s", ErrEntry, e.Key, fmt.Sprintf(format, args...))
	}
	ports := make([]uint64, 0, len(g.GetReplicas()))
	for _, r := range g.GetReplicas() {
		id := uint64(0)
		switch k := r.GetPortKind().(type) {
		case *p4.Replica_EgressPort:
			id = uint64(k.EgressPort)
		case *p4.Replica_Port:
			v, err := parse(k.Port, 32)
			if err != nil {
				return fail("port: %v", err)
			}
			id = v.Lo
		}
		if d.Ports.Len() > 0 {
			p, ok := fabric.PortNo(0), false
			if id <= targets.MaxDevicePort {
				p, ok = d.Ports.Port(uint32(id))
			}
			if !ok {
				return fail("port %d is none of the switch's map", id)
			}
			id = uint64(p)
		}
		if r.GetInstance() != 1 {
			return fail("port %d has instance %d; the controller writes 1", id, r.GetInstance())
		}
		ports = append(ports, id)
	}
	slices.Sort(ports)
	if first, count := ports[0], uint64(len(ports)); first == 0 || ports[count-1]-first != count-1 || len(slices.Compact(ports)) != int(count) {
		return fail("ports %v; the controller writes ports in a row", ports)
	}
	e.Action, e.Args[0], e.Args[1] = controller.ReplicateTo, ports[0], uint64(len(g.GetReplicas()))
	return e, nil
}
