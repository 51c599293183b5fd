package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/ethereal-fabric/ethereal/internal/certs/certstest"
)

// look has the files looked at, as a second later.
func (t *Files) look() error { _, err := t.reload(true); return err }

// renewable returns the certificates of a server, whose flags have a prefix, and of a client in dir, and what issues
// them anew.
func renewable(t *testing.T, dir, flags string) (issue func(), server, client *Files) {
	t.Helper()
	file := func(name string) string { return filepath.Join(dir, name) }
	issue = func() {
		ca := certstest.Issue(t, dir, "ca", nil, nil)
		certstest.Issue(t, dir, "server", ca, nil)
		certstest.Issue(t, dir, "client", ca, nil)
	}
	issue()
	server, err := ReadServer(flags, file("ca.pem"), file("server.pem"), file("server.key"), true)
	if err != nil {
		t.Fatal(err)
	}
	if client, err = Read(file("ca.pem"), file("client.pem"), file("client.key")); err != nil {
		t.Fatal(err)
	}
	return issue, server, client
}

// TestRenewal: a connection outlives the renewal of both sides' certificates and of their authority; the next one uses
// the new ones. A broken file changes nothing.
func TestRenewal(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	issue, server, client := renewable(t, dir, "grpc-server")
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(grpc.Creds(server.Server()))
	healthpb.RegisterHealthServer(srv, health.NewServer())
	go srv.Serve(lis)
	defer srv.Stop()
	dial := func() *grpc.ClientConn {
		c, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(client.Client("server")))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	serial := func(c *grpc.ClientConn) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var p peer.Peer
		if _, err := healthpb.NewHealthClient(c).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Peer(&p)); err != nil {
			t.Fatal(err)
		}
		return p.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].SerialNumber.String()
	}
	before := dial()
	first := serial(before)
	issue()
	if err := server.look(); err != nil {
		t.Fatal(err)
	}
	if err := client.look(); err != nil {
		t.Fatal(err)
	}
	second := serial(dial())
	if first == second || serial(before) != first {
		t.Errorf("serial numbers: %s; after the renewal %s, of the old connection %s", first, second, serial(before))
	}
	if err := os.WriteFile(file("server.pem"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := server.look(); err == nil || !strings.Contains(err.Error(), "--grpc-server-cert") {
		t.Errorf("a broken file: %v", err)
	}
	if got := serial(dial()); got != second {
		t.Errorf("with a broken file a connection has the certificate %s instead of %s", got, second)
	}
}

// TestRenewalHTTP: as TestRenewal, of an HTTP server and its client.
func TestRenewalHTTP(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	issue, server, client := renewable(t, dir, "admin")
	var seen atomic.Value // the client's certificate
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen.Store(r.TLS.PeerCertificates[0].SerialNumber.String())
	}))
	srv.TLS = server.ServerConfig()
	srv.StartTLS()
	defer srv.Close()
	dial := func() *http.Client {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: client.ClientConfig("server")}}
		t.Cleanup(c.CloseIdleConnections)
		return c
	}
	serials := func(c *http.Client) (pair [2]string) {
		t.Helper()
		r, err := c.Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		return [2]string{r.TLS.PeerCertificates[0].SerialNumber.String(), seen.Load().(string)}
	}
	before := dial()
	first := serials(before)
	issue()
	if err := errors.Join(server.look(), client.look()); err != nil {
		t.Fatal(err)
	}
	second := serials(dial())
	if first[0] == second[0] || first[1] == second[1] {
		t.Errorf("serial numbers of server and client: %v; after the renewal %v", first, second)
	}
	if got := serials(before); got != first {
		t.Errorf("the old connection had the certificates %v, and has %v after the renewal", first, got)
	}
	if err := os.WriteFile(file("server.key"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := server.look(); err == nil || !strings.Contains(err.Error(), "--admin-key") {
		t.Errorf("a broken file: %v", err)
	}
	if got := serials(dial()); got != second {
		t.Errorf("with a broken file a connection has the certificates %v instead of %v", got, second)
	}
}

// TestExpired: an error at the start names the file, its date, and what helps.
func TestExpired(t *testing.T) {
	dir := t.TempDir()
	end := time.Now().Add(-time.Minute)
	ca := certstest.Issue(t, dir, "ca", nil, nil)
	certstest.Issue(t, dir, "old", ca, func(c *x509.Certificate) { c.NotAfter = end })
	file := func(name string) string { return filepath.Join(dir, name) }
	_, err := Read(file("ca.pem"), file("old.pem"), file("old.key"))
	for _, want := range []string{file("old.pem"), stamp(end), "scripts/lab-ca"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %s is missing", err, want)
		}
	}
}

// TestWatch: the log warns of a certificate that expires.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	ca := certstest.Issue(t, dir, "ca", nil, nil)
	certstest.Issue(t, dir, "tor0", ca, nil)
	file := func(name string) string { return filepath.Join(dir, name) }
	f, err := Read(file("ca.pem"), file("tor0.pem"), file("tor0.key"))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Watch(slog.New(slog.NewTextHandler(&out, nil)))(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, want := range []string{"file=" + file("tor0.pem"), "file=" + file("ca.pem"), "days=0"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing:\n%s", want, out.String())
		}
	}
}
