package server

import (
	"context"
	"errors"
	"io"

	gnmi "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/protobuf/proto"
)

// maxSubscriberQueue bounds the notifications that wait for one subscriber;
// beyond it the latest value of each leaf is kept.
const maxSubscriberQueue = 64

// gnmiServer is the Server seen as a gnmi.GNMIServer: both services have a
// method Capabilities.
type gnmiServer struct {
	gnmi.UnimplementedGNMIServer
	*Server
}

// Capabilities implements gnmi.GNMIServer.
func (s gnmiServer) Capabilities(_ context.Context, req *gnmi.CapabilityRequest) (*gnmi.CapabilityResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gn.Capabilities(req)
}

// Get implements gnmi.GNMIServer.
func (s gnmiServer) Get(_ context.Context, req *gnmi.GetRequest) (*gnmi.GetResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gn.Get(req)
}

// Set implements gnmi.GNMIServer.
func (s gnmiServer) Set(_ context.Context, req *gnmi.SetRequest) (*gnmi.SetResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gn.Set(req)
}

// Subscribe implements gnmi.GNMIServer.
func (s gnmiServer) Subscribe(stream gnmi.GNMI_SubscribeServer) error {
	req, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	box := newOutbox(func(m *gnmi.SubscribeResponse) int { return proto.Size(m) }, s.gn.budget.Queued)
	s.mu.Lock()
	sub, err := s.gn.Subscribe(req, func(m *gnmi.SubscribeResponse) bool { return box.offer(m, maxSubscriberQueue) })
	if err == nil && sub.Done() {
		box.close()
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	s.kick() // the new subscription may have a deadline
	writer := make(chan error, 1)
	go func() {
		writer <- box.run(stream.Context(), stream.Send, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			sub.Drain()
			if sub.Done() {
				box.close()
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
		box.close()
		wait() //nolint:errcheck // the stream's own error is returned
	}()
	mode := req.GetSubscribe().GetMode()
	if mode == gnmi.SubscriptionList_ONCE {
		return wait()
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if mode == gnmi.SubscriptionList_STREAM {
				return wait() // the subscriber has no more to say and goes on listening
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
