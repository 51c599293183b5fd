package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"

	"github.com/ethereal-fabric/ethereal/p4src"
)

// TestP4RT writes, reads and deletes entries of a switch by names, and is refused with the valid choices.
func TestP4RT(t *testing.T) {
	dir := t.TempDir()
	info, err := prototext.Marshal(p4src.V1ModelP4Info())
	if err != nil {
		t.Fatal(err)
	}
	json, p4info := filepath.Join(dir, "p.json"), filepath.Join(dir, "p.txtpb")
	for name, text := range map[string][]byte{json: p4src.V1ModelJSON(), p4info: info} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	socket := "unix:" + filepath.Join(dir, "s.sock")
	stop := runSwitchCommand(t, "--device-id", "3", "--p4info", p4info, json, "--grpc-server-addr", socket)
	defer stop() //nolint:errcheck // ended by us
	do := func(want int, line string) string {
		t.Helper()
		args := slices.Concat([]string{"p4rt"}, strings.Fields(line), []string{"--p4runtime", socket, "--device-id", "3"})
		code, out, errs := etherealCommand(t.Context(), args...)
		if code != want {
			t.Errorf("ethereal p4rt %s: exit code %d: %s%s", line, code, out, errs)
		}
		return out + errs
	}
	do(exitOK, "write insert route_v4 dst=10.1.0.0/24 deliver port=7 dmac=02:00:00:00:00:09")
	do(exitOK, "write insert source_route label=4/0xc take_uplink port=2 --priority 3")
	for line, want := range map[string]string{
		"read route_v4":                        "route_v4 dst=10.1.0.0/24 -> deliver(port=7, dmac=02:00:00:00:00:09)",
		"read source_route":                    "source_route label=4/0xc -> take_uplink(port=2) priority 3",
		"read":                                 "route_v4 dst=10.1.0.0/24",
		"read -o json route_v4":                `"dst": "10.1.0.0/24"`,
		"counters":                             "nothing; --zero shows cells",
		"counters --zero port_tx_data":         "port_tx_data[1] 0 packets 0 bytes",
		"read --zero port_down":                "port_down[2] 0",
		"counters --zero source_route_counter": "source_route_counter label=4/0xc",
	} {
		if got := do(exitOK, line); !strings.Contains(got, want) {
			t.Errorf("ethereal p4rt %s:\n%s\nwant %q", line, got, want)
		}
	}
	do(exitOK, "write modify route_v4 dst=10.1.0.0/24 discard")
	if got := do(exitOK, "read route_v4"); !strings.Contains(got, "dst=10.1.0.0/24 -> discard()") {
		t.Errorf("modified: %s", got)
	}
	do(exitOK, "write delete route_v4 dst=10.1.0.0/24")
	do(exitOK, "write insert route_v4 dst=0/0 discard") // the default route
	do(exitOK, "write delete route_v4")
	if got := do(exitOK, "read route_v4"); strings.Contains(got, "10.1.0.0") {
		t.Errorf("deleted: %s", got)
	}
	for line, want := range map[string]string{
		"read routes":                                    "routes; it has balancer, ",
		"write insert routes x=1 discard":                "table routes; it has balancer, ",
		"write insert route_v4 dest=10.1.0.0/24 discard": "key field of route_v4, dest; it has dst",
		"write insert route_v4 dst=10.1.0.0 discard":     "write ADDRESS/BITS",
		"write insert route_v4 dst=ten/24 discard":       "an address such as 10.0.0.1",
		"write insert route_v4 dst=10.1.0.0/24 drop":     "action of route_v4, drop; it has ",
		"write insert route_v4 dst=10.1.0.0/24 deliver":  "takes port=VALUE",
		"write insert route_v4 dst=10.1.0.0/24":          "write the action behind the fields",
		"write put route_v4":                             "write one of delete, insert, modify",
	} {
		if got := do(exitInput, line); !strings.Contains(got, want) {
			t.Errorf("ethereal p4rt %s: %s, want %q", line, got, want)
		}
	}
	if got := do(exitRun, "write delete route_v4 dst=10.9.0.0/24"); !strings.Contains(got, "DELETE route_v4") {
		t.Errorf("an entry that is not there: %s", got)
	}
}
