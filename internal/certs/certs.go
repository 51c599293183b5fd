// Package certs reads the files that TLS needs, for clients and servers: the authorities' certificates, the own
// certificate, and its key. Certificates name their holder's identity, and servers check every call against one
// table of roles.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Files are the certificates and keys read. The zero value means no TLS.
type Files struct {
	Roots       *x509.CertPool
	Authorities []*x509.Certificate // of Roots
	Own         []tls.Certificate
	AnyRole     bool // a server accepts every certificate of the authorities
}

// Read reads PEM files: the authorities of other parties' certificates, the own certificate, and its key. An empty
// path means no such file; without authorities there is no TLS. Errors name the flags and settings: tls-ca,
// tls-cert, tls-key.
func Read(ca, cert, key string) (*Files, error) {
	t := &Files{}
	if (cert == "") != (key == "") {
		return nil, errors.New("tls-cert and tls-key go together")
	}
	if ca == "" {
		if cert != "" {
			return nil, errors.New("tls-cert needs tls-ca, to verify other certificates")
		}
		return t, nil
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("tls-ca: %w", err)
	}
	t.Roots = x509.NewCertPool()
	if !t.Roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("tls-ca: %s holds no PEM certificate", ca)
	}
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			t.Authorities = append(t.Authorities, c)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("tls-cert, tls-key: %w", err)
		}
		t.Own = []tls.Certificate{pair}
	}
	return t, nil
}

// Mutual reports whether clients must show a certificate.
func (t *Files) Mutual() bool { return t.Roots != nil && len(t.Own) > 0 }

// ClientConfig returns the client's configuration, or nil without TLS. name, if not empty, replaces the address as
// the name that the server's certificate must have.
func (t *Files) ClientConfig(name string) *tls.Config {
	if t.Roots == nil {
		return nil
	}
	return &tls.Config{RootCAs: t.Roots, Certificates: t.Own, ServerName: name, MinVersion: tls.VersionTLS12}
}

// ServerConfig returns the server's configuration, which requires clients to show a certificate. It is nil without
// an own certificate.
func (t *Files) ServerConfig() *tls.Config {
	if !t.Mutual() {
		return nil
	}
	return &tls.Config{
		ClientCAs: t.Roots, ClientAuth: tls.RequireAndVerifyClientCert, Certificates: t.Own, MinVersion: tls.VersionTLS12,
	}
}

func transport(c *tls.Config) credentials.TransportCredentials {
	if c == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(c)
}

// Client is [Files.ClientConfig] for gRPC.
func (t *Files) Client(name string) credentials.TransportCredentials {
	return transport(t.ClientConfig(name))
}

// Server is [Files.ServerConfig] for gRPC.
func (t *Files) Server() credentials.TransportCredentials { return transport(t.ServerConfig()) }
