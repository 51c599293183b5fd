//go:build linux

package live_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// TestRDMACI runs scripts/rdma-ci, which the action and the GitLab job of docs/guide/rdma.md run: a program runs in
// a host, the exit status is the command's, and no fabric is left.
func TestRDMACI(t *testing.T) {
	systemtest.Only(t)
	bin, err := filepath.Abs(etherealtest.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	tools := t.TempDir()
	if err := os.Symlink(bin, filepath.Join(tools, "ethereal")); err != nil {
		t.Fatal(err)
	}
	spec := filepath.Join(tools, "fabric.yaml")
	if err := os.WriteFile(spec, []byte("kind: leaf-spine\ntors: 2\nspines: 2\nhosts_per_tor: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("../../../scripts/rdma-ci", "-o", "--fabric "+spec, "sh", "-ec",
		"ethereal live exec h0 -- ip -br link; exit 7")
	c.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "TMPDIR="+tools, "XDG_RUNTIME_DIR="+tools)
	out, err := c.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("%v, want exit status 7:\n%s", err, out)
	}
	if left, _ := exec.Command("pgrep", "-f", spec).Output(); strings.TrimSpace(string(left)) != "" {
		t.Errorf("processes are left: %s", left)
	}
}
