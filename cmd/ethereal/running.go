package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/ethereal-fabric/ethereal/testbed/deployment"
)

// fabricUp returns the fabric that is up on this machine; nil: none is.
func fabricUp() (*deployment.File, error) {
	up := deployment.Running()
	if len(up) > 1 {
		var at []string
		for _, d := range up {
			at = append(at, d.Admin)
		}
		return nil, fmt.Errorf("%d fabrics are up on this machine (%s); name one with --admin, --fabric and --targets", len(up), strings.Join(at, ", "))
	}
	if len(up) == 0 {
		return nil, nil
	}
	return up[0], nil
}

// fillFromDeployment sets what flags left out from the fabric that is up on this machine, and returns that; nil: flags
// name the fabric.
func (s *switchesFlags) fillFromDeployment() (*deployment.File, error) {
	if s.fabric != "" && s.targets != "" {
		return nil, nil
	}
	d, err := fabricUp()
	if err != nil {
		return nil, err
	}
	if d == nil || s.fabric != "" || s.targets != "" {
		return nil, errors.New("name --fabric and --targets; ethereal live up or ethereal mininet up starts a fabric that is found without them")
	}
	s.fabric, s.targets = d.Fabric, d.Targets
	s.tls.fillFromDeployment(d)
	return d, nil
}

// fillFromDeployment sets the certificates that flags left out.
func (t *tlsFlags) fillFromDeployment(d *deployment.File) {
	if t.ca == "" && t.cert == "" && t.key == "" {
		t.ca, t.cert, t.key = d.CA, d.Cert, d.Key
	}
}

// fillFromDeployment sets the address and the token that flags left out.
func (a *adminFlags) fillFromDeployment() error {
	if a.addr != "" {
		return nil
	}
	d, err := fabricUp()
	if err != nil {
		return err
	}
	a.addr = defaultAdmin
	if d != nil {
		a.addr, a.tokenFile = d.Admin, cmp.Or(a.tokenFile, d.Token)
		a.tls.fillFromDeployment(d)
	}
	return nil
}
