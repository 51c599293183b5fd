package p4runtime

import (
	"sync"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// Server serves a core over gRPC. It is safe for concurrent use: every call into the core is made under one lock,
// which is not the packets' lock: see [Config.DataPath].
type Server struct {
	p4.UnimplementedP4RuntimeServer
	*rpc.Clock // digest and idle timeouts

	mu   sync.Locker
	core *Core
}

// NewServer returns a server for a core, whose calls mu serialises.
func NewServer(mu sync.Locker, core *Core) *Server {
	s := &Server{Clock: rpc.NewClock(mu, core.cfg.Now, core), mu: mu, core: core}
	core.OnDeadline(s.Kick)
	return s
}

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) { p4.RegisterP4RuntimeServer(r, s) }
