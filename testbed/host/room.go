package host

import (
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/balance"
)

// roomyCore is the core as the endpoint's balancer if the scheme has windows per path.
type roomyCore struct {
	*Core
	scheme balance.RoomyHost
}

// Room implements [transport.Roomy].
func (c roomyCore) Room(qp transport.QP, onTheWay int32) bool {
	return c.scheme.Room(hostagent.QP(qp), onTheWay)
}
