package main

import (
	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/internal/certs"
)

// tlsFlags name the files of TLS.
type tlsFlags struct {
	ca, cert, key, name string
	anyRole             bool
	expired             bool // certificates are no error
}

// registerClient adds the TLS flags of clients.
func (t *tlsFlags) registerClient(c *cobra.Command) {
	t.registerFiles(c)
	c.Flags().StringVar(&t.name, "tls-server-name", "", "`NAME` that servers' certificates must have, instead of their address")
}

// registerServer adds the TLS flags of servers. A command that is both registers the file flags once.
func (t *tlsFlags) registerServer(c *cobra.Command) {
	if c.Flags().Lookup("tls-ca") == nil {
		t.registerFiles(c)
	}
	c.Flags().BoolVar(&t.anyRole, "tls-any-role", false, "accept any certificate of the authorities, whatever its role")
}

func (t *tlsFlags) registerFiles(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&t.ca, "tls-ca", "", "`FILE` with the certificates of authorities, for TLS; one of them must have signed the other side's certificate")
	f.StringVar(&t.cert, "tls-cert", "", "`FILE` with our certificate, for TLS")
	f.StringVar(&t.key, "tls-key", "", "`FILE` with the key of our certificate")
}

func (t *tlsFlags) read() (*certs.Files, error) {
	read := certs.Read
	if t.expired {
		read = certs.ReadExpired
	}
	files, err := read(t.ca, t.cert, t.key)
	if err == nil {
		files.AnyRole = t.anyRole
	}
	return files, err
}
