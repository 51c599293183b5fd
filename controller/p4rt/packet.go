package p4rt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4src"
)

// ErrNoPackets is returned for a program without packet-out and packet-in.
var ErrNoPackets = errors.New("p4rt: the program has no packet-out and packet-in: its P4Info lacks controller headers packet_out with egress_port and packet_in with ingress_port")

// packetIDs are the numbers of the fields of the controller's packet headers; 0: absent. They may be absent,
// because no table needs them.
type packetIDs struct {
	egress, ingress uint32
}

func (s *Schema) bindPackets(info *p4config.P4Info) {
	field := func(header, name string) uint32 {
		h, err := find(info.GetControllerPacketMetadata(), s.called.Of(header))
		if err != nil {
			return 0
		}
		for _, m := range h.GetMetadata() {
			if m.GetName() == name {
				return m.GetId()
			}
		}
		return 0
	}
	s.packets = packetIDs{egress: field("packet_out", "egress_port"), ingress: field("packet_in", "ingress_port")}
}

// PacketOut returns the message that makes the switch send a frame through a port.
func (s *Schema) PacketOut(port fabric.PortNo, frame []byte) (*p4.StreamMessageRequest, error) {
	if s.packets.egress == 0 || s.packets.ingress == 0 {
		return nil, ErrNoPackets
	}
	id, ok := s.dialect.Ports.ID(port)
	if !ok {
		return nil, fmt.Errorf("%w: packet-out: port %d is not mapped; the switch's map has %d ports", ErrEntry, port, s.dialect.Ports.Len())
	}
	return s.packetOut(uint64(id), frame), nil
}

func (s *Schema) packetOut(id uint64, frame []byte) *p4.StreamMessageRequest {
	return &p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Packet{Packet: &p4.PacketOut{
		Payload:  frame,
		Metadata: []*p4.PacketMetadata{{MetadataId: s.packets.egress, Value: canonical64(id)}},
	}}}
}

// PortEvent returns the message that notifies a chip's data plane of a port's change: a packet-out to the port on
// which it accepts such packets. The epoch is not 0.
func (s *Schema) PortEvent(port fabric.PortNo, up bool, epoch uint32) (*p4.StreamMessageRequest, error) {
	if s.packets.egress == 0 {
		return nil, ErrNoPackets
	}
	id, ok := s.dialect.Ports.ID(port)
	if !ok || id >= p4src.MaxPorts {
		return nil, fmt.Errorf("%w: port event: port %d is not mapped to one of %d", ErrEntry, port, p4src.MaxPorts)
	}
	return s.packetOut(p4src.PortEventPort, p4src.AppendPortEvent(nil, uint16(id), up, epoch)), nil
}

// PacketIn is a packet-in of a switch.
type PacketIn struct {
	ID    uint32        // the ingress port's number at the switch
	Port  fabric.PortNo // the ingress port in the fabric; 0: unknown
	Frame []byte
}

// PacketIn reads a packet. ok is false if it does not name its ingress port.
func (s *Schema) PacketIn(m *p4.PacketIn) (in PacketIn, ok bool) {
	for _, md := range m.GetMetadata() {
		if md.GetMetadataId() != s.packets.ingress || s.packets.ingress == 0 {
			continue
		}
		id, err := parse(md.GetValue(), 16)
		if err != nil {
			return in, false
		}
		in = PacketIn{ID: uint32(id.Lo), Frame: m.GetPayload()}
		if p, known := s.dialect.Ports.Port(in.ID); known {
			in.Port = p
		}
		return in, true
	}
	return in, false
}

// PacketStream is a stream to one switch that sends and receives packets, for a caller without a [Session].
type PacketStream struct {
	schema *Schema
	stream p4.P4Runtime_StreamChannelClient
	cancel context.CancelFunc
	done   chan struct{}
	bid    ElectionID // the winning bid

	mu      sync.Mutex
	refused error // the switch's error about an earlier packet-out
}

