package docstest

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// TestPandas runs the page's program on the file that the page's command writes.
func TestPandas(t *testing.T) {
	systemtest.Only(t)
	const python = "/usr/bin/python3"
	if out, err := exec.Command(python, "-c", "import pandas").CombinedOutput(); err != nil {
		t.Skipf("no pandas for %s: apt-get install python3-pandas\n%s", python, out)
	}
	page, err := os.ReadFile("result-files.md")
	if err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile("(?s)```python\n(.*?)```").FindSubmatch(page)
	if program == nil {
		t.Fatal("the page has no program")
	}
	dir := build(t)
	ethereal(t, dir, "report", "docs/evaluation/readme.jsonl", "--quiet", "--csv", "runs.csv")
	cmd := exec.Command(python, "-W", "error", "-c", string(program[1]))
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"last_flip_us", "healthy", "quench"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}
