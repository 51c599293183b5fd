// Package mininet has no Go code: its tests lint the Python beside it and boot
// fabrics in Mininet with it.
package mininet

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// python is Debian's: Mininet is installed for it, and not for others.
const python = "/usr/bin/python3"

// TestLint holds the Python code to flake8 and mypy.
func TestLint(t *testing.T) {
	for _, c := range []struct {
		tool string
		args []string
	}{
		{"flake8", []string{"--config", "setup.cfg", "."}},
		{"mypy", []string{"--config-file", "setup.cfg", "--cache-dir", t.TempDir(), "etherealnet", "run.py", "custom.py"}},
	} {
		t.Run(c.tool, func(t *testing.T) {
			if testing.Short() && c.tool == "mypy" {
				t.Skip("takes ten seconds: skipped with -short")
			}
			path, err := exec.LookPath(c.tool)
			if err != nil {
				t.Skipf("no %s: apt-get install %s", c.tool, c.tool)
			}
			if out, err := exec.Command(path, c.args...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// lab is what running the scripts takes.
type lab struct {
	ethereal string
	dir      string // of the deployment
}

func newLab(t *testing.T) lab {
	t.Helper()
	if testing.Short() {
		t.Skip("boots a fabric: skipped with -short")
	}
	if os.Geteuid() != 0 {
		t.Skip("network namespaces take root")
	}
	if out, err := exec.Command(python, "-c", "import mininet.net").CombinedOutput(); err != nil {
		t.Skipf("no Mininet for %s: apt-get install mininet\n%s", python, out)
	}
	for _, tool := range []string{"mnexec", "ethtool", "ping", "ip", "tc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s: apt-get install mininet ethtool iputils-ping iproute2", tool)
		}
	}
	if out, err := exec.Command("unshare", "-nm", "mount", "-t", "sysfs", "sysfs", "/sys").CombinedOutput(); err != nil {
		t.Skipf("no network namespaces: %v\n%s", err, out)
	}
	l := lab{ethereal: filepath.Join(t.TempDir(), "ethereal"), dir: t.TempDir()}
	if out, err := exec.Command("go", "build", "-o", l.ethereal, "../cmd/ethereal").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return l
}

// run runs run.py in namespaces of its own.
func (l lab) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, append([]string{"run.py", "--isolate", "--dir", l.dir, "--ethereal", l.ethereal}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	out, err := cmd.CombinedOutput()
	t.Logf("run.py %s\n%s", strings.Join(args, " "), out)
	return string(out), err
}

// TestGoSwitch boots the k=4 fat-tree with the Go switch.
func TestGoSwitch(t *testing.T) {
	l := newLab(t)
	out, err := l.run(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"16 hosts, 20 switches, 48 links", "pingall: 240 pairs, 0 % lost"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

// TestBMv2 does the same with BMv2, unchanged but for --switch.
func TestBMv2(t *testing.T) {
	binary := os.Getenv("BMV2")
	if binary == "" {
		var err error
		if binary, err = exec.LookPath("simple_switch_grpc"); err != nil {
			t.Skip("no simple_switch_grpc: name it in BMV2 or have it on the path")
		}
	}
	l := newLab(t)
	out, err := l.run(t, "--switch", "bmv2", "--bmv2", binary)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "pingall: 240 pairs, 0 % lost") {
		t.Error("pingall is missing")
	}
}
