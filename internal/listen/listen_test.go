package listen_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/internal/certs"
	"github.com/ethereal-fabric/ethereal/internal/listen"
)

// TestForeignNames: a server at a loopback address answers only requests under a loopback name, as a site whose name
// leads to this machine would otherwise read the answers. Browsers do not reach UNIX sockets.
func TestForeignNames(t *testing.T) {
	files, err := certs.Read("", "", "")
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "ethereal-test-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary
	local, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	g, ctx := errgroup.WithContext(ctx)
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "status") })
	listen.Serve(ctx, g, listen.Server(answer, files), tcp)
	listen.Serve(ctx, g, listen.Server(answer, files), local)
	_, port, _ := net.SplitHostPort(tcp.Addr().String())
	for _, c := range []struct {
		at   net.Addr
		host string
		want int
	}{
		{tcp.Addr(), tcp.Addr().String(), http.StatusOK},
		{tcp.Addr(), "localhost:" + port, http.StatusOK},
		{tcp.Addr(), "[::1]:9000", http.StatusOK}, // by ssh -L
		{tcp.Addr(), "rebound.example", http.StatusMisdirectedRequest},
		{tcp.Addr(), "rebound.example:" + port, http.StatusMisdirectedRequest},
		{tcp.Addr(), "127.0.0.1.rebound.example:" + port, http.StatusMisdirectedRequest},
		{local.Addr(), "localhost", http.StatusOK},
		{local.Addr(), "switch", http.StatusOK},
	} {
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, c.at.Network(), c.at.String())
		}}
		req := httptest.NewRequest(http.MethodGet, "http://"+c.host+"/status", nil)
		req.RequestURI = ""
		r, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close() //nolint:errcheck // the status says it
		transport.CloseIdleConnections()
		if r.StatusCode != c.want {
			t.Errorf("%v as %s: %s, not %d", c.at, c.host, r.Status, c.want)
		}
	}
	cancel()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}
