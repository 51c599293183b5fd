package docstest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPyTorchTrace runs the commands of the guide to workloads that need a trace of another repository,
// mlcommons/chakra: a checkout of it, which CHAKRA names, stands for the clone. The step takes at least the time of its
// longest stream.
func TestPyTorchTrace(t *testing.T) {
	checkout := os.Getenv("CHAKRA")
	if checkout == "" {
		t.Skip("set CHAKRA to a checkout of mlcommons/chakra")
	}
	_, section, _ := strings.Cut(read(t, "guide/workload.md"), "## A trace of PyTorch")
	section, _, _ = strings.Cut(section, "\n## ")
	var script []string
	for line := range strings.Lines(section) {
		if text, ok := strings.CutPrefix(line, "    "); ok && !strings.HasPrefix(text, "git clone ") {
			script = append(script, text)
		}
	}
	dir := build(t)
	if err := os.Symlink(checkout, filepath.Join(dir, "build", "chakra")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", strings.Join(script, ""))
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !regexp.MustCompile(`lower bound 29[0-9]\.[0-9]* ms`).Match(out) || !regexp.MustCompile(`ethereal +1 +29[0-9]\.`).Match(out) {
		t.Errorf("%s", out)
	}
}
