package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/certs"
	"github.com/ethereal-fabric/ethereal/internal/certs/certstest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// lines is what a process writes.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// String returns what was written.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestSwitchRenews renews the certificate of a switch's process, and breaks its file. SIGHUP ends the process neither
// time: it serves the renewed certificate, and logs which file is broken.
func TestSwitchRenews(t *testing.T) {
	systemtest.Only(t)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	ca := certstest.Issue(t, dir, "ca", nil, nil)
	issue := func() string {
		role := func(c *x509.Certificate) { c.URIs = []*url.URL{certs.Identity{Role: certs.Switch}.URI()} }
		return certstest.Issue(t, dir, "server", ca, role).Leaf.SerialNumber.String()
	}
	first := issue()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var log lines
	p := exec.Command(exe, "switch", "--no-p4", "--log-console", "--log-level", "info", "--", "--grpc-server-addr", "unix:"+file("grpc"),
		"--grpc-server-ssl", "--grpc-server-cert", file("server.pem"), "--grpc-server-key", file("server.key"))
	p.Env, p.Stdout, p.Stderr = append(os.Environ(), beEthereal+"=1"), &log, &log
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	t.Cleanup(func() { p.Process.Kill() }) //nolint:errcheck // it may have ended
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	serial := func() string { // "": it does not serve yet
		c, err := net.Dial("unix", file("grpc"))
		if err != nil {
			return ""
		}
		defer c.Close() //nolint:errcheck // nothing is pending
		s := tls.Client(c, &tls.Config{RootCAs: roots, ServerName: "server", MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}})
		if err := s.Handshake(); err != nil {
			t.Fatalf("handshake: %v\n%s", err, log.String())
		}
		return s.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	until := func(what string, holds func() bool) {
		t.Helper()
		for limit := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
			select {
			case err := <-ended:
				t.Fatalf("the switch has ended: %v\n%s", err, log.String())
			default:
			}
			if time.Now().After(limit) {
				t.Fatalf("not within a minute: %s\n%s", what, log.String())
			}
		}
	}
	hangUp := func() {
		t.Helper()
		if err := p.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	until("it serves", func() bool { return serial() == first })
	second := issue()
	until("the log says that certificates were renewed", func() bool {
		hangUp()
		return strings.Contains(log.String(), "certificates were renewed")
	})
	if got := serial(); got != second {
		t.Errorf("it serves the certificate %s, want the renewed %s, not %s", got, second, first)
	}
	if err := os.WriteFile(file("server.pem"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	until("the log names the broken file's flag", func() bool {
		hangUp()
		return strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), "--grpc-server-cert")
	})
	if got := serial(); got != second {
		t.Errorf("with a broken file it serves the certificate %s instead of %s", got, second)
	}
}
