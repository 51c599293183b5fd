package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// TestSecondSwitch: a second switch on an interface is refused, whatever the two forward by.
func TestSecondSwitch(t *testing.T) {
	systemtest.Only(t)
	if os.Geteuid() != 0 {
		t.Skip("a network namespace takes root")
	}
	dir, err := os.MkdirTemp("/tmp", "ethereal-test-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary
	const script = `
ip link set lo up; ip link add port1 type veth peer name far1; ip link set port1 up; ip link set far1 up
"$0" switch --no-p4 --device-id 1 -i 1@port1 --datapath "$2" -- --cpu-port 510 --grpc-server-addr "unix:$1/first" &
first=$!
while [ ! -S "$1/first" ] && kill -0 $first; do sleep 0.02; done
timeout 30 "$0" switch --no-p4 --device-id 2 -i 1@port1 -- --cpu-port 510 --grpc-server-addr "unix:$1/second"
code=$?
echo "code $code, first is $first"
kill $first; wait $first; rm -f "$1/first"`
	for _, datapath := range []string{"interpreter", "kernel"} {
		cmd := exec.Command("unshare", "-n", "sh", "-c", script, os.Args[0], dir, datapath)
		cmd.Env = append(os.Environ(), beEthereal+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil && strings.Contains(string(out), "unshare") {
			t.Skip(string(out))
		}
		if !strings.Contains(string(out), "is the switch on this interface already") || strings.Contains(string(out), "code 0") {
			t.Errorf("%s: %v\n%s", datapath, err, out)
		}
	}
}
