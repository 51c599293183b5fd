package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// tlsFiles is what --tls-ca, --tls-cert and --tls-key name. Its zero value is no
// TLS.
type tlsFiles struct {
	roots       *x509.CertPool
	authorities []*x509.Certificate // of roots
	own         []tls.Certificate
}

// tlsFlags are the flags that name them.
type tlsFlags struct{ ca, cert, key, name string }

// register adds the flags. others says whose certificates are looked at: "switches'".
func (t *tlsFlags) register(c *cobra.Command, others string) {
	f := c.Flags()
	f.StringVar(&t.ca, "tls-ca", "", "`FILE` with the certificates of the authorities that others' certificates must come from; turns TLS on")
	f.StringVar(&t.cert, "tls-cert", "", "`FILE` with our certificate")
	f.StringVar(&t.key, "tls-key", "", "`FILE` with its key")
	f.StringVar(&t.name, "tls-server-name", "", "`NAME` that "+others+" certificates must have, instead of their address")
}

func (t *tlsFlags) read() (*tlsFiles, error) { return readTLS(t.ca, t.cert, t.key) }

func readTLS(ca, cert, key string) (*tlsFiles, error) {
	t := &tlsFiles{}
	if (cert == "") != (key == "") {
		return nil, errors.New("--tls-cert and --tls-key go together")
	}
	if ca == "" {
		if cert != "" {
			return nil, errors.New("--tls-cert needs --tls-ca, to know others by")
		}
		return t, nil
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	t.roots = x509.NewCertPool()
	if !t.roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--tls-ca: %s holds no PEM certificate", ca)
	}
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			t.authorities = append(t.authorities, c)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
		}
		t.own = []tls.Certificate{pair}
	}
	return t, nil
}

// mutual reports whether those who connect to us must show a certificate.
func (t *tlsFiles) mutual() bool { return t.roots != nil && len(t.own) > 0 }

func (t *tlsFiles) clientConfig(name string) *tls.Config {
	if t.roots == nil {
		return nil
	}
	return &tls.Config{RootCAs: t.roots, Certificates: t.own, ServerName: name, MinVersion: tls.VersionTLS12}
}

func (t *tlsFiles) serverConfig() *tls.Config {
	if !t.mutual() {
		return nil
	}
	return &tls.Config{
		ClientCAs: t.roots, ClientAuth: tls.RequireAndVerifyClientCert, Certificates: t.own, MinVersion: tls.VersionTLS12,
	}
}

func transport(c *tls.Config) credentials.TransportCredentials {
	if c == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(c)
}

// client returns what to connect with. name, if any, replaces the address as
// what the other's certificate must say.
func (t *tlsFiles) client(name string) credentials.TransportCredentials {
	return transport(t.clientConfig(name))
}

func (t *tlsFiles) server() credentials.TransportCredentials { return transport(t.serverConfig()) }
