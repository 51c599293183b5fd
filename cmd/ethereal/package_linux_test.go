package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/internal/checklist"
)

// TestPackage installs the .deb that `make dist` made into an empty folder and runs the program in it, with nothing
// else around: no shell, no library, a network namespace of its own.
func TestPackage(t *testing.T) {
	deb := os.Getenv("ETHEREAL_DEB")
	if deb == "" {
		t.Skip("ETHEREAL_DEB does not name a package: make dist, then ETHEREAL_DEB=build/dist/ethereal_..._amd64.deb")
	}
	for _, tool := range []string{"dpkg", "unshare", "chroot"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("chroot needs root")
	}
	deb, err := filepath.Abs(deb)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "proc"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"status", "available"} {
		if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg", file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("dpkg", "--root="+root, "-i", deb).CombinedOutput(); err != nil {
		t.Fatalf("dpkg: %v\n%s", err, out)
	}
	inside := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("unshare", append([]string{"--net", "chroot", root, "/usr/bin/ethereal"}, args...)...).Output()
		if err != nil && (args[0] == "validate" || len(out) == 0) {
			t.Fatalf("ethereal %v: %v", args, err)
		}
		return string(out)
	}
	if v := inside("version"); !strings.HasPrefix(v, "ethereal ") {
		t.Errorf("version: %q", v)
	}
	if err := os.WriteFile(filepath.Join(root, "etc/ethereal/fabric.yaml"), []byte(inside("topo")), 0o644); err != nil {
		t.Fatal(err)
	}
	var lines []checklist.Line
	said := inside("host", "preflight", "--fabric=/etc/ethereal/fabric.yaml", "--host=h0", "--interface=lo", "-o=json")
	if err := json.Unmarshal([]byte(said), &lines); err != nil {
		t.Fatalf("preflight: %v\n%s", err, said)
	}
	checked := map[string]bool{}
	for _, l := range lines {
		checked[l.Check] = true
	}
	if len(lines) < 5 || !checked["mtu"] {
		t.Errorf("preflight looked at %v", lines)
	}
	for _, file := range []string{
		"lib/systemd/system/ethereal-controller.service", "usr/share/man/man1/ethereal-preflight.1", "usr/share/ethereal/lab-ca",
		"usr/share/zsh/vendor-completions/_ethereal", "usr/share/fish/vendor_completions.d/ethereal.fish",
		"usr/share/ethereal/p4/build/ethereal.json", "usr/share/ethereal/mininet/etherealnet/topology.py", "usr/lib/python3/dist-packages/etherealnet",
		"usr/share/ethereal/training/train.py", "usr/share/ethereal/training/chakra.py", "usr/share/ethereal/training/picture.py",
	} {
		if _, err := os.Lstat(filepath.Join(root, file)); err != nil {
			t.Error(err)
		}
	}
	licences, err := os.ReadFile(filepath.Join(root, "usr/share/doc/ethereal/copyright"))
	for _, module := range []string{"Go's standard library", "google.golang.org/grpc ", "github.com/spf13/cobra "} {
		if err != nil || !strings.Contains(string(licences), "\n==== "+module) {
			t.Errorf("the copyright file has no licence of %s: %v", module, err)
		}
	}
	examples := []string{"/usr/share/ethereal/training/cuts.yaml"}
	for _, dir := range []string{"scenarios", "experiments"} {
		found, err := filepath.Glob(filepath.Join(root, "usr/share/ethereal", dir, "*.yaml"))
		if err != nil || len(found) < 10 {
			t.Errorf("%d %s: %v", len(found), dir, err)
		}
		for _, f := range found {
			examples = append(examples, strings.TrimPrefix(f, root))
		}
	}
	inside(append([]string{"validate"}, examples...)...)
	t.Run("mininet", func(t *testing.T) {
		if out, err := exec.Command(mininetPython, "-c", "import mininet.net").CombinedOutput(); err != nil {
			t.Skipf("no Mininet: apt-get install mininet ethtool iputils-ping\n%s", out)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "usr/bin/ethereal"), "mininet", "run", "--isolate", "--dir", t.TempDir(),
			filepath.Join(root, "usr/share/ethereal/experiments/single-link.yaml"))
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "every check passes") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}
