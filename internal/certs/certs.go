// Package certs reads the files that TLS needs, for clients and servers: the authorities' certificates, the own
// certificate, and its key. Handshakes use the files' present content, so certificates are renewed by replacing the
// files. Certificates name their holder's identity, and servers check every call against one table of roles.
package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Files is TLS certificates and keys read from files. The zero value means no TLS. It is safe for concurrent use.
type Files struct {
	Roots       *x509.CertPool
	Authorities []*x509.Certificate // certificates of the authorities in Roots
	Own         []tls.Certificate
	AnyRole     bool // a server accepts every certificate of the authorities

	noClients bool       // a server asks for no certificates
	paths     *certFiles // nil: no files

	mu      sync.Mutex
	checked time.Time  // when the files were last looked at
	read    fileStamps // of the content in use
	renewed *Files     // the content in use, if it is a later one
	failed  error      // why the files' present content is not in use; nil: it is
}

// Read reads PEM files: the authorities of other parties' certificates, the own certificate, and its key. An empty
// path means no such file; without authorities there is no TLS. An expired certificate is an error. Errors name the
// flags and settings: tls-ca, tls-cert, tls-key.
func Read(ca, cert, key string) (*Files, error) { return read(ca, cert, key, false) }

// ReadExpired is [Read] for checks, which report expired certificates themselves.
func ReadExpired(ca, cert, key string) (*Files, error) { return read(ca, cert, key, true) }

func read(ca, cert, key string, expired bool) (*Files, error) {
	if (cert == "") != (key == "") {
		return nil, errors.New("tls-cert and tls-key go together")
	}
	if ca == "" {
		if cert != "" {
			return nil, errors.New("tls-cert needs tls-ca, to verify other certificates")
		}
		return &Files{}, nil
	}
	return (&certFiles{ca: ca, cert: cert, key: key, caFlag: "tls-ca", ownFlags: "tls-cert, tls-key", expired: expired}).open()
}

// ReadServer is [Read] for a server that is given its certificate by the flags --FLAGS-cacert, --FLAGS-cert
// and --FLAGS-key. Unless it is mutual it asks its clients for no certificates, and needs no authorities.
func ReadServer(flags, ca, cert, key string, mutual bool) (*Files, error) {
	flags = "--" + flags
	p := &certFiles{ca: ca, cert: cert, key: key, caFlag: flags + "-cacert", ownFlags: flags + "-cert, " + flags + "-key"}
	t, err := p.open()
	if err != nil {
		return nil, err
	}
	t.noClients = !mutual
	return t, nil
}

// Mutual reports whether clients must show a certificate.
func (t *Files) Mutual() bool { return t.Roots != nil && len(t.Own) > 0 && !t.noClients }

// ClientConfig returns the client's configuration, or nil without TLS. name, if not empty, replaces the address as
// the name that the server's certificate must have. It is for the next handshakes: authorities that are renewed
// later are not in it.
func (t *Files) ClientConfig(name string) *tls.Config {
	if t.Roots == nil {
		return nil
	}
	now := t.current()
	return &tls.Config{
		RootCAs: now.Roots, Certificates: now.Own, ServerName: name, MinVersion: tls.VersionTLS12,
	}
}

// ServerConfig returns the server's configuration, which requires clients to show a certificate. It is nil without
// an own certificate.
func (t *Files) ServerConfig() *tls.Config {
	if len(t.Own) == 0 {
		return nil
	}
	c := t.serverConfig()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.serverConfig(), nil }
	return c
}

func (t *Files) serverConfig() *tls.Config {
	now := t.current()
	c := &tls.Config{
		ClientCAs: now.Roots, ClientAuth: tls.RequireAndVerifyClientCert, Certificates: now.Own, MinVersion: tls.VersionTLS12,
		NextProtos:             []string{"h2", "http/1.1"},
		SessionTicketsDisabled: true, // a resumed session would not be checked against renewed authorities
	}
	if t.noClients {
		c.ClientAuth = tls.NoClientCert
	}
	return c
}

func transport(c *tls.Config) credentials.TransportCredentials {
	if c == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(c)
}

// Client is [Files.ClientConfig] for gRPC. Every handshake uses the files' present content.
func (t *Files) Client(name string) credentials.TransportCredentials {
	if t.Roots == nil {
		return insecure.NewCredentials()
	}
	return &client{transport(t.ClientConfig(name)), t, name}
}

// client makes each handshake with credentials of its time.
type client struct {
	credentials.TransportCredentials
	files *Files
	name  string
}

// ClientHandshake implements [credentials.TransportCredentials].
func (c *client) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return transport(c.files.ClientConfig(c.name)).ClientHandshake(ctx, authority, conn)
}

// Clone implements [credentials.TransportCredentials].
func (c *client) Clone() credentials.TransportCredentials {
	return &client{c.TransportCredentials.Clone(), c.files, c.name}
}

// Server is [Files.ServerConfig] for gRPC.
func (t *Files) Server() credentials.TransportCredentials { return transport(t.ServerConfig()) }
