//go:build linux

package live_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// deviations are tests of google/rdma-unit-test that the device does not pass, and why; docs/verbs.md has the same.
var deviations = map[string]string{
	"QpStateTest.PostSendReset":                    strictPost,
	"QpStateTest.PostRecvReset":                    strictPost,
	"QpStateTest.PostSendInit":                     strictPost,
	"QpStateTest.PostSendRtr":                      strictPost,
	"LoopbackRcQpTest.UnsignaledCompareSwapError":  untouched,
	"LoopbackRcQpTest.CompareSwapInvalidLKey":      untouched,
	"LoopbackUdQpTest.SendTrafficClass":            "the header before a datagram has IPv6 form, for UCX",
	"LoopbackRcQpTest.SendWithInvalidateType1Rkey": "it waits for longer than its own time-out, 8 s and 6.4 s",
	"MwType2AdvancedTest.Rebind":                   "a failed peer answers with an operation error; the suite expects an access error",
}

const (
	strictPost = "posting in this state is an immediate error, as the specification has it; the suite expects silence"
	untouched  = "a compare-and-swap whose result has no place changes nothing; the suite expects the swap"
)

// TestRDMAUnitTest runs google/rdma-unit-test, whose program `unit` RDMA_UNIT_TEST names, on one host.
func TestRDMAUnitTest(t *testing.T) {
	systemtest.Only(t)
	unit := os.Getenv("RDMA_UNIT_TEST")
	if unit == "" {
		t.Skip("name the program unit of google/rdma-unit-test in RDMA_UNIT_TEST; docs/verbs.md says how it is built")
	}
	command, _ := exploring(t, leafSpine(2, 1), "--payload", "4096") // the suite asks for its largest MTU
	// Queue pairs of the suite fail after 6.4 s; by itself it waits for 2.
	judged(t, command("exec", "h0", "--", unit, "--ipv4_only", "--completion_wait_multiplier=4"), deviations)
}

// judged runs a suite made with googletest. Those of its tests fail that have a reason, and no others.
func judged(t *testing.T, suite *exec.Cmd, reasons map[string]string) {
	t.Helper()
	out, err := suite.CombinedOutput()
	summary := regexp.MustCompile(`(?m)^\[  (?:PASSED|SKIPPED|FAILED)  ?\] +\d+ tests?`).FindAllString(string(out), -1)
	if len(summary) == 0 {
		t.Fatalf("%s did not end: %v, %s", suite, err, out[max(0, len(out)-2000):])
	}
	t.Log(strings.Join(summary, ", "))
	failed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\[  FAILED  \] ([\w/.]+).* \(\d+ ms\)$`).FindAllStringSubmatch(string(out), -1) {
		failed[m[1]] = true
		if reasons[m[1]] == "" {
			t.Errorf("%s fails", m[1])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		if !failed[name] {
			t.Errorf("%s passes, or is not there any more: it is no deviation", name)
		}
	}
}

// TestPyverbs runs rdma-core's tests in Python, whose folder PYVERBS_TESTS names, on one host.
func TestPyverbs(t *testing.T) {
	systemtest.Only(t)
	dir := os.Getenv("PYVERBS_TESTS")
	if dir == "" {
		t.Skip("name a copy of rdma-core's folder tests, unpacked, in PYVERBS_TESTS (Debian: rdma-core, python3-pyverbs)")
	}
	command, _ := exploring(t, leafSpine(2, 1))
	c := command("exec", "h0", "--", "/usr/bin/python3", filepath.Join(dir, "run_tests.py"), "-v", "--dev", "ethereal0")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	tail := out.String()[max(0, out.Len()-200):]
	if !strings.Contains(tail, "Ran ") { // what failed has a name otherwise
		t.Fatalf("%v: %s", err, tail)
	}
	t.Log(strings.TrimSpace(tail))
	if err != nil {
		for _, m := range regexp.MustCompile(`(?m)^(?:FAIL|ERROR): .*`).FindAllString(out.String(), -1) {
			t.Error(m)
		}
	}
}
