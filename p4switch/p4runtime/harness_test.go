package p4runtime

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	gnmipb "github.com/openconfig/gnmi/proto/gnmi"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/ethereal-fabric/ethereal/p4switch/gnmi"
	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

const testDevice = 183807201

// device is a switch as its controllers see it: called directly, or served
// over gRPC. The tests of the protocol run on both.
type device struct {
	t     *testing.T
	core  *Core
	gn    *gnmi.Core
	ports *portstate.Ports
	mu    sync.Mutex // around core and gn
	now   int64

	p4rt p4.P4RuntimeClient // nil: direct
	gnmi gnmipb.GNMIClient
}

// newDevice makes a switch with four ports, Ethernet1 to Ethernet4.
func newDevice(t *testing.T, change func(*Config)) *device {
	t.Helper()
	d := &device{t: t, now: 1000}
	ports, err := portstate.New([]portstate.Config{
		{Name: "Ethernet1", Number: 1}, {Name: "Ethernet2", Number: 2},
		{Name: "Ethernet3", Number: 3}, {Name: "Ethernet4", Number: 4},
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{DeviceID: testDevice, Ports: ports, Now: func() int64 { return d.now }, CPUPort: cpuPort, Load: loadOnce}
	if change != nil {
		change(&cfg)
	}
	if d.core, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	if d.gn, err = gnmi.New(gnmi.Config{Ports: ports, Now: cfg.Now}); err != nil {
		t.Fatal(err)
	}
	d.ports = ports
	return d
}

// serve puts the device behind gRPC on the listener of dial, with which
// clients reach it.
func (d *device) serve(lis net.Listener, dial func(context.Context, string) (net.Conn, error)) *device {
	t := d.t
	t.Helper()
	srv := grpc.NewServer(rpc.Options(rpc.Budget{LargeRPCsPerClient: 3}, nil)...) // three at a time, each of which waits for answers, are let in
	shell, telemetry := NewServer(&d.mu, d.core), gnmi.NewServer(&d.mu, d.gn)
	shell.Register(srv)
	telemetry.Register(srv)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := shell.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
	wg.Go(func() {
		if err := telemetry.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
	wg.Go(func() {
		if err := srv.Serve(lis); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	opts := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	target := lis.Addr().String()
	if dial != nil {
		opts = append(opts, grpc.WithContextDialer(dial))
		target = "passthrough:switch"
	}
	conn, err := grpc.NewClient(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	d.p4rt, d.gnmi = p4.NewP4RuntimeClient(conn), gnmipb.NewGNMIClient(conn)
	t.Cleanup(func() {
		conn.Close() //nolint:errcheck // the test is over
		cancel()
		srv.Stop()
		wg.Wait()
	})
	return d
}

func (d *device) overBufconn() *device {
	lis := bufconn.Listen(1 << 16)
	return d.serve(lis, func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) })
}

func (d *device) overTCP() *device {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		d.t.Skipf("no TCP on the loopback: %v", err)
	}
	return d.serve(lis, nil)
}

// onBoth runs a test on a device called directly and on one behind gRPC.
func onBoth(t *testing.T, change func(*Config), test func(*testing.T, *device)) {
	t.Helper()
	t.Run("direct", func(t *testing.T) { test(t, newDevice(t, change)) })
	t.Run("grpc", func(t *testing.T) { test(t, newDevice(t, change).overBufconn()) })
}

func (d *device) write(req *p4.WriteRequest) error {
	if d.p4rt != nil {
		_, err := d.p4rt.Write(context.Background(), req)
		return err
	}
	return d.core.Write(req)
}

func (d *device) read(req *p4.ReadRequest) ([]*p4.Entity, error) {
	var out []*p4.Entity
	if d.p4rt == nil {
		err := d.core.Read(req, func(r *p4.ReadResponse) error {
			out = append(out, r.GetEntities()...)
			return nil
		})
		return out, err
	}
	stream, err := d.p4rt.Read(context.Background(), req)
	if err != nil {
		return nil, err
	}
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, r.GetEntities()...)
	}
}

func (d *device) setPipeline(req *p4.SetForwardingPipelineConfigRequest) error {
	if d.p4rt != nil {
		_, err := d.p4rt.SetForwardingPipelineConfig(context.Background(), req)
		return err
	}
	_, err := d.core.SetForwardingPipelineConfig(req)
	return err
}

// session is one StreamChannel.
type session struct {
	t *testing.T

	stream *Stream // direct
	queue  []*p4.StreamMessageResponse
	err    error

	client p4.P4Runtime_StreamChannelClient // over gRPC
	cancel context.CancelFunc
}

func (d *device) open() *session {
	s := &session{t: d.t}
	if d.p4rt == nil {
		s.stream = d.core.OpenStream(func(m *p4.StreamMessageResponse) error {
			s.queue = append(s.queue, m)
			return nil
		})
		return s
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.t.Cleanup(cancel)
	client, err := d.p4rt.StreamChannel(ctx)
	if err != nil {
		d.t.Fatal(err)
	}
	s.client, s.cancel = client, cancel
	return s
}

func (s *session) send(m *p4.StreamMessageRequest) {
	s.t.Helper()
	if s.client != nil {
		if err := s.client.Send(m); err != nil && !errors.Is(err, io.EOF) {
			s.t.Fatal(err)
		}
		return
	}
	if s.err == nil {
		if s.err = s.stream.Recv(m); s.err != nil {
			s.stream.Close()
		}
	}
}

// recv returns the next message, or why there is none.
func (s *session) recv() (*p4.StreamMessageResponse, error) {
	if s.client != nil {
		return s.client.Recv()
	}
	if len(s.queue) > 0 {
		m := s.queue[0]
		s.queue = s.queue[1:]
		return m, nil
	}
	if s.err != nil {
		return nil, s.err
	}
	return nil, errors.New("no message")
}

// finish closes the stream and returns what still came.
func (s *session) finish() []*p4.StreamMessageResponse {
	s.t.Helper()
	if s.client == nil {
		s.stream.Close()
		rest := s.queue
		s.queue, s.err = nil, io.EOF
		return rest
	}
	if err := s.client.CloseSend(); err != nil {
		s.t.Fatal(err)
	}
	var rest []*p4.StreamMessageResponse
	for {
		m, err := s.client.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.t.Errorf("stream ended with %v", err)
			}
			return rest
		}
		rest = append(rest, m)
	}
}

// arbitration builds an arbitration update; id nil leaves the election id unset.
func arbitration(device uint64, roleName string, id *p4.Uint128) *p4.StreamMessageRequest {
	m := &p4.MasterArbitrationUpdate{DeviceId: device, ElectionId: id}
	if roleName != "" {
		m.Role = &p4.Role{Name: roleName}
	}
	return &p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Arbitration{Arbitration: m}}
}

