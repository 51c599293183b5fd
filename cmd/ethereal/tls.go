package main

import (
	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/internal/certs"
)

// tlsFlags name the files of TLS.
type tlsFlags struct {
	ca, cert, key, name string
	anyRole             bool
}

// register adds the flags. others says whose certificates are looked at: "switches'".
func (t *tlsFlags) register(c *cobra.Command, others string) {
	f := c.Flags()
	f.StringVar(&t.ca, "tls-ca", "", "`FILE` with the certificates of the authorities that others' certificates must come from; turns TLS on")
	f.StringVar(&t.cert, "tls-cert", "", "`FILE` with our certificate")
	f.StringVar(&t.key, "tls-key", "", "`FILE` with its key")
	f.BoolVar(&t.anyRole, "tls-any-role", false, "serve whoever has a certificate of the authorities, whatever it says of its holder")
	f.StringVar(&t.name, "tls-server-name", "", "`NAME` that "+others+" certificates must have, instead of their address")
}

func (t *tlsFlags) read() (*certs.Files, error) {
	files, err := certs.Read(t.ca, t.cert, t.key)
	if err == nil {
		files.AnyRole = t.anyRole
	}
	return files, err
}
