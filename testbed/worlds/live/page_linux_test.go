package live_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/testbed/etherealtest"
)

// TestUpView: the page of a fabric in namespaces of its own is served to this machine's.
func TestUpView(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes: skipped with -short")
	}
	bin := etherealtest.Binary(t)
	tmp, err := os.MkdirTemp("/tmp", "ethereal-test-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	fabric := filepath.Join(tmp, "fabric.yaml")
	if err := os.WriteFile(fabric, []byte("kind: leaf-spine\ntors: 2\nspines: 1\nhosts_per_tor: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	command := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, bin, append([]string{"live"}, args...)...)
		c.Env = append(os.Environ(), "TMPDIR="+tmp)
		return c
	}
	up := command("up", "--fabric", fabric, "--view")
	log, err := os.Create(filepath.Join(tmp, "log")) // what it says is there before what it says later elsewhere
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	up.Stderr = log
	said := func() string {
		text, err := os.ReadFile(log.Name())
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	out, err := up.StdoutPipe()
	if err == nil {
		err = up.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := out.Read(make([]byte, 1)); n == 0 {
		up.Wait() //nolint:errcheck // it has failed
		if text := said(); strings.Contains(text, "no network namespaces") || strings.Contains(text, "operation not permitted") {
			t.Skipf("no namespaces here: %s", text)
		}
		t.Fatalf("live up: %s", said())
	}
	defer func() {
		command("down").Run() //nolint:errcheck // Wait tells
		if err := up.Wait(); err != nil {
			t.Errorf("live up: %v %s", err, said())
		}
	}()
	r, err := http.Get(regexp.MustCompile(`http://127\.0\.0\.1:\d+/\w+/`).FindString(said()))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if text, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusOK || !bytes.Contains(text, []byte(`"n":"spine0"`)) {
		t.Errorf("%s, %v: %s", r.Status, err, text)
	}
}
