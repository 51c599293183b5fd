package certs

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/certs/certstest"
)

// TestHandshake: both sides of the files of one authority know each other; one
// without a certificate, or with another authority's, is refused.
func TestHandshake(t *testing.T) {
	dir := t.TempDir()
	ca := certstest.Issue(t, dir, "ca", nil, nil)
	certstest.Issue(t, dir, "tor0", ca, nil)
	certstest.Issue(t, dir, "ctl0", ca, nil)
	other := certstest.Issue(t, dir, "other", nil, nil)
	certstest.Issue(t, dir, "stranger", other, nil)
	read := func(ca, own string) *Files {
		t.Helper()
		cert, key := "", ""
		if own != "" {
			cert, key = filepath.Join(dir, own+".pem"), filepath.Join(dir, own+".key")
		}
		f, err := Read(filepath.Join(dir, ca+".pem"), cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	server := read("ca", "tor0").ServerConfig()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	deadline := time.Now().Add(20 * time.Second)
	for _, c := range []struct {
		what   string
		client *tls.Config
		ok     bool
	}{
		{"of the same authority", read("ca", "ctl0").ClientConfig("tor0"), true},
		{"that expects another name", read("ca", "ctl0").ClientConfig("tor1"), false},
		{"without a certificate", read("ca", "").ClientConfig("tor0"), false},
		{"that trusts another authority", read("other", "ctl0").ClientConfig("tor0"), false},
		{"with another authority's certificate", read("ca", "stranger").ClientConfig("tor0"), false},
	} {
		served := make(chan error, 1)
		go func() {
			conn, err := listener.Accept()
			if err == nil {
				err = errors.Join(conn.SetDeadline(deadline), tls.Server(conn, server).Handshake(), conn.Close())
			}
			served <- err
		}()
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(conn.SetDeadline(deadline), tls.Client(conn, c.client).Handshake(), conn.Close(), <-served)
		if (err == nil) != c.ok {
			t.Errorf("a client %s: %v", c.what, err)
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	ca := certstest.Issue(t, dir, "ca", nil, nil)
	certstest.Issue(t, dir, "tor0", ca, nil)
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(file("empty.pem"), []byte("no certificate\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ ca, cert, key, want string }{
		{file("ca.pem"), file("tor0.pem"), "", "go together"},
		{"", file("tor0.pem"), file("tor0.key"), "needs tls-ca"},
		{file("none.pem"), "", "", "tls-ca"},
		{file("empty.pem"), "", "", "holds no PEM certificate"},
		{file("ca.pem"), file("tor0.pem"), file("ca.key"), "tls-cert, tls-key"},
	} {
		if _, err := Read(c.ca, c.cert, c.key); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	f, err := Read("", "", "")
	if err != nil || f.ClientConfig("") != nil || f.ServerConfig() != nil || f.Client("").Info().SecurityProtocol != "insecure" {
		t.Errorf("without files: %+v, %v", f, err)
	}
	f, err = Read(file("ca.pem"), "", "")
	if err != nil || f.Mutual() || f.ServerConfig() != nil || len(f.Authorities) != 1 || f.Authorities[0].Subject.CommonName != "ca" {
		t.Errorf("an authority alone: %+v, %v", f, err)
	}
}
