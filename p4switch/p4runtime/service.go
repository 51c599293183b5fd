package p4runtime

import (
	"context"
	"errors"
	"io"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// Limits of the messages that wait for one controller. Packets and digests above the first are lost; arbitration
// updates above the second end the stream.
const (
	maxStreamQueue       = 1024
	maxArbitrationsQueue = 4096
)

// errStalled is the error for a message that was not taken.
var errStalled = errors.New("switch: the controller does not read its stream")

// Capabilities implements p4.P4RuntimeServer.
func (s *Server) Capabilities(_ context.Context, req *p4.CapabilitiesRequest) (*p4.CapabilitiesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Capabilities(req)
}

// SetForwardingPipelineConfig implements p4.P4RuntimeServer.
func (s *Server) SetForwardingPipelineConfig(_ context.Context, req *p4.SetForwardingPipelineConfigRequest) (*p4.SetForwardingPipelineConfigResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.Kick()
	return s.core.SetForwardingPipelineConfig(req)
}

// GetForwardingPipelineConfig implements p4.P4RuntimeServer.
func (s *Server) GetForwardingPipelineConfig(_ context.Context, req *p4.GetForwardingPipelineConfigRequest) (*p4.GetForwardingPipelineConfigResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.GetForwardingPipelineConfig(req)
}

// Write implements p4.P4RuntimeServer.
func (s *Server) Write(_ context.Context, req *p4.WriteRequest) (*p4.WriteResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.core.Write(req); err != nil {
		return nil, err
	}
	return &p4.WriteResponse{}, nil
}

// Read implements p4.P4RuntimeServer. The answer is made page by page. A page is encoded and sent without the lock,
// so that a slow reader blocks nobody and keeps one page in memory.
func (s *Server) Read(req *p4.ReadRequest, stream p4.P4Runtime_ReadServer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Read(req, func(r *p4.ReadResponse) error {
		s.mu.Unlock()
		defer s.mu.Lock()
		return stream.Send(r)
	})
}

// StreamChannel implements p4.P4RuntimeServer.
func (s *Server) StreamChannel(stream p4.P4Runtime_StreamChannelServer) error {
	box := rpc.NewOutbox(func(m *p4.StreamMessageResponse) int { return proto.Size(m) }, s.core.budget.QueuedBytesPerStream)
	overrun := false // guarded by s.mu
	s.mu.Lock()
	st := s.core.OpenStream(func(m *p4.StreamMessageResponse) error {
		limit := maxStreamQueue
		if m.GetArbitration() != nil {
			limit = maxArbitrationsQueue
		}
		if box.Offer(m, limit) {
			return nil
		}
		overrun = overrun || m.GetArbitration() != nil
		return errStalled
	})
	st.OnRank = func(defaultRole, primary bool) { rpc.RecordPrimary(stream.Context(), defaultRole, primary) }
	s.mu.Unlock()
	writer := make(chan struct{})
	go func() {
		defer close(writer)
		box.Run(stream.Context(), stream.Send, func() {}) //nolint:errcheck // Recv sees the same error
	}()
	defer func() {
		s.mu.Lock()
		st.Close()
		s.mu.Unlock()
		box.Close()
		<-writer
	}()
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
		err = st.Recv(m)
		if err == nil && overrun {
			err = rpc.Status(rpc.Errorf(codes.ResourceExhausted, "%d messages wait and the controller does not read its stream", maxArbitrationsQueue))
		}
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
}
