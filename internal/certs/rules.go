package certs

import (
	"fmt"
	"slices"
	"strings"
)

// rule lists the roles that may make a call.
type rule struct {
	call  string // a gRPC method, or an HTTP method and path
	what  string // description for display
	roles []Role
}

var (
	controls = []Role{Controller}
	watches  = []Role{Controller, Operator}
	hosts    = []Role{Host}
	all      = Roles()
)

// rules is the only table of permissions, for every server of the project. Calls that are not in it are refused.
var rules = []rule{
	{"/p4.v1.P4Runtime/Capabilities", "P4Runtime Capabilities", watches},
	{"/p4.v1.P4Runtime/Read", "P4Runtime Read", watches},
	{"/p4.v1.P4Runtime/GetForwardingPipelineConfig", "P4Runtime GetForwardingPipelineConfig", watches},
	{"/p4.v1.P4Runtime/StreamChannel", "P4Runtime StreamChannel", controls},
	{"/p4.v1.P4Runtime/Write", "P4Runtime Write", controls},
	{"/p4.v1.P4Runtime/SetForwardingPipelineConfig", "P4Runtime SetForwardingPipelineConfig", controls},
	{"/gnmi.gNMI/Capabilities", "gNMI Capabilities", watches},
	{"/gnmi.gNMI/Get", "gNMI Get", watches},
	{"/gnmi.gNMI/Subscribe", "gNMI Subscribe", watches},
	{"/gnmi.gNMI/Set", "gNMI Set", controls},
	{"/ethereal.state.v1.FabricState/Watch", "agents' FabricState Watch, for itself", hosts},
	{"/ethereal.state.v1.Controllers/Exchange", "controllers' Exchange, with the token", controls},
	{"/grpc.health.v1.Health/Check", "gRPC health Check", all},
	{"/grpc.health.v1.Health/List", "gRPC health List", all},
	{"/grpc.health.v1.Health/Watch", "gRPC health Watch", all},
	{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "gRPC reflection", watches},
	{"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "gRPC reflection, v1alpha", watches},
	{"GET /healthz", "HTTP GET /healthz", all},
	{"GET /readyz", "HTTP GET /readyz", all},
	{"GET", "HTTP GET of anything else", watches},
	{"HEAD", "HTTP HEAD", watches},
	{"POST", "HTTP POST, with the token", watches},
}

// allowed returns the roles that may make a call: a gRPC method, or an HTTP method and path. For HTTP, a rule with
// the method alone also applies.
func allowed(call string) []Role {
	method, _, http := strings.Cut(call, " ")
	for _, exact := range []string{call, method} {
		for _, r := range rules {
			if r.call == exact {
				return r.roles
			}
		}
		if !http {
			break
		}
	}
	return nil
}

// Check returns an error if none of the identities may make the call.
func Check(call string, ids []Identity) error {
	may := allowed(call)
	for _, id := range ids {
		if slices.Contains(may, id.Role) {
			return nil
		}
	}
	who := "a certificate without a role"
	if len(ids) > 0 {
		var names []string
		for _, id := range ids {
			names = append(names, id.String())
		}
		who = strings.Join(names, ", ")
	}
	var roles []string
	for _, r := range may {
		roles = append(roles, string(r))
	}
	if len(roles) == 0 {
		return fmt.Errorf("certs: %s: no role may call it", call)
	}
	return fmt.Errorf("certs: %s may not call %s, which is for %s; issue the certificate with that role (scripts/lab-ca)",
		who, call, strings.Join(roles, ", "))
}

// Table returns the permissions as a table in Markdown, for the documentation.
func Table() string {
	var b strings.Builder
	b.WriteString("| call |")
	for _, r := range Roles() {
		fmt.Fprintf(&b, " %s |", r)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(Roles())) + "\n")
	for _, x := range rules {
		fmt.Fprintf(&b, "| %s |", x.what)
		for _, r := range Roles() {
			mark := " "
			if slices.Contains(x.roles, r) {
				mark = " yes "
			}
			b.WriteString(mark + "|")
		}
		b.WriteString("\n")
	}
	return b.String()
}
