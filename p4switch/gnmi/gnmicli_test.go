package gnmi_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestGNMIClient drives the gNMI server with OpenConfig's own client: what it is
// capable of, Get, Set, and subscriptions of both kinds.
func TestGNMIClient(t *testing.T) {
	path := client(t, "GNMI_CLI", "gnmi_cli", "gnmi_cli/go.mod github.com/openconfig/gnmi/cmd/gnmi_cli")
	ports, mu, addr := twoPorts(t)
	command := func(args ...string) *exec.Cmd {
		return exec.CommandContext(t.Context(), path, append([]string{"-a", addr, "-insecure", "-timeout", "20s"}, args...)...)
	}
	run := func(want string, args ...string) {
		t.Helper()
		out, err := command(args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("gnmi_cli %s: %v, want %q in\n%s", strings.Join(args, " "), err, want, out)
		}
	}
	leaf := func(port, container, name string) string {
		return `elem:{name:"interfaces"} elem:{name:"interface" key:{key:"name" value:"` + port + `"}} elem:{name:"` +
			container + `"} elem:{name:"` + name + `"}`
	}
	enable := func(port, value string) string {
		return `update:{path:{` + leaf(port, "config", "enabled") + `} val:{json_ietf_val:"` + value + `"}}`
	}
	status := `path:{` + leaf("Ethernet1", "state", "oper-status") + `} encoding:JSON_IETF`
	run("openconfig-interfaces", "-capabilities")
	run("UP", "-get", "-proto", status)
	run("UPDATE", "-set", "-proto", enable("Ethernet1", "false"))
	run("DOWN", "-get", "-proto", status)
	if out, err := command("-set", "-proto", enable("Ethernet9", "true")).CombinedOutput(); err == nil {
		t.Errorf("gnmi_cli sets a port that does not exist:\n%s", out)
	}
	// The client writes paths of its own flags as the deprecated element: so in full.
	subscribe := func(list, subscription string) string {
		return `subscribe:{prefix:{target:"switch"} ` + list + ` encoding:JSON_IETF subscription:{path:{` + leaf("Ethernet2", "state", "oper-status") + `} ` +
			subscription + `}}`
	}
	run("UP", "-qt", "once", "-dt", "single", "-proto", subscribe("mode:ONCE", ""))

	expect := lines(t, command("-qt", "streaming", "-dt", "single", "-proto", subscribe("mode:STREAM", "mode:ON_CHANGE")), "")
	expect("UP")
	mu.Lock()
	err := ports.SetOper(2, false, time.Now().UnixNano())
	mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	expect("DOWN")
}
