package p4runtime

import (
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// Stream is one controller's StreamChannel.
type Stream struct {
	core     *Core
	send     func(*p4.StreamMessageResponse) error
	role     *role // nil before the first arbitration update
	election electionID
	closed   bool

	// OnRank, if not nil, is called when the stream becomes the primary of its role, or is no longer; defaultRole: of
	// the role without a name. It must neither block nor call back into the core.
	OnRank func(defaultRole, primary bool)
}

// OpenStream starts a stream. send sends a message to the controller; it must neither block nor call back into the
// core. An error from send means that the message was not delivered: packets and digests are then counted as lost;
// arbitration updates must always be accepted.
func (c *Core) OpenStream(send func(*p4.StreamMessageResponse) error) *Stream {
	return &Stream{core: c, send: send}
}

// Primary reports whether the stream's controller is the primary of its role.
func (s *Stream) Primary() bool { return s.role != nil && s.role.primary == s }

// Recv handles a message from the controller. An error is a gRPC status: end the stream with it, and close it.
// Errors in messages other than arbitration updates are sent to the controller as a StreamError.
func (s *Stream) Recv(m *p4.StreamMessageRequest) error {
	if s.closed {
		return rpc.Status(rpc.Errorf(codes.FailedPrecondition, "the stream is closed"))
	}
	c := s.core
	switch u := m.GetUpdate().(type) {
	case *p4.StreamMessageRequest_Arbitration:
		return rpc.Status(c.arbitrate(s, u.Arbitration))
	case *p4.StreamMessageRequest_Packet:
		if err := c.packetOut(s, u.Packet); err != nil {
			s.sendError(err, &p4.StreamError{Details: &p4.StreamError_PacketOut{PacketOut: &p4.PacketOutError{PacketOut: u.Packet}}})
		}
	case *p4.StreamMessageRequest_DigestAck:
		if err := c.digestAck(s, u.DigestAck); err != nil {
			s.sendError(err, &p4.StreamError{Details: &p4.StreamError_DigestListAck{DigestListAck: &p4.DigestListAckError{DigestListAck: u.DigestAck}}})
		}
	case *p4.StreamMessageRequest_Other:
		s.sendError(rpc.Errorf(codes.Unimplemented, "there are no architecture-specific stream messages"),
			&p4.StreamError{Details: &p4.StreamError_Other{Other: &p4.StreamOtherError{Other: u.Other}}})
	default:
		s.sendError(rpc.Errorf(codes.Unimplemented, "the stream message is empty or of a kind this switch does not know"), &p4.StreamError{})
	}
	return nil
}

func (s *Stream) sendError(err error, m *p4.StreamError) {
	e := toP4Error(err)
	m.CanonicalCode, m.Message = e.GetCanonicalCode(), e.GetMessage()
	s.send(&p4.StreamMessageResponse{Update: &p4.StreamMessageResponse_Error{Error: m}}) //nolint:errcheck // error reports may be lost
}

// Close ends the stream of a controller that is gone.
func (s *Stream) Close() {
	if s.closed {
		return
	}
	s.closed = true
	if s.role != nil {
		s.role.removeStream(s.core, s)
	}
}
