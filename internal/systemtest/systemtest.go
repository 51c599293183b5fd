// Package systemtest keeps tests of the system apart. `make test` is for everybody: it needs Go alone, and it must not
// fail because a machine is busy, has another program or not, or forbids something to its user. What needs real time, root,
// namespaces, a browser, a compiler or any other program runs by `make test-system`, and skips there with the reason when
// the machine has not what it needs. A test that is asked for by name, with -run or -fuzz, runs as well.
//
// An environment variable decides, not a build tag: one line moves a test, every test is always compiled and vetted, and
// files of ordinary and system tests share their helpers.
package systemtest

import (
	"flag"
	"os"
	"os/exec"
	"testing"
)

// Variable names the environment variable that, when it is set, has tests of the system run.
const Variable = "ETHEREAL_SYSTEM_TESTS"

// Only skips the test except under `make test-system`, or when it is asked for by name. Benchmarks always are.
func Only(t testing.TB) {
	t.Helper()
	if _, asked := t.(*testing.B); asked || os.Getenv(Variable) != "" || given("test.run") || given("test.fuzz") {
		return
	}
	t.Skip("a test of the system: make test-system")
}

func given(name string) bool {
	f := flag.Lookup(name)
	return f != nil && f.Value.String() != ""
}

// Program returns the path of another program that a test needs. A variable may give its path or name, which asks for
// the test; "" names none. Otherwise the test is one of the system, and skips where the program is not on the PATH.
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