// ErrHeld is wrapped if another controller is the switch's primary: only the primary may send packets.
var ErrHeld = errors.New("p4rt: another controller is primary")

// OpenPacketStream bids for a switch with an election id, and returns the stream once it is primary. If nobody is
// primary, but a controller with a higher id was, it bids that id, since the switch accepts no lower one. in is
// called for every packet, on its own goroutine, until [PacketStream.Close]. The stream outlives ctx.
func OpenPacketStream(ctx context.Context, client p4.P4RuntimeClient, schema *Schema, w Writer, in func(PacketIn)) (*PacketStream, error) {
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel) // until the bid is answered
	p := &PacketStream{schema: schema, cancel: cancel, done: make(chan struct{})}
	err := p.open(whole, client, w)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	go func() {
		defer close(p.done)
		for {
			m, err := p.stream.Recv()
			if err != nil {
				return // after Close, or when the switch is gone, nothing more arrives
			}
			if packet, ok := schema.PacketIn(m.GetPacket()); ok {
				in(packet)
			}
			if e := m.GetError(); e != nil {
				p.mu.Lock()
				p.refused = fmt.Errorf("p4rt: packet-out refused: %s", e.GetMessage())
				p.mu.Unlock()
			}
		}
	}()
	return p, nil
}

func (p *PacketStream) open(ctx context.Context, client p4.P4RuntimeClient, w Writer) (err error) {
	if p.stream, err = client.StreamChannel(ctx); err != nil {
		return fmt.Errorf("p4rt: opening the stream: %w", err)
	}
	bid := func(id *p4.Uint128) error {
		err := p.stream.Send(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Arbitration{
			Arbitration: &p4.MasterArbitrationUpdate{DeviceId: w.DeviceID, ElectionId: id},
		}})
		if err != nil && !errors.Is(err, io.EOF) { // after EOF, Recv returns the reason
			return fmt.Errorf("p4rt: bidding: %w", err)
		}
		return nil
	}
	if err := bid(w.ElectionID); err != nil {
		return err
	}
	for again := false; ; {
		m, err := p.stream.Recv()
		switch {
		case status.Code(err) == codes.InvalidArgument:
			return fmt.Errorf("%w: its election id is ours: %w", ErrHeld, err)
		case err != nil:
			return fmt.Errorf("p4rt: bidding: %w", err)
		}
		if a := m.GetArbitration(); a != nil {
			switch code := codes.Code(a.GetStatus().GetCode()); {
			case code == codes.OK:
				p.bid = electionOf(a.GetElectionId())
				return nil
			case code == codes.NotFound && !again && electionOf(a.GetElectionId()).Compare(electionOf(w.ElectionID)) > 0:
				again = true
				if err := bid(a.GetElectionId()); err != nil {
					return err
				}
			default:
				return fmt.Errorf("%w, with election id %v", ErrHeld, electionOf(a.GetElectionId()))
			}
		}
	}
}

// Send sends a frame through a port. It must not be called concurrently. The switch refuses a packet later, if at
// all; a later call then returns the error.
func (p *PacketStream) Send(port fabric.PortNo, frame []byte) error {
	p.mu.Lock()
	err := p.refused
	p.mu.Unlock()
	if err != nil {
		return err
	}
	m, err := p.schema.PacketOut(port, frame)
	if err != nil {
		return err
	}
	if err := p.stream.Send(m); err != nil {
		return fmt.Errorf("p4rt: packet-out: %w", err)
	}
	return nil
}

// ElectionID returns the id with which the stream is primary.
func (p *PacketStream) ElectionID() ElectionID { return p.bid }

// closeTimeout is the time allowed for a switch to end a closed stream.
const closeTimeout = time.Second

// Close ends the stream, and waits until the switch has ended it too: then the election id is free for the next
// controller, and no more packets arrive. It does not wait longer than a second.
func (p *PacketStream) Close() {
	if p.stream.CloseSend() == nil {
		select {
		case <-p.done:
		case <-time.After(closeTimeout):
		}
	}
	p.cancel()
	<-p.done
}