func id(high uint64) *p4.Uint128 { return &p4.Uint128{High: high} }

// bid sends an arbitration update for the device under test and returns the
// code of the answer.
func (s *session) bid(id *p4.Uint128) codes.Code {
	s.t.Helper()
	s.send(arbitration(testDevice, "", id))
	return s.received()
}

// received returns the code of the next arbitration update.
func (s *session) received() codes.Code {
	s.t.Helper()
	m, err := s.recv()
	if err != nil {
		s.t.Fatalf("no arbitration update: %v", err)
	}
	if m.GetArbitration() == nil {
		s.t.Fatalf("got %v, want an arbitration update", m)
	}
	return codes.Code(m.GetArbitration().GetStatus().GetCode())
}

// ended returns the code that ended the stream.
func (s *session) ended() codes.Code {
	s.t.Helper()
	m, err := s.recv()
	if err == nil {
		s.t.Fatalf("got %v, want the stream to end", m)
	}
	return status.Code(err)
}

// primary opens a stream and makes it primary with election id 1.
func (d *device) primary() *session {
	d.t.Helper()
	s := d.open()
	if got := s.bid(&p4.Uint128{Low: 1}); got != codes.OK {
		d.t.Fatalf("the only controller is not primary: %v", got)
	}
	return s
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
}

// locked runs f with the core's lock, as the owner of the data plane does.
func (d *device) locked(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// enable sets a port's admin state by gNMI.
func (d *device) enable(port string, enabled bool) error {
	req := &gnmipb.SetRequest{Update: []*gnmipb.Update{{
		Path: portPath(port, "config", "enabled"), Val: &gnmipb.TypedValue{Value: &gnmipb.TypedValue_BoolVal{BoolVal: enabled}}}}}
	if d.gnmi != nil {
		_, err := d.gnmi.Set(context.Background(), req)
		return err
	}
	_, err := d.gn.Set(req)
	return err
}

func portPath(port string, below ...string) *gnmipb.Path {
	p := &gnmipb.Path{Elem: []*gnmipb.PathElem{{Name: "interfaces"}, {Name: "interface", Key: map[string]string{"name": port}}}}
	for _, name := range below {
		p.Elem = append(p.Elem, &gnmipb.PathElem{Name: name})
	}
	return p
}

// operStatus subscribes to the state of all ports over gRPC and returns what
// waits for the next change.
func (d *device) operStatus() (next func() string) {
	d.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d.t.Cleanup(cancel)
	stream, err := d.gnmi.Subscribe(ctx)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := stream.Send(&gnmipb.SubscribeRequest{Request: &gnmipb.SubscribeRequest_Subscribe{Subscribe: &gnmipb.SubscriptionList{
		Encoding:     gnmipb.Encoding_PROTO,
		Subscription: []*gnmipb.Subscription{{Path: portPath("*", "state", "oper-status"), Mode: gnmipb.SubscriptionMode_ON_CHANGE}}}}}); err != nil {
		d.t.Fatal(err)
	}
	recv := func() *gnmipb.SubscribeResponse {
		m, err := stream.Recv()
		if err != nil {
			d.t.Fatal(err)
		}
		return m
	}
	for !recv().GetSyncResponse() {
	}
	return func() string {
		u := recv().GetUpdate().GetUpdate()
		if len(u) != 1 {
			d.t.Fatalf("got %d updates, want 1", len(u))
		}
		return u[0].GetPath().GetElem()[1].GetKey()["name"] + " " + u[0].GetVal().GetStringVal()
	}
}
