package injection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// maxWaiting is the largest number of packets that wait for the client; further ones are lost, and counted.
const maxWaiting = 4096

// quietInterval is the time without outgoing packets after which the packets of a client that sends no more count as
// finished.
const quietInterval = 200 * time.Millisecond

// Oper statuses of p4.bm.PortOperStatus.
const (
	operDown = 1
	operUp   = 2
)

// Service lets a test client inject packets into one switch and receive its output, over gRPC.
type Service struct {
	schema *schema
	device uint64
	ports  []*Port
	links  Links
	byNum  map[uint32]int // index of ports

	mu     sync.Mutex
	client chan *dynamicpb.Message // of the only client; nil: none. claim makes it, packets ends it
}

// New makes a service with ports of the given numbers.
func New(device uint64, numbers []uint32) (*Service, error) {
	schema, err := newSchema()
	if err != nil {
		return nil, err
	}
	s := &Service{schema: schema, device: device, byNum: map[uint32]int{}}
	for i, n := range numbers {
		s.ports, s.byNum[n] = append(s.ports, &Port{service: s, number: n}), i
		s.links.all = append(s.links.all, port.Link{Index: i + 1, Up: true, Enabled: true})
	}
	return s, nil
}

// Ports returns the switch's ports; port i has the link index i+1.
func (s *Service) Ports() []*Port { return s.ports }

// Links returns the ports' states.
func (s *Service) Links() *Links { return &s.links }

func (s *Service) register(srv *grpc.Server) {
	srv.RegisterService(&grpc.ServiceDesc{
		ServiceName: serviceName, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "SetPortOperStatus",
			Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
				m := dynamicpb.NewMessage(s.schema.operRequest)
				if err := decode(m); err != nil {
					return nil, err
				}
				do := func(_ context.Context, m any) (any, error) { return s.setOper(m.(*dynamicpb.Message)) }
				if intercept == nil {
					return do(ctx, m)
				}
				return intercept(ctx, m, &grpc.UnaryServerInfo{Server: s, FullMethod: "/" + serviceName + "/SetPortOperStatus"}, do)
			}}},
		Streams: []grpc.StreamDesc{{StreamName: "PacketStream", ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error { return s.servePacketStream(stream) }}},
	}, s)
}

// Serve serves on a listener, which it closes, until ctx ends.
func (s *Service) Serve(ctx context.Context, l net.Listener) error {
	srv := grpc.NewServer(grpc.InTapHandle(s.admitStream))
	s.register(srv)
	stop := context.AfterFunc(ctx, srv.Stop)
	defer stop()
	if err := srv.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("switch: packet injection: %w", err)
	}
	srv.Stop() // waits for the handlers
	return ctx.Err()
}

func (s *Service) portIndex(number uint32) (int, error) {
	i, ok := s.byNum[number]
	if !ok {
		return 0, status.Errorf(codes.InvalidArgument, "switch: there is no port %d", number)
	}
	return i, nil
}

func (s *Service) checkDevice(m *dynamicpb.Message) error {
	if id := getField(m, "device_id").Uint(); id != s.device {
		return status.Errorf(codes.NotFound, "switch: no device %d; this switch is device %d", id, s.device)
	}
	return nil
}

func (s *Service) setOper(m *dynamicpb.Message) (*dynamicpb.Message, error) {
	if err := s.checkDevice(m); err != nil {
		return nil, err
	}
	i, err := s.portIndex(uint32(getField(m, "port").Uint()))
	if err != nil {
		return nil, err
	}
	switch oper := getField(m, "oper_status").Int(); oper {
	case operDown, operUp:
		s.links.setUp(i, oper == operUp)
	default:
		return nil, status.Errorf(codes.InvalidArgument, "switch: oper status %d; it must be %d (down) or %d (up)", oper, operDown, operUp)
	}
	return dynamicpb.NewMessage(s.schema.operResponse), nil
}

// admitStream admits one PacketStream. It is called for streams in the order of their arrival; their handlers start in
// any order.
func (s *Service) admitStream(ctx context.Context, call *tap.Info) (context.Context, error) {
	if call.FullMethodName != "/"+serviceName+"/PacketStream" {
		return ctx, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return nil, status.Error(codes.ResourceExhausted, "switch: another client has the packets; close its stream first")
	}
	s.client = make(chan *dynamicpb.Message, maxWaiting)
	return ctx, nil
}

// servePacketStream serves one PacketStream. When the client sends no more, it still receives outgoing packets until
// there are no more.
func (s *Service) servePacketStream(stream grpc.ServerStream) error {
	s.mu.Lock()
	out := s.client
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.client = nil
		s.mu.Unlock()
	}()
	received := make(chan error, 1)
	go func() { received <- s.receivePackets(stream) }()
	var silence <-chan time.Time // runs once the client sends no more
	for {
		select {
		case m := <-out:
			if err := stream.SendMsg(m); err != nil {
				return err
			}
			if silence != nil {
				silence = time.After(quietInterval)
			}
		case err := <-received:
			if err != nil {
				return err
			}
			received, silence = nil, time.After(quietInterval)
		case <-silence:
			return nil
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// receivePackets passes packets to the switch until the client closes its side.
func (s *Service) receivePackets(stream grpc.ServerStream) error {
	for {
		m := dynamicpb.NewMessage(s.schema.request)
		if err := stream.RecvMsg(m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.checkDevice(m); err != nil {
			return err
		}
		i, err := s.portIndex(uint32(getField(m, "port").Uint()))
		if err != nil {
			return err
		}
		s.ports[i].deliver(getField(m, "packet").Bytes(), getField(m, "id").Uint())
	}
}

// sendToClient sends a packet to the client; it returns false if the packet is lost. id is the id of the packet's
// request.
func (s *Service) sendToClient(number uint32, frame []byte, id uint64) bool {
	m := dynamicpb.NewMessage(s.schema.response)
	setField(m, "id", id)
	setField(m, "device_id", s.device)
	setField(m, "port", number)
	setField(m, "packet", append([]byte(nil), frame...))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		return false
	}
	select {
	case s.client <- m:
		return true
	default:
		return false
	}
}
