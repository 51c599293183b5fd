// Package docs has no code: its test runs the commands that the README and the
// pages beside it show.
package docs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// block is a fenced block of shell commands, ```sh.
var block = regexp.MustCompile("(?s)```sh\n(.*?)```")

// link is a link to another file of the repository.
var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// pages returns the README and all pages, by path from the repository's root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, name := range append(names, filepath.Join("..", "README.md")) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Join("docs", name)] = string(text)
	}
	return texts
}

// TestCommands runs every `bin/ethereal` command of a ```sh block, in a copy of
// the place where a reader runs it. The others, such as make, are CI's.
func TestCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("runs every documented command: skipped with -short")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "bin", "ethereal"), filepath.Join(root, "cmd", "ethereal")).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, name := range []string{"testbed", "docs"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	ran := 0
	for page, text := range pages(t) {
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			for line := range strings.Lines(strings.ReplaceAll(m[1], "\\\n", " ")) {
				line = strings.TrimSpace(line)
				if !strings.HasPrefix(line, "bin/ethereal ") {
					continue
				}
				ran++
				t.Run(filepath.Base(page)+"/"+line, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
					defer cancel()
					cmd := exec.CommandContext(ctx, "sh", "-ec", line)
					cmd.Dir = dir
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Errorf("%s: %s: %v\n%s", page, line, err, out)
					}
				})
			}
		}
	}
	if ran == 0 {
		t.Error("no page shows a command")
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
