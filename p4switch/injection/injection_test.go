package injection

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// dial serves s and returns a connection to it.
func dial(t *testing.T, s *Service) *grpc.ClientConn {
	t.Helper()
	lis := bufconn.Listen(1 << 16)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, lis) }()
	conn, err := grpc.NewClient("passthrough:x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close() //nolint:errcheck // the test is over
		cancel()
		<-done
	})
	return conn
}

func open(t *testing.T, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/"+serviceName+"/PacketStream")
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func request(s *Service, device uint64, number uint32, packet string) *dynamicpb.Message {
	m := dynamicpb.NewMessage(s.schema.request)
	setField(m, "device_id", device)
	setField(m, "port", number)
	setField(m, "packet", []byte(packet))
	return m
}

func TestPackets(t *testing.T) {
	s, err := New(3, []uint32{1, 9})
	if err != nil {
		t.Fatal(err)
	}
	poller, err := port.NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer poller.Close() //nolint:errcheck // the test is over
	for i, p := range s.Ports() {
		if err := poller.Add(p, i); err != nil {
			t.Fatal(err)
		}
	}
	stream := open(t, dial(t, s))
	in := request(s, 3, 9, "in")
	setField(in, "id", uint64(42))
	if err := stream.SendMsg(in); err != nil {
		t.Fatal(err)
	}
	var events []port.Event
	for len(events) == 0 {
		if events, err = poller.Wait(time.Minute, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := ""; s.Ports()[1].Receive(9, func(b []byte) { got = string(b) }) != 1 || got != "in" || events[0].ID != 1 {
		t.Errorf("received %q, events %v", got, events)
	}
	s.Ports()[0].SendTagged([][]byte{[]byte("out")}, []uint64{s.Ports()[1].Tag()})
	m := dynamicpb.NewMessage(s.schema.response)
	if err := stream.RecvMsg(m); err != nil {
		t.Fatal(err)
	}
	if string(getField(m, "packet").Bytes()) != "out" || getField(m, "port").Uint() != 1 || getField(m, "device_id").Uint() != 3 || getField(m, "id").Uint() != 42 {
		t.Errorf("the client has %v", m)
	}
	if c := s.Ports()[0].Counters(); c.OutPkts != 1 || c.OutOctets != 3 {
		t.Errorf("counters %+v", c)
	}
}

func TestRefused(t *testing.T) {
	s, err := New(3, []uint32{1})
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, s)
	for _, c := range []struct {
		device uint64
		port   uint32
		want   codes.Code
	}{{4, 1, codes.NotFound}, {3, 2, codes.InvalidArgument}} {
		stream := open(t, conn)
		if err := stream.SendMsg(request(s, c.device, c.port, "x")); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(dynamicpb.NewMessage(s.schema.response)); status.Code(err) != c.want {
			t.Errorf("device %d, port %d: %v, want %v", c.device, c.port, err, c.want)
		}
	}
	first, second := open(t, conn), open(t, conn)
	if err := second.RecvMsg(dynamicpb.NewMessage(s.schema.response)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a second client: %v", err)
	}
	// A packet that leaves after the client has closed its side still comes.
	if err := first.CloseSend(); err != nil {
		t.Fatal(err)
	}
	s.Ports()[0].Send([][]byte{[]byte("late")})
	m := dynamicpb.NewMessage(s.schema.response)
	if err := first.RecvMsg(m); err != nil || string(getField(m, "packet").Bytes()) != "late" {
		t.Errorf("%v, %v", m, err)
	}
	if err := first.RecvMsg(m); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ends with %v", err)
	}
	s.Ports()[0].Send([][]byte{[]byte("lost")})
	if c := s.Ports()[0].Counters(); c.OutLost != 1 || c.OutPkts != 1 {
		t.Errorf("without a client: %+v", c)
	}
}

func TestOperStatus(t *testing.T) {
	s, err := New(3, []uint32{1, 9})
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, s)
	call := func(number uint32, oper int32) error {
		m := dynamicpb.NewMessage(s.schema.operRequest)
		setField(m, "device_id", uint64(3))
		setField(m, "port", number)
		setField(m, "oper_status", oper)
		return conn.Invoke(t.Context(), "/"+serviceName+"/SetPortOperStatus", m, dynamicpb.NewMessage(s.schema.operResponse))
	}
	if err := call(9, operDown); err != nil {
		t.Fatal(err)
	}
	var got []port.Link
	if err := s.Links().Read(func(l port.Link) { got = append(got, l) }); err != nil || len(got) != 1 || got[0].Index != 2 || got[0].Up {
		t.Errorf("links %v, %v", got, err)
	}
	for _, c := range [][2]int32{{7, operUp}, {9, 0}} {
		if err := call(uint32(c[0]), c[1]); status.Code(err) != codes.InvalidArgument {
			t.Errorf("port %d, status %d: %v", c[0], c[1], err)
		}
	}
}
