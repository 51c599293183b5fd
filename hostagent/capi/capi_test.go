package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// TestC builds the library, links a C program to it, and runs that.
func TestC(t *testing.T) {
	cc := systemtest.Program(t, "cc", "", "apt-get install build-essential")
	if out, err := exec.Command("go", "env", "CGO_ENABLED").Output(); err != nil || strings.TrimSpace(string(out)) != "1" {
		t.Skipf("takes cgo: CGO_ENABLED is %s, %v", out, err)
	}
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("go", "build", "-buildmode=c-shared", "-o", filepath.Join(dir, "libethereal.so"), ".")
	program := filepath.Join(dir, "step")
	run(cc, "-std=c99", "-Wall", "-Wextra", "-Werror", "-I.", "-o", program, "testdata/step.c", "-L"+dir, "-lethereal")
	spec := filepath.Join(dir, "fabric.yaml")
	if err := os.WriteFile(spec, []byte("kind: fat-tree\nk: 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := run(program, spec, "unix:"+filepath.Join(dir, "nobody.sock"))
	piece := regexp.MustCompile(`(?m)^message 7: 262144 bytes at (\d+) on 0x10([0-3]), label ([0-3]), port 0xc00([0-3]), flow label 0xfc03[cdef]$`)
	ms := piece.FindAllStringSubmatch(got, -1)
	labels := map[string]bool{}
	for _, m := range ms {
		labels[m[3]] = true
		if m[3] != m[4] {
			t.Errorf("label %s has port 0xc00%s", m[3], m[4])
		}
	}
	if len(ms) != 4 || len(labels) != 4 || !strings.Contains(got, "moved: away\n") ||
		!strings.Contains(got, "1048576 bytes, 0 waiting; message 0 of the batch: batch: no such host") {
		t.Errorf("the program says:\n%s", got)
	}
	if err := os.WriteFile(spec, []byte("kind: fat-tree\nkay: 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("env", "LD_LIBRARY_PATH="+dir, program, spec).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "kay") {
		t.Errorf("a bad fabric: %v, %s", err, out)
	}
}
