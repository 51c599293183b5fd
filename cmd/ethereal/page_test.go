package main

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/controller/view"
	"github.com/ethereal-fabric/ethereal/controller/view/viewhttp"
	"github.com/ethereal-fabric/ethereal/internal/certs"
	"github.com/ethereal-fabric/ethereal/internal/listen"
)

// TestPageCertificates: beyond the loopback the page is for those who have an operator's certificate and know its path.
func TestPageCertificates(t *testing.T) {
	dir := t.TempDir()
	labCA(t, dir)
	read := func(name string) *certs.Files {
		t.Helper()
		files, err := certs.Read(filepath.Join(dir, "ca.pem"), filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	operator, host := read("node"), read("h0")
	page := viewhttp.NewServer(func() (*view.Page, error) { return &view.Page{Title: "certain"}, nil }, nil)
	srv := listen.Server(page, operator)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.ServeTLS(lis, "", "") //nolint:errcheck // it ends with the test
	t.Cleanup(func() { srv.Close() })
	without := &tls.Config{RootCAs: operator.Roots}
	for _, c := range []struct {
		name string
		tls  *tls.Config
		path string
		want int // 0: no connection
	}{
		{"operator", operator.ClientConfig(""), page.Path(), http.StatusOK},
		{"operator without the secret", operator.ClientConfig(""), "/", http.StatusNotFound},
		{"host", host.ClientConfig(""), page.Path(), http.StatusForbidden},
		{"no certificate", without, page.Path(), 0},
	} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: c.tls, DisableKeepAlives: true}}
		r, err := client.Get("https://" + lis.Addr().String() + c.path)
		if err != nil {
			if c.want != 0 {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		text, err := io.ReadAll(r.Body)
		if r.Body.Close(); err != nil || r.StatusCode != c.want || strings.Contains(string(text), "certain") != (c.want == http.StatusOK) {
			t.Errorf("%s: %s, %v, want %d", c.name, r.Status, err, c.want)
		}
	}
	if r, err := http.Get("http://" + lis.Addr().String() + page.Path()); err == nil && r.StatusCode == http.StatusOK {
		t.Error("it is served without TLS")
	}
}
