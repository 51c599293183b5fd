//go:build linux

package process_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
)

// bmv2Fails are the tests of BMv2's that fail, with the reason.
var bmv2Fails = map[string]string{
	"SimpleSwitchGrpcTest_PacketIO.SendAndReceiveCPUPacket": "it asks the server in its own process for counts",
}

// TestBMv2sTests runs BMv2's gRPC tests on our switch under BMv2's name. BMV2_TESTS is a program of them
// (targets/simple_switch_grpc/tests of p4lang/behavioral-model) that starts no switch itself; BMV2_TESTS_JSON is their
// loopback.json.
func TestBMv2sTests(t *testing.T) {
	program, json := os.Getenv("BMV2_TESTS"), os.Getenv("BMV2_TESTS_JSON")
	if program == "" || json == "" {
		t.Skip("no tests of BMv2's: BMV2_TESTS names a program of them, BMV2_TESTS_JSON their loopback.json")
	}
	porttest.Enter(t)
	name := filepath.Join(t.TempDir(), "simple_switch_grpc")
	if err := os.Symlink(etherealtest.Binary(t), name); err != nil {
		t.Fatal(err)
	}
	list, err := exec.Command(program, "--gtest_list_tests").Output()
	if err != nil {
		t.Fatal(err)
	}
	result := regexp.MustCompile(`(?m)^\[\s+(OK|FAILED)\s+\] (\S+) \(`)
	passed, failed := 0, 0
	for _, suite := range regexp.MustCompile(`(?m)^\w+\.`).FindAllString(string(list), -1) {
		var said strings.Builder
		sw := exec.Command(name, "--device-id", "3", json, "--", "--grpc-server-addr", "0.0.0.0:50056", "--dp-grpc-server-addr", "0.0.0.0:50057", "--cpu-port", "64")
		out, err := sw.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := sw.Start(); err != nil {
			t.Fatal(err)
		}
		for b := make([]byte, 4096); !strings.Contains(said.String(), "listening on"); {
			n, err := out.Read(b)
			if said.Write(b[:n]); err != nil {
				t.Fatalf("the switch does not start: %v\n%s", err, said.String())
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		text, err := exec.CommandContext(ctx, program, "--gtest_filter="+suite+"*").CombinedOutput()
		cancel()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Errorf("%s: %v", suite, err)
		}
		sw.Process.Signal(unix.SIGTERM) //nolint:errcheck // it may be gone
		sw.Wait()                       //nolint:errcheck // as it was asked to
		found := result.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s: no result\n%s", suite, text)
		}
		for _, m := range found {
			why, known := bmv2Fails[m[2]]
			switch {
			case m[1] == "OK":
				passed++
			case known:
				failed++
				t.Logf("%s fails: %s", m[2], why)
			default:
				failed++
				t.Errorf("%s fails:\n%s", m[2], text)
			}
		}
	}
	t.Logf("%d pass, %d fail", passed, failed)
	if passed == 0 {
		t.Error("nothing was run")
	}
}
