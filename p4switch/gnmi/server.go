package gnmi

import (
	"context"
	"errors"
	"io"
	"sync"

	gnmipb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// maxSubscriberQueue is the largest number of notifications that wait for one subscriber; above it only the latest
// value of each leaf is kept.
const maxSubscriberQueue = 64

// Server serves a [Core] over gRPC. It is safe for concurrent use: every call into the core is made under one lock.
type Server struct {
	gnmipb.UnimplementedGNMIServer
	*rpc.Clock // samples and heartbeats

	mu   sync.Locker
	core *Core
}

// NewServer returns a server for a core, whose calls mu serialises.
func NewServer(mu sync.Locker, core *Core) *Server {
	return &Server{Clock: rpc.NewClock(mu, core.cfg.Now, core), mu: mu, core: core}
}

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) { gnmipb.RegisterGNMIServer(r, s) }

// Capabilities implements gnmipb.GNMIServer.
func (s *Server) Capabilities(_ context.Context, req *gnmipb.CapabilityRequest) (*gnmipb.CapabilityResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Capabilities(req)
}

// Get implements gnmipb.GNMIServer.
func (s *Server) Get(_ context.Context, req *gnmipb.GetRequest) (*gnmipb.GetResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Get(req)
}

// Set implements gnmipb.GNMIServer.
func (s *Server) Set(_ context.Context, req *gnmipb.SetRequest) (*gnmipb.SetResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Set(req)
}

// Subscribe implements gnmipb.GNMIServer.
func (s *Server) Subscribe(stream gnmipb.GNMI_SubscribeServer) error {
	req, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	box := rpc.NewOutbox(func(m *gnmipb.SubscribeResponse) int { return proto.Size(m) }, s.core.budget.QueuedBytesPerStream)
	s.mu.Lock()
	sub, err := s.core.Subscribe(req, func(m *gnmipb.SubscribeResponse) bool { return box.Offer(m, maxSubscriberQueue) })
	if err == nil && sub.Done() {
		box.Close()
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	s.Kick() // the new subscription may have a deadline
	writer := make(chan error, 1)
	go func() {
		writer <- box.Run(stream.Context(), stream.Send, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			sub.Drain()
			if sub.Done() {
				box.Close()
			}
		})
	}()
	wait := func() error {
		err := <-writer
		writer <- err
		return err
	}
	defer func() {
		s.mu.Lock()
		sub.Close()
		s.mu.Unlock()
		box.Close()
		wait() //nolint:errcheck // the stream's own error is returned
	}()
	mode := req.GetSubscribe().GetMode()
	if mode == gnmipb.SubscriptionList_ONCE {
		return wait()
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if mode == gnmipb.SubscriptionList_STREAM {
				return wait() // the subscriber sends no more and goes on receiving
			}
			return nil
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
		err = sub.Recv(m)
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
}
