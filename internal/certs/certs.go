// Package certs reads the files that TLS needs, for clients and servers of both
// sides: the authorities' certificates, one's own, and its key. Certificates say
// what their holder is, and servers hold every call against one table of who may
// make it.
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

// Files is what was read. Its zero value is no TLS.
type Files struct {
	Roots       *x509.CertPool
	Authorities []*x509.Certificate // of Roots
	Own         []tls.Certificate
	AnyRole     bool // a server accepts every certificate of the authorities
}

// Read reads PEM files: the authorities that others' certificates must come from,
// one's own certificate, and its key. Empty paths are what is not there; without
// authorities there is no TLS. Its errors name what is wrong as flags and settings
// do: tls-ca, tls-cert, tls-key.
func Read(ca, cert, key string) (*Files, error) {
	t := &Files{}
	if (cert == "") != (key == "") {
		return nil, errors.New("tls-cert and tls-key go together")
	}
	if ca == "" {
		if cert != "" {
			return nil, errors.New("tls-cert needs tls-ca, to know others by")
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

// Mutual reports whether those who connect to us must show a certificate.
func (t *Files) Mutual() bool { return t.Roots != nil && len(t.Own) > 0 }

// ClientConfig returns what to connect with, nil without TLS. name, if any, replaces
// the address as what the other's certificate must say.
func (t *Files) ClientConfig(name string) *tls.Config {
	if t.Roots == nil {
		return nil
	}
	return &tls.Config{RootCAs: t.Roots, Certificates: t.Own, ServerName: name, MinVersion: tls.VersionTLS12}
}

// ServerConfig returns what to serve with: those who connect must show a
// certificate. It is nil without one of our own.
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
