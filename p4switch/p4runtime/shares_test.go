package p4runtime

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	gnmipb "github.com/openconfig/gnmi/proto/gnmi"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/ethereal-fabric/ethereal/internal/certs"
	"github.com/ethereal-fabric/ethereal/internal/certs/certstest"
	"github.com/ethereal-fabric/ethereal/internal/introspect"
	"github.com/ethereal-fabric/ethereal/p4switch/gnmi"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// office is a switch behind gRPC, as its process serves it, and its clients.
type office struct {
	t         *testing.T
	addr      string
	srv       *grpc.Server
	authority *tls.Certificate // nil: no TLS
}

func newOffice(t *testing.T, overTLS bool) *office {
	d := newDevice(t, nil)
	d.ready() // without gRPC
	o := &office{t: t}
	opts := rpc.Options(rpc.Budget{}, certs.RoleOf)
	if overTLS {
		o.authority = certstest.Issue(t, t.TempDir(), "ca", nil, nil)
		opts = append(append(opts, o.files(certs.Identity{Role: certs.Switch, Name: "tor0"}).Authorize()...),
			grpc.Creds(o.files(certs.Identity{Role: certs.Switch, Name: "tor0"}).Server()))
	}
	o.srv = grpc.NewServer(opts...)
	p4Server, gnmiServer := NewServer(&d.mu, d.core), gnmi.NewServer(&d.mu, d.gn)
	p4Server.Register(o.srv)
	gnmiServer.Register(o.srv)
	introspect.Register(o.srv)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skipf("no TCP on the loopback: %v", err)
	}
	o.addr = lis.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { p4Server.Run(ctx) })   //nolint:errcheck // it ends with the test
	wg.Go(func() { gnmiServer.Run(ctx) }) //nolint:errcheck // likewise
	wg.Go(func() { o.srv.Serve(lis) })    //nolint:errcheck // likewise
	t.Cleanup(func() { cancel(); o.srv.Stop(); wg.Wait() })
	return o
}

func (o *office) files(id certs.Identity) *certs.Files {
	own := certstest.Issue(o.t, o.t.TempDir(), "x", o.authority, func(c *x509.Certificate) { c.URIs = append(c.URIs, id.URI()) })
	roots := x509.NewCertPool()
	roots.AddCert(o.authority.Leaf)
	return &certs.Files{Roots: roots, Own: []tls.Certificate{*own}}
}

// client connects as the holder of a certificate, or, without TLS, as anybody.
func (o *office) client(role certs.Role, name string) *grpc.ClientConn {
	o.t.Helper()
	creds := insecure.NewCredentials()
	if o.authority != nil {
		creds = credentials.NewTLS(o.files(certs.Identity{Role: role, Name: name}).ClientConfig("localhost"))
	}
	conn, err := grpc.NewClient(o.addr, grpc.WithTransportCredentials(creds))
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { conn.Close() }) //nolint:errcheck // the test is over
	return conn
}

// bid asks to be primary, and returns the answer.
func (o *office) bid(ctx context.Context, conn *grpc.ClientConn, election uint64) codes.Code {
	s, err := p4.NewP4RuntimeClient(conn).StreamChannel(ctx)
	if err != nil {
		return status.Code(err)
	}
	s.Send(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Arbitration{Arbitration: &p4.MasterArbitrationUpdate{ //nolint:errcheck // Recv sees it
		DeviceId: testDevice, ElectionId: &p4.Uint128{Low: election},
	}}})
	m, err := s.Recv()
	if err != nil {
		return status.Code(err)
	}
	return codes.Code(m.GetArbitration().GetStatus().GetCode())
}

// hold makes calls of a kind that last, until the context ends, and returns how many the switch holds.
func (o *office) hold(ctx context.Context, conn *grpc.ClientConn, kind string, n int) (held int) {
	o.t.Helper()
	for range n {
		var err error
		var s grpc.ClientStream
		switch kind {
		case "watch":
			if s, err = healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{}); err == nil {
				err = s.RecvMsg(&healthpb.HealthCheckResponse{})
			}
		case "subscribe":
			if s, err = gnmipb.NewGNMIClient(conn).Subscribe(ctx); err == nil {
				s.SendMsg(&gnmipb.SubscribeRequest{Request: &gnmipb.SubscribeRequest_Subscribe{Subscribe: &gnmipb.SubscriptionList{}}}) //nolint:errcheck // RecvMsg sees it
				err = s.RecvMsg(&gnmipb.SubscribeResponse{})
			}
		case "silent": // it is admitted once it is answered
			if s, err = p4.NewP4RuntimeClient(conn).StreamChannel(ctx); err == nil {
				s.SendMsg(&p4.StreamMessageRequest{}) //nolint:errcheck // likewise
				err = s.RecvMsg(&p4.StreamMessageResponse{})
			}
		}
		switch {
		case err == nil:
			held++
		case status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "over the budget channels of"):
			o.t.Fatalf("%s: %v", kind, err)
		}
	}
	return held
}

