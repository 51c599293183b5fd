package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	gnmi "github.com/openconfig/gnmi/proto/gnmi"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/ethereal-fabric/ethereal/fabric/staterpc"
	"github.com/ethereal-fabric/ethereal/internal/certs/certstest"
	"github.com/ethereal-fabric/ethereal/internal/introspect"
)

// authority issues certificates that say what their holders are.
type authority struct {
	t    *testing.T
	dir  string
	cert *tls.Certificate
}

func newAuthority(t *testing.T) *authority {
	dir := t.TempDir()
	return &authority{t, dir, certstest.Issue(t, dir, "ca", nil, nil)}
}

func (a *authority) files(uris ...string) *Files {
	a.t.Helper()
	own := certstest.Issue(a.t, a.dir, "x", a.cert, func(c *x509.Certificate) {
		for _, u := range uris {
			parsed, err := url.Parse(u)
			if err != nil {
				a.t.Fatal(err)
			}
			c.URIs = append(c.URIs, parsed)
		}
	})
	roots := x509.NewCertPool()
	roots.AddCert(a.cert.Leaf)
	return &Files{Roots: roots, Own: []tls.Certificate{*own}}
}

// holders are certificates by what they say.
func holders() map[string][]string {
	return map[string][]string{
		"controller": {"spiffe://ethereal/controller"},
		"operator":   {"spiffe://ethereal/operator"},
		"host":       {"spiffe://ethereal/host/h0"},
		"switch":     {"spiffe://ethereal/switch/tor0"},
		"none":       nil,
		"elsewhere":  {"spiffe://elsewhere/controller", "https://ethereal/controller"},
		"nonsense":   {"spiffe://ethereal/root"},
		"nameless":   {"spiffe://ethereal/host"},
		"two":        {"spiffe://ethereal/host/h0", "spiffe://ethereal/operator"},
	}
}

// Every RPC of every service, by every kind of certificate, over TLS.
func TestRoleMatrix(t *testing.T) {
	a := newAuthority(t)
	server := a.files("spiffe://ethereal/switch/tor0")
	srv := grpc.NewServer(append(server.Authorize(), grpc.Creds(server.Server()))...)
	p4.RegisterP4RuntimeServer(srv, p4.UnimplementedP4RuntimeServer{})
	gnmi.RegisterGNMIServer(srv, gnmi.UnimplementedGNMIServer{})
	staterpc.RegisterFabricStateServer(srv, staterpc.UnimplementedFabricStateServer{})
	staterpc.RegisterControllersServer(srv, staterpc.UnimplementedControllersServer{})
	introspect.Register(srv)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(lis) }()
	defer func() { srv.Stop(); <-done }()
	calls := 0
	for holder, uris := range holders() {
		conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(a.files(uris...).ClientConfig("localhost"))))
		if err != nil {
			t.Fatal(err)
		}
		for name, info := range srv.GetServiceInfo() {
			for _, m := range info.Methods {
				call := "/" + name + "/" + m.Name
				want := codes.PermissionDenied
				for _, r := range rules {
					may := func(role Role) bool { return slices.Contains(r.roles, role) }
					if r.call == call && (may(Role(holder)) || holder == "two" && (may(Host) || may(Operator))) {
						want = codes.Unimplemented // and so it was let through
					}
				}
				if rolesFor(call) == nil {
					t.Errorf("%s is in no rule", call)
				}
				calls++
				got := status.Code(invoke(t, conn, call, m))
				if strings.HasPrefix(call, "/grpc.") && want != got && got != codes.PermissionDenied {
					got = codes.Unimplemented // it has an answer to a message without content
				}
				if got != want {
					t.Errorf("%s by %s: %v, want %v", call, holder, got, want)
				}
			}
		}
		conn.Close() //nolint:errcheck // nothing is pending
	}
	t.Logf("%d calls", calls)
}

func invoke(t *testing.T, conn *grpc.ClientConn, call string, m grpc.MethodInfo) error {
	if !m.IsClientStream && !m.IsServerStream {
		return conn.Invoke(t.Context(), call, &emptypb.Empty{}, &emptypb.Empty{})
	}
	s, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, call)
	if err != nil {
		return err
	}
	if err := s.SendMsg(&emptypb.Empty{}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	return s.RecvMsg(&emptypb.Empty{})
}

// The same of HTTP.
func TestRoleMatrixHTTP(t *testing.T) {
	a := newAuthority(t)
	server := a.files("spiffe://ethereal/controller")
	srv := httptest.NewUnstartedServer(server.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	srv.TLS = server.ServerConfig()
	srv.StartTLS()
	defer srv.Close()
	yes := map[string]string{
		"GET /healthz": "controller operator host switch two", "GET /readyz": "controller operator host switch two",
		"GET /status": "controller operator two", "GET /metrics": "controller operator two", "POST /drain": "controller operator two",
		"POST /cabling": "controller operator two", "DELETE /drain": "", "PUT /healthz": "",
	}
	for holder, uris := range holders() {
		c := http.Client{Transport: &http.Transport{TLSClientConfig: a.files(uris...).ClientConfig("localhost"), DisableKeepAlives: true}}
		for call, who := range yes {
			method, path, _ := strings.Cut(call, " ")
			req, err := http.NewRequest(method, srv.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close() //nolint:errcheck // nothing is in it
			if got, want := r.StatusCode == http.StatusOK, slices.Contains(strings.Fields(who), holder); got != want {
				t.Errorf("%s by %s: %v, want let through: %v", call, holder, r.Status, want)
			}
		}
	}
}

// Trust of the authority alone is there when it is asked for.
func TestAnyRole(t *testing.T) {
	a := newAuthority(t)
	f := a.files()
	f.AnyRole = true
	if f.Authorize() != nil {
		t.Error("calls are held against the table")
	}
	f.AnyRole = false
	if f.Authorize() == nil {
		t.Error("calls are not held against the table")
	}
	if (&Files{}).Authorize() != nil {
		t.Error("calls without certificates are held against the table")
	}
}
