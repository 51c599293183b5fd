package preflight

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/checklist"
)

// expiryWarning is the time before a certificate's end from which it is reported.
const expiryWarning = 30 * 24 * time.Hour

// certificates checks our own certificates.
func (c *checker) certificates() {
	if c.TLS == nil {
		for _, t := range c.Daemon.Targets {
			if !isLoopback(t.P4Runtime) {
				c.list.Add(checklist.Yellow, thisMachine, "tls", "off, and switches are not on this machine", "give --tls-ca, --tls-cert and --tls-key; scripts/lab-ca makes them")
				return
			}
		}
		c.list.Add(checklist.Green, thisMachine, "tls", "off; all switches are on this machine", "")
		return
	}
	for _, a := range c.Authorities {
		c.checkValidity(thisMachine, "authority "+a.Subject.CommonName, a)
	}
	for _, pair := range c.TLS.Certificates {
		if leaf, err := x509.ParseCertificate(pair.Certificate[0]); err == nil {
			c.checkValidity(thisMachine, "our certificate", leaf)
		}
	}
}

// isLoopback reports whether an address is on this machine.
func isLoopback(addr string) bool {
	if strings.HasPrefix(addr, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// checkValidity checks a certificate's validity period.
func (c *checker) checkValidity(subject, check string, cert *x509.Certificate) {
	now := c.Now()
	remedy := "make a new one: scripts/lab-ca"
	switch left := cert.NotAfter.Sub(now); {
	case now.Before(cert.NotBefore):
		c.list.Add(checklist.Red, subject, check, "valid only from "+cert.NotBefore.Format(time.DateTime), "set this machine's clock, or make a new one: scripts/lab-ca")
	case left <= 0:
		c.list.Add(checklist.Red, subject, check, "expired on "+cert.NotAfter.Format(time.DateTime), remedy)
	case left < expiryWarning:
		c.list.Add(checklist.Yellow, subject, check, fmt.Sprintf("expires in %d days", int(left/(24*time.Hour))), remedy)
	default:
		c.list.Add(checklist.Green, subject, check, "good until "+cert.NotAfter.Format(time.DateOnly), "")
	}
}

// peerCertificate checks a server's certificate. A missing or untrusted certificate is reported where the server is
// asked.
func (c *checker) peerCertificate(ctx context.Context, addr, subject string) {
	if c.TLS == nil || strings.HasPrefix(addr, "unix:") {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit())
	defer cancel()
	d := tls.Dialer{Config: c.TLS.Clone()}
	d.Config.InsecureSkipVerify = true //nolint:gosec // only its dates are looked at; nothing is said over it
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close() //nolint:errcheck // nothing was said
	if tc, ok := conn.(*tls.Conn); ok && len(tc.ConnectionState().PeerCertificates) > 0 {
		c.checkValidity(subject, "certificate", tc.ConnectionState().PeerCertificates[0])
	}
}
