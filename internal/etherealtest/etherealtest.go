// Package etherealtest has what tests of many packages share: the program that is shipped, built once, and goes.
package etherealtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// binaryVariable names the program that tests take, instead of building one: `make test` builds it beforehand.
const binaryVariable = "ETHEREAL_BINARY"

// Binary returns the path of the program `ethereal`. Where nobody has built it, it builds build/test/ethereal of this
// tree: the go command leaves that alone while it is up to date, so tests of many packages link it once.
func Binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv(binaryVariable); path != "" {
		return path
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("go list -m: %v", err)
	}
	root := strings.TrimSpace(string(out))
	path := filepath.Join(root, "build", "test", "ethereal")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := lock(path + ".lock") // of tests of other packages, which run beside this one
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	cmd := exec.Command("go", "build", "-o", path, "./cmd/ethereal")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// Retry calls f up to n times, until it succeeds, and logs each failure. It serves checks that a machine can disturb by
// stopping a process for a while. It returns the last error.
func Retry(t testing.TB, n int, f func() error) error {
	t.Helper()
	for left := n - 1; ; left-- {
		err := f()
		if err == nil || left <= 0 {
			return err
		}
		t.Logf("once more: %v", err)
	}
}
