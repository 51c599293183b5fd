// Package systemtest separates system tests. `make test` needs Go alone, and must not fail because of a busy
// machine, the presence or absence of another program, or missing permissions. Tests that need real time, root,
// namespaces, a browser, a compiler or any other program run by `make test-system`; where the machine lacks
// something, they skip with the reason. A test that -run or -fuzz names runs as well.
//
// An environment variable decides, not a build tag: one line moves a test, every test is always compiled and
// vetted, and files of ordinary and system tests share their helpers.
package systemtest

import (
	"flag"
	"os"
	"os/exec"
	"testing"
)

// Variable is the environment variable that enables system tests.
const Variable = "ETHEREAL_SYSTEM_TESTS"

// Only skips the test except under `make test-system`, or if a flag names it. It never skips benchmarks.
func Only(t testing.TB) {
	t.Helper()
	if _, asked := t.(*testing.B); asked || os.Getenv(Variable) != "" || variableSet("test.run") || variableSet("test.fuzz") {
		return
	}
	t.Skip("a test of the system: make test-system")
}

func variableSet(name string) bool {
	f := flag.Lookup(name)
	return f != nil && f.Value.String() != ""
}

// Program returns the path of another program that a test needs. The environment variable may give its path or
// name, which enables the test; variable "" means that there is none. Otherwise the test is a system test, and
// skips if the program is not on the PATH.
func Program(t testing.TB, name, variable, remedy string) string {
	t.Helper()
	if named := os.Getenv(variable); variable != "" && named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
		return path
	}
	Only(t)
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s: %s", name, remedy)
	}
	return path
}
