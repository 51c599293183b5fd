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
var ErrNoPackets = errors.New("p4rt: the program takes and gives no packets: its P4Info lacks controller headers packet_out with egress_port and packet_in with ingress_port")

// packetIDs are the numbers of the fields of the controller's packet headers; 0
// where there is none. They may be absent: no table needs them.
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

// PacketOut returns the message that has the switch send a frame by a port.
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

// PortEvent returns the message that notifies a chip's data plane of a port: a
// packet-out to the port that such packets are believed from. The epoch is not 0.
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

// PacketIn is a packet that a switch handed over.
type PacketIn struct {
	ID    uint32        // of the port that it came in at, as the switch knows it
	Port  fabric.PortNo // as the fabric does; 0: it does not
	Frame []byte
}

// PacketIn reads a packet. ok is false when it does not say where it came in.
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

// Packets is a stream to one switch by which packets are sent and taken, for a
// caller that has no [Session].
type Packets struct {
	schema *Schema
	stream p4.P4Runtime_StreamChannelClient
	cancel context.CancelFunc
	done   chan struct{}
	bid    ElectionID // that won

	mu      sync.Mutex
	refused error // what the switch said of an earlier packet-out
}

// ErrHeld is wrapped when another controller is primary: a switch takes packets
// from its primary only.
var ErrHeld = errors.New("p4rt: another controller is primary")

// OpenPackets bids for a switch with an election id, and returns the stream once it
// is primary. Where nobody is, but somebody was by a higher id, that one is taken:
// the switch waits for no lower one. in is called for every packet, on a goroutine of its own, until
// [Packets.Close]. The stream outlives ctx.
func OpenPackets(ctx context.Context, client p4.P4RuntimeClient, schema *Schema, w Writer, in func(PacketIn)) (*Packets, error) {
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel) // until the bid is answered
	p := &Packets{schema: schema, cancel: cancel, done: make(chan struct{})}
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
				return // Close, or the switch is gone: it receives nothing more
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

func (p *Packets) open(ctx context.Context, client p4.P4RuntimeClient, w Writer) (err error) {
	if p.stream, err = client.StreamChannel(ctx); err != nil {
		return fmt.Errorf("p4rt: opening the stream: %w", err)
	}
	bid := func(id *p4.Uint128) error {
		err := p.stream.Send(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Arbitration{
			Arbitration: &p4.MasterArbitrationUpdate{DeviceId: w.DeviceID, ElectionId: id},
		}})
		if err != nil && !errors.Is(err, io.EOF) { // EOF: Recv says why
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

// Send sends a frame by a port. It must not be called concurrently. The switch
// refuses a packet later, if at all: the error is then that of a later call.
func (p *Packets) Send(port fabric.PortNo, frame []byte) error {
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

// ElectionID returns the id by which the stream is primary.
func (p *Packets) ElectionID() ElectionID { return p.bid }

// closing is how long a switch may take to end a stream that is done.
const closing = time.Second

// Close ends the stream, and waits until the switch has ended it too: then the election id is free for the next
// controller, and no packet is handed over any more. A switch that does not answer is left after a second.
func (p *Packets) Close() {
	if p.stream.CloseSend() == nil {
		select {
		case <-p.done:
		case <-time.After(closing):
		}
	}
	p.cancel()
	<-p.done
}
