package systemtest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestPart is what TestOnly runs: a test of the system.
func TestPart(t *testing.T) {
	Only(t)
	t.Log("it runs")
}

// TestNamed is likewise, with a program that a variable names.
func TestNamed(t *testing.T) {
	t.Log("it runs " + Program(t, "no-such-program", "SYSTEMTEST_PROGRAM", "write it"))
}

// TestOnly: a test of the system runs when it is asked for, by the variable or by name, and says why it does not.
func TestOnly(t *testing.T) {
	if os.Getenv("SYSTEMTEST_INNER") != "" {
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, env string
		want      []string
	}{
		{"-test.v", "", []string{"TestPart", "a test of the system: make test-system", "--- SKIP: TestPart", "--- SKIP: TestNamed"}},
		{"-test.v", Variable + "=1", []string{"--- PASS: TestPart", "no no-such-program: write it", "--- SKIP: TestNamed"}},
		{"-test.v -test.run=TestPart", "", []string{"it runs", "--- PASS: TestPart"}},
		{"-test.v", "SYSTEMTEST_PROGRAM=" + exe, []string{"--- SKIP: TestPart", "it runs " + exe, "--- PASS: TestNamed"}},
		{"-test.v", "SYSTEMTEST_PROGRAM=/nowhere", []string{"--- FAIL: TestNamed", "SYSTEMTEST_PROGRAM"}},
	} {
		cmd := exec.Command(exe, strings.Fields(c.args)...)
		cmd.Env = append(os.Environ(), "SYSTEMTEST_INNER=1", Variable+"=")
		if c.env != "" {
			cmd.Env = append(cmd.Env, c.env)
		}
		out, _ := cmd.CombinedOutput()
		for _, want := range c.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s %s: %q is missing\n%s", c.args, c.env, want, out)
			}
		}
	}
}
