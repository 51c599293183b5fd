package live

import (
	"path/filepath"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Part is which of a fabric on several machines is here.
type Part struct {
	Here  func(fabric.NodeID) bool
	Certs string // folder
}

// switchTLS are the flags with which a switch serves by TLS, if it is to.
func (p *Part) switchTLS(name string) []string {
	if p == nil {
		return nil
	}
	return []string{
		"--grpc-server-ssl", "--grpc-server-with-client-auth", "--grpc-server-cacert", p.File("ca.pem"),
		"--grpc-server-cert", p.File(name + ".pem"), "--grpc-server-key", p.File(name + ".key"),
	}
}

// agentTLS are the flags with which an agent speaks TLS, if it is to. It reaches the controller by a socket of its machine.
func (p *Part) agentTLS(name string) []string {
	if p == nil {
		return nil
	}
	return []string{
		"--tls-ca", p.File("ca.pem"), "--tls-cert", p.File(name + ".pem"), "--tls-key", p.File(name + ".key"), "--tls-server-name", "controller",
	}
}

// File returns the path of a file with a certificate or a key.
func (p *Part) File(name string) string { return filepath.Join(p.Certs, name) }
