package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// renews carries out docs/operations.md's renewal by a new authority on the whole lab, beside work: controllers,
// switches and agents keep every session, offer the new certificates to new ones, and their metrics say when these
// expire.
func (l *labPage) renews(work func() error) {
	t := l.t
	t.Helper()
	next := filepath.Join(l.dir, "next")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	l.must("cd " + root + "\n" + strings.ReplaceAll(l.block("scripts/lab-ca "), l.dir, next))
	done := make(chan error, 1)
	sessions := l.sessions()
	// Two controllers at each switch by P4Runtime and gNMI, and at least one session of each agent.
	if want := 2*l.f.Switches() + l.f.Hosts(); len(sessions) < want {
		t.Fatalf("%d sessions, want %d or more: %v", len(sessions), want, sessions)
	}
	go func() { done <- work() }()
	l.replace("ca.pem", append(l.pem(filepath.Join(l.dir, "ca.pem")), l.pem(filepath.Join(next, "ca.pem"))...))
	files, err := filepath.Glob(next + "/*.pem")
	if err != nil || len(files) < l.f.Hosts()+l.f.Switches()+3 {
		t.Fatalf("files %v, error %v", files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".pem")
		if name == "ca" {
			continue
		}
		if old := l.certificate(name + ".pem"); old.SerialNumber.Cmp(l.certificate("next/"+name+".pem").SerialNumber) == 0 {
			t.Fatalf("%s is not renewed", name)
		}
		l.replace(name+".key", l.pem(filepath.Join(next, name+".key")))
		l.replace(name+".pem", l.pem(file))
	}
	began := time.Now()
	for name, admin := range l.adminAddresses() {
		l.expires(name, admin, "own", l.certificate(l.certOf(name)).NotAfter)
	}
	took := time.Since(began)
	l.replace("ca.pem", l.pem(filepath.Join(next, "ca.pem")))
	for name, admin := range l.adminAddresses() {
		l.expires(name, admin, "authority", l.certificate("next/ca.pem").NotAfter)
		l.serves(name, admin)
	}
	for i := range l.f.Switches() {
		id := l.switchID(i)
		l.serves(l.f.Name(id), l.address(id)+":9559")
	}
	l.serves("ctl0", "192.0.2.1:9562")
	l.serves("ctl1", "192.0.2.2:9562")
	if err := <-done; err != nil {
		t.Errorf("work beside the renewal: %v", err)
	}
	now := l.sessions()
	for _, s := range sessions {
		if !slices.Contains(now, s) {
			t.Errorf("the session %s has ended", s)
		}
	}
	t.Logf("%d sessions kept; all metrics had the new expiry after %.1f s", len(sessions), took.Seconds())
	// Nothing accepts the former authority any more, so controllers and this switch get together by new certificates
	// only.
	spine := l.switchID(l.f.ToRs())
	l.kill(l.f.Name(spine))
	l.startLabSwitch(spine)
}

// sessions returns the TCP connections to switches and controllers, as the kernel of the management network lists them.
func (l *labPage) sessions() (out []string) {
	l.t.Helper()
	text, err := os.ReadFile("/proc/self/net/tcp")
	if err != nil {
		l.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		// Of "sl local remote state": an established one of the ports 9559 and 9562.
		w := strings.Fields(line)
		if len(w) < 4 || w[3] != "01" {
			continue
		}
		if _, port, _ := strings.Cut(w[1], ":"); port == "2557" || port == "255A" {
			out = append(out, w[2]+" at "+w[1])
		}
	}
	return out
}

func (l *labPage) pem(path string) []byte {
	l.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		l.t.Fatal(err)
	}
	return text
}

// replace replaces one of the lab's files at once, as docs/operations.md says.
func (l *labPage) replace(name string, text []byte) {
	l.t.Helper()
	path := filepath.Join(l.dir, name)
	err := os.WriteFile(path+".new", text, 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// certificate returns the first one in one of the lab's files.
func (l *labPage) certificate(name string) *x509.Certificate {
	l.t.Helper()
	block, _ := pem.Decode(l.pem(filepath.Join(l.dir, name)))
	if block == nil {
		l.t.Fatalf("%s has no PEM", name)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		l.t.Fatalf("%s: %v", name, err)
	}
	return c
}

// certOf names the file of a process's certificate.
func (l *labPage) certOf(name string) string {
	if name == "ctl0" {
		return "controller.pem"
	}
	return name + ".pem"
}

// adminAddresses returns where each process serves its metrics.
func (l *labPage) adminAddresses() map[string]string {
	out := map[string]string{"ctl0": "192.0.2.1:9560", "ctl1": "192.0.2.2:9560"}
	for i := range l.f.Nodes() {
		id, port := fabric.NodeID(i), ":9558"
		if i < l.f.Hosts() {
			port = ":9561"
		}
		out[l.f.Name(id)] = l.address(id) + port
	}
	return out
}

// client returns the settings of an operator who does not look whom the servers are.
func (l *labPage) client() *tls.Config {
	l.t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(l.dir, "alice.pem"), filepath.Join(l.dir, "alice.key"))
	if err != nil {
		l.t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true} //nolint:gosec // serves compares
}

// serves checks that a server offers the certificate that is in its file.
func (l *labPage) serves(name, address string) {
	l.t.Helper()
	cfg := l.client()
	cfg.NextProtos = []string{"h2", "http/1.1"}
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", address, cfg)
	if err != nil {
		l.t.Fatalf("%s at %s: %v", name, address, err)
	}
	defer c.Close() //nolint:errcheck // nothing is pending
	if got, want := c.ConnectionState().PeerCertificates[0].Raw, l.certificate(l.certOf(name)).Raw; !bytes.Equal(got, want) {
		l.t.Errorf("%s at %s does not serve the certificate of its file, but %s", name, address, hex.EncodeToString(got[:16]))
	}
}

// expires waits until a process's metric has this time of expiry, of its own certificate or of the first authority's.
func (l *labPage) expires(name, admin, whose string, want time.Time) {
	l.t.Helper()
	transport := &http.Transport{TLSClientConfig: l.client()}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	metric := regexp.MustCompile(`(?m)^ethereal_certificate_expiry_timestamp_seconds\{certificate="` + whose + `"\} (.*)$`)
	l.until(time.Minute, name+"'s metric", func() error {
		resp, err := client.Get("https://" + admin + "/metrics")
		if err != nil {
			return err
		}
		defer resp.Body.Close() //nolint:errcheck // read to its end
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		m := metric.FindSubmatch(text)
		if m == nil {
			return fmt.Errorf("no expiry of its %s certificate:\n%.300s", whose, text)
		}
		if got, err := strconv.ParseFloat(string(m[1]), 64); err != nil || int64(got) != want.Unix() {
			return fmt.Errorf("%s expires at %s, want %d", whose, m[1], want.Unix())
		}
		return nil
	})
}
