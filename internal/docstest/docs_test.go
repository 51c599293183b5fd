package docstest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
)

// block is a fenced block of shell commands, ```sh.
var block = regexp.MustCompile("(?s)```sh\n(.*?)```")

// link is a link to another file of the repository.
var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// pages returns the README and all pages, by path from the repository's root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	names := []string{filepath.Join("..", "README.md")}
	for _, pattern := range []string{"*.md", "*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	texts := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Join("docs", name)] = string(text)
	}
	return texts
}

// build returns a copy of the place where a reader runs commands: the binary,
// the folders that commands read, and one to write into.
func build(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the binary and runs it: skipped with -short")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"bin", "build"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	links := map[string]string{filepath.Join("bin", "ethereal"): etherealtest.Binary(t)}
	for _, name := range []string{"testbed", "docs", "mininet"} {
		links[name] = filepath.Join(root, name)
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// ethereal runs the binary in dir. What it takes depends on the machine: a command that hangs is ended by the test's
// own deadline.
func ethereal(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "bin", "ethereal"), args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// TestCommands runs every `bin/ethereal` command of a ```sh block, in a copy of
// the place where a reader runs it. The others, such as make, are CI's.
func TestCommands(t *testing.T) {
	dir := build(t)
	ran := 0
	for page, text := range pages(t) {
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			for line := range strings.Lines(strings.ReplaceAll(m[1], "\\\n", " ")) {
				// A comment may stand behind a command.
				line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
				args, ok := strings.CutPrefix(line, "bin/ethereal ")
				if !ok || privileged(args) {
					continue
				}
				ran++
				t.Run(filepath.Base(page)+"/"+line, func(t *testing.T) {
					if strings.ContainsAny(args, "|<>&;$`\"'*") {
						t.Fatalf("%s: %s: needs a shell; show a plain command", page, line)
					}
					ethereal(t, dir, strings.Fields(args)...)
				})
			}
		}
	}
	if ran == 0 {
		t.Error("no page shows a command")
	}
	demoAsKept(t, filepath.Join(dir, "build", "demo.jsonl")) // of a command of ethereal-run.md
}

// privileged reports whether a command needs what a test does not have, network
// interfaces of its own or other processes beside it, or goes on for ever.
func privileged(args string) bool {
	command, _, _ := strings.Cut(args, " ")
	return !slices.Contains([]string{"run", "topo", "bench", "cases", "report", "trace", "version", "validate", "init", "import"}, command)
}

// TestResults: what the schema says of packets that are missing, the page says.
func TestResults(t *testing.T) {
	data, err := os.ReadFile("../testbed/report/result.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Properties map[string]struct{ Description string }
	}
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	page := pages(t)[filepath.Join("docs", "result-files.md")]
	for _, key := range []string{"drops", "lost_to_failure"} {
		if want := "`" + key + "` | packets | " + s.Properties[key].Description + " |"; !strings.Contains(page, want) {
			t.Errorf("result-files.md lacks %q", want)
		}
	}
}

// TestLinks: what a page links to is there.
func TestLinks(t *testing.T) {
	for page, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target := filepath.Join("..", filepath.Dir(page), m[1])
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
	}
}

// TestTables: the line below a table's head is a line by itself, also in a list. Filling a paragraph can join them.
func TestTables(t *testing.T) {
	rule := regexp.MustCompile(`^ *\|[-:| ]+\|$`)
	for page, text := range pages(t) {
		for line := range strings.Lines(text) {
			if line = strings.TrimRight(line, "\n"); strings.Contains(line, "|---") && !rule.MatchString(line) {
				t.Errorf("%s: a table has lost its line breaks: %.80s", page, line)
			}
		}
	}
}

// TestIndex: docs/README.md lists every page once.
func TestIndex(t *testing.T) {
	all := pages(t)
	listed := map[string]int{}
	for _, m := range link.FindAllStringSubmatch(all[filepath.Join("docs", "README.md")], -1) {
		listed[filepath.Join("docs", m[1])]++
	}
	for page := range all {
		if page != filepath.Join("docs", "README.md") && listed[page] != 1 {
			t.Errorf("docs/README.md links to %s %d times; want once", page, listed[page])
		}
	}
}
