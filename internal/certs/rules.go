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
	controllerOnly       = []Role{Controller}
	controllerOrOperator = []Role{Controller, Operator}
	hostOnly             = []Role{Host}
	anyRole              = Roles()
)

// rules is the only table of permissions, for every server of the project. Calls that are not in it are refused.
var rules = []rule{
	{"/p4.v1.P4Runtime/Capabilities", "P4Runtime Capabilities", controllerOrOperator},
	{"/p4.v1.P4Runtime/Read", "P4Runtime Read", controllerOrOperator},
	{"/p4.v1.P4Runtime/GetForwardingPipelineConfig", "P4Runtime GetForwardingPipelineConfig", controllerOrOperator},
	{"/p4.v1.P4Runtime/StreamChannel", "P4Runtime StreamChannel", controllerOnly},
	{"/p4.v1.P4Runtime/Write", "P4Runtime Write", controllerOnly},
	{"/p4.v1.P4Runtime/SetForwardingPipelineConfig", "P4Runtime SetForwardingPipelineConfig", controllerOnly},
	{"/gnmi.gNMI/Capabilities", "gNMI Capabilities", controllerOrOperator},
	{"/gnmi.gNMI/Get", "gNMI Get", controllerOrOperator},
	{"/gnmi.gNMI/Subscribe", "gNMI Subscribe", controllerOrOperator},
	{"/gnmi.gNMI/Set", "gNMI Set", controllerOnly},
	{"/ethereal.state.v1.FabricState/Watch", "agents' FabricState Watch, for itself", hostOnly},
	{"/ethereal.state.v1.Controllers/Exchange", "controllers' Exchange, with the token", controllerOnly},
	{"/grpc.health.v1.Health/Check", "gRPC health Check", anyRole},
	{"/grpc.health.v1.Health/List", "gRPC health List", anyRole},
	{"/grpc.health.v1.Health/Watch", "gRPC health Watch", anyRole},
	{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "gRPC reflection", controllerOrOperator},
	{"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "gRPC reflection, v1alpha", controllerOrOperator},
	{"GET /healthz", "HTTP GET /healthz", anyRole},
	{"GET /readyz", "HTTP GET /readyz", anyRole},
	{"GET", "HTTP GET of anything else", controllerOrOperator},
	{"HEAD", "HTTP HEAD", controllerOrOperator},
	{"POST", "HTTP POST, with the token", controllerOrOperator},
}

// rolesFor returns the roles that may make a call: a gRPC method, or an HTTP method and path. For HTTP, a rule with
// the method alone also applies.
func rolesFor(call string) []Role {
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
	may := rolesFor(call)
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