// works makes the calls of a primary.
func (o *office) works(conn *grpc.ClientConn, election uint64) error {
	client, ctx := p4.NewP4RuntimeClient(conn), o.t.Context()
	var errs []error
	for _, typ := range []p4.Update_Type{p4.Update_INSERT, p4.Update_DELETE} {
		u := insert(o.t, macEntry)
		u.Type = typ
		_, err := client.Write(ctx, &p4.WriteRequest{DeviceId: testDevice, ElectionId: &p4.Uint128{Low: election}, Updates: []*p4.Update{u}})
		errs = append(errs, err)
	}
	_, err := client.Capabilities(ctx, &p4.CapabilitiesRequest{})
	_, gerr := gnmipb.NewGNMIClient(conn).Capabilities(ctx, &gnmipb.CapabilityRequest{})
	s, serr := gnmipb.NewGNMIClient(conn).Subscribe(ctx)
	if serr == nil {
		s.Send(&gnmipb.SubscribeRequest{Request: &gnmipb.SubscribeRequest_Subscribe{Subscribe: &gnmipb.SubscriptionList{ //nolint:errcheck // Recv sees it
			Mode: gnmipb.SubscriptionList_ONCE, Subscription: []*gnmipb.Subscription{{Path: &gnmipb.Path{}}},
		}}})
		_, serr = s.Recv()
	}
	return errors.Join(append(errs, err, gerr, serr)...)
}

// TestLockout has holders of every kind of certificate keep as many calls open as they can: the primary goes on, and
// so does each other role.
func TestLockout(t *testing.T) {
	o := newOffice(t, true)
	ctx := t.Context()
	first := o.client(certs.Controller, "")
	if code := o.bid(ctx, first, 5); code != codes.OK {
		t.Fatal(code)
	}
	hold := func(role certs.Role, name, kind string) {
		n := o.hold(ctx, o.client(role, name), kind, 20) + o.hold(ctx, o.client(role, name), kind, 20)
		if n == 0 || n > 8 { // shares are 4 and 6
			t.Errorf("%s holds %d calls of 40", role, n)
		}
		if err := o.works(first, 5); err != nil {
			t.Errorf("%s holds calls: the primary: %v", role, err)
		}
	}
	hold(certs.Host, "h0", "watch")
	hold(certs.Switch, "tor1", "watch")
	hold(certs.Operator, "", "watch")
	// A controller that starts takes over.
	second := o.client(certs.Controller, "")
	if code := o.bid(ctx, second, 6); code != codes.OK {
		t.Fatalf("a second controller: %v", code)
	}
	if err := o.works(second, 6); err != nil {
		t.Error(err)
	}
	first = second
	hold2 := o.hold(ctx, o.client(certs.Controller, ""), "silent", 40)
	if err := o.works(second, 6); err != nil || hold2 == 0 {
		t.Errorf("a standby holds %d streams: the primary: %v", hold2, err)
	}
}

// TestLockoutAnonymous is without TLS, where one local program's calls have the same party as another's.
func TestLockoutAnonymous(t *testing.T) {
	for _, kind := range []string{"watch", "silent"} {
		o := newOffice(t, false)
		ctx, cancel := context.WithCancel(t.Context())
		conn := o.client("", "")
		if code := o.bid(ctx, conn, 5); code != codes.OK {
			t.Fatal(code)
		}
		if n := o.hold(ctx, o.client("", ""), kind, 30) + o.hold(ctx, o.client("", ""), kind, 30); n == 0 || n == 60 {
			t.Errorf("%s: %d held", kind, n)
		}
		if err := o.works(conn, 5); err != nil {
			t.Errorf("%s: the primary: %v", kind, err)
		}
		cancel()
	}
}

// TestStandbyWrites has standbys send large Writes, which are refused, as fast as they can: none of the primary's is.
func TestStandbyWrites(t *testing.T) {
	for _, overTLS := range []bool{true, false} {
		o := newOffice(t, overTLS)
		ctx, cancel := context.WithCancel(t.Context())
		conn := o.client(certs.Controller, "")
		if code := o.bid(ctx, conn, 5); code != codes.OK {
			t.Fatal(code)
		}
		large := &p4.WriteRequest{DeviceId: testDevice, ElectionId: &p4.Uint128{Low: 4}}
		for range 100 {
			large.Updates = append(large.Updates, insert(t, macEntry))
		}
		var wg sync.WaitGroup
		for range 2 {
			standby := o.client(certs.Controller, "")
			for range 4 {
				wg.Go(func() {
					for ctx.Err() == nil {
						p4.NewP4RuntimeClient(standby).Write(ctx, large) //nolint:errcheck // it is refused
					}
				})
			}
		}
		for i := range 20 {
			if err := o.works(conn, 5); err != nil {
				t.Errorf("TLS %v, round %d: %v", overTLS, i, err)
				break
			}
		}
		cancel()
		wg.Wait()
	}
}

// TestLasting compares the list of lasting calls with the services.
func TestLasting(t *testing.T) {
	o := newOffice(t, false)
	for name, info := range o.srv.GetServiceInfo() {
		for _, m := range info.Methods {
			method := "/" + name + "/" + m.Name
			streams := (m.IsClientStream || m.IsServerStream) && method != "/p4.v1.P4Runtime/Read"
			if rpc.IsLongLived(method) != streams {
				t.Errorf("%s: lasts %v, want %v", method, rpc.IsLongLived(method), streams)
			}
		}
	}
}
