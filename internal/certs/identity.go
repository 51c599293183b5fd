package certs

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"
)

// Role is the role of a certificate's holder.
type Role string

// The roles.
const (
	Controller Role = "controller"
	Operator   Role = "operator" // a person, or a monitoring program
	Host       Role = "host"     // role of a host's agent
	Switch     Role = "switch"
)

// Roles returns all roles, in the order of tables.
func Roles() []Role { return []Role{Controller, Operator, Host, Switch} }

// Identity is the holder's identity in a certificate, in a URI of its alternative names:
// spiffe://ethereal/controller, spiffe://ethereal/host/h0.
type Identity struct {
	Role Role
	Name string // of a host or switch in the fabric; otherwise empty
}

const (
	scheme      = "spiffe"
	trustDomain = "ethereal"
)

// URI returns the identity in the form of certificates.
func (i Identity) URI() *url.URL {
	return &url.URL{Scheme: scheme, Host: trustDomain, Path: "/" + i.String()}
}

// String returns the identity for display: host/h0.
func (i Identity) String() string {
	if i.Name == "" {
		return string(i.Role)
	}
	return string(i.Role) + "/" + i.Name
}

// Identities returns the identities in a certificate: none if it has none, an error if one is malformed.
func Identities(c *x509.Certificate) ([]Identity, error) {
	var out []Identity
	for _, u := range c.URIs {
		if u.Scheme != scheme || u.Host != trustDomain {
			continue
		}
		role, name, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
		id := Identity{Role(role), name}
		named := id.Role == Host || id.Role == Switch
		if !named && id.Role != Controller && id.Role != Operator || named != (name != "") || u.String() != id.URI().String() {
			return nil, fmt.Errorf("certs: %q of the certificate of %q is none of %s, %s, %s, %s", u, c.Subject.CommonName,
				Identity{Role: Controller}.URI(), Identity{Role: Operator}.URI(), Identity{Host, "NAME"}.URI(), Identity{Switch, "NAME"}.URI())
		}
		out = append(out, id)
	}
	return out, nil
}
