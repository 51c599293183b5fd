package certs

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"
)

// Role is what the holder of a certificate is.
type Role string

// The roles.
const (
	Controller Role = "controller"
	Operator   Role = "operator" // a person, or a program that watches
	Host       Role = "host"     // the agent of one
	Switch     Role = "switch"
)

// Roles are all roles, in the order in which tables show them.
func Roles() []Role { return []Role{Controller, Operator, Host, Switch} }

// Identity is what a certificate says of its holder, in a URI of its alternative
// names: spiffe://ethereal/controller, spiffe://ethereal/host/h0.
type Identity struct {
	Role Role
	Name string // of a host or switch, as the fabric has it; else empty
}

const (
	scheme      = "spiffe"
	trustDomain = "ethereal"
)

// URI is the identity as certificates have it.
func (i Identity) URI() *url.URL {
	return &url.URL{Scheme: scheme, Host: trustDomain, Path: "/" + i.String()}
}

// String is the identity for people: host/h0.
func (i Identity) String() string {
	if i.Name == "" {
		return string(i.Role)
	}
	return string(i.Role) + "/" + i.Name
}

// Identities returns what a certificate says of its holder. One that says nothing
// has none; one that says what cannot be is an error.
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
