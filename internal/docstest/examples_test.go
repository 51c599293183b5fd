package docstest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// span is a piece of code in a line of text: `code`.
var span = regexp.MustCompile("`([^`]+)`")

// code returns the shell commands that a page shows: the lines of its blocks,
// indented or fenced, those that go on joined, and the code in its text.
func code(page string) []string {
	var lines []string
	fenced, more := false, false
	for line := range strings.SplitSeq(page, "\n") {
		indented := strings.HasPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case !fenced && !indented:
		case more || len(lines) > 0 && indented && strings.HasPrefix(strings.TrimSpace(line), "["):
			lines[len(lines)-1] += " " + strings.TrimSpace(line) // a synopsis goes on without a backslash
		default:
			lines = append(lines, strings.TrimSpace(line))
		}
		if more = strings.HasSuffix(line, "\\") && (fenced || indented); more {
			lines[len(lines)-1] = strings.TrimSuffix(lines[len(lines)-1], "\\")
		}
		if fenced || indented {
			continue
		}
		for _, m := range span.FindAllStringSubmatch(line, -1) {
			lines = append(lines, m[1])
		}
	}
	return lines
}

// called returns what of a command line belongs to a program: what comes behind
// its name, up to the end of the command.
func called(line, program string) (string, bool) {
	at := regexp.MustCompile(`(^|[\s/(])` + regexp.QuoteMeta(program) + `( |$)`).FindStringIndex(line)
	if at == nil || value.MatchString(line[:at[0]]) {
		return "", false
	}
	rest := line[at[1]:]
	if end := strings.IndexAny(rest, ";&#<>"); end >= 0 {
		rest = rest[:end]
	}
	return rest, true
}

var (
	value   = regexp.MustCompile(`--[a-z]+$`) // what follows is a flag's
	long    = regexp.MustCompile(`(?:^|[\s\[|(])(--[a-z][a-z0-9-]*)`)
	targets = regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
)

// help is what the program's commands say of themselves, each asked once.
type help struct {
	t    *testing.T
	dir  string
	said map[string]string
}

func (h *help) of(command string) string {
	text, ok := h.said[command]
	if !ok {
		text = ethereal(h.t, h.dir, append(strings.Fields(command), "--help")...)
		h.said[command] = text
	}
	return text
}

// has reports whether a command has a command of that name, hidden ones too: its help says how it is used.
func (h *help) has(command, name string) bool {
	full := strings.TrimSpace(command + " " + name)
	if !regexp.MustCompile(`^[a-z0-9]+( [a-z0-9]+)*$`).MatchString(full) {
		return false
	}
	if _, ok := h.said[full]; !ok {
		cmd := exec.CommandContext(h.t.Context(), filepath.Join(h.dir, "bin", "ethereal"), append(strings.Fields(full), "--help")...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			out = nil
		}
		h.said[full] = string(out)
	}
	return regexp.MustCompile(`(?m)^  ethereal ` + full + `( |$)`).MatchString(h.said[full])
}

// TestExamples: commands and flags of ethereal that pages show are there, even
// where no test can run them.
func TestExamples(t *testing.T) {
	h := &help{t: t, dir: build(t), said: map[string]string{}}
	seen := 0
	for page, text := range pages(t) {
		for _, line := range code(text) {
			rest, ok := called(line, "ethereal")
			if !ok {
				continue
			}
			command := ""
			for word := range strings.FieldsSeq(rest) {
				if !h.has(command, word) {
					break
				}
				command = strings.TrimSpace(command + " " + word)
			}
			first, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			if command == "" && regexp.MustCompile(`^[a-z]+$`).MatchString(first) {
				t.Errorf("%s: %s: there is no ethereal %s", page, line, first)
				continue
			}
			seen++
			rest, _, _ = strings.Cut(rest, " -- ") // then another program's
			for _, m := range long.FindAllStringSubmatch(rest, -1) {
				if m[1] == "--tls-" { // --tls-... stands for all of them
					continue
				}
				if !regexp.MustCompile(m[1] + `([^a-z0-9-]|$)`).MatchString(h.of(command)) {
					t.Errorf("%s: %s: ethereal %s has no %s", page, line, command, m[1])
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("the pages show %d commands of ethereal; are they still found?", seen)
	}
}

// TestScripts: the make targets and scripts that pages show are there, and the
// scripts know the flags.
func TestScripts(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, m := range targets.FindAllStringSubmatch(string(makefile), -1) {
		known = append(known, m[1])
	}
	script := regexp.MustCompile(`(?:^|[\s/])((?:scripts|mininet|\.ci)/[a-z0-9_./@-]+)`)
	for page, text := range pages(t) {
		for _, line := range code(text) {
			if rest, ok := called(line, "make"); ok && (strings.HasPrefix(line, "make") || strings.HasPrefix(line, "sudo make")) {
				for word := range strings.FieldsSeq(rest) {
					if strings.ContainsAny(word, "='") {
						break
					}
					if !slices.Contains(known, word) {
						t.Errorf("%s: %s: the Makefile has no target %s", page, line, word)
					}
				}
			}
			for _, m := range script.FindAllStringSubmatch(line, -1) {
				path := filepath.Join("..", m[1])
				if found, err := filepath.Glob(path); err != nil || len(found) == 0 {
					t.Errorf("%s: %s: there is no %s", page, line, m[1])
				}
				if !strings.HasSuffix(path, ".py") {
					continue
				}
				source, err := os.ReadFile(path)
				if err != nil {
					continue // said above
				}
				rest, _ := called(line, m[1])
				for _, f := range long.FindAllStringSubmatch(rest, -1) {
					if !strings.Contains(string(source), `"`+f[1]+`"`) {
						t.Errorf("%s: %s: %s has no %s", page, line, m[1], f[1])
					}
				}
			}
		}
	}
}

// TestGoTests: the Go tests and benchmarks that pages show are in the packages
// they name.
func TestGoTests(t *testing.T) {
	pattern := regexp.MustCompile(`-(?:run|bench) '?\^?([A-Za-z0-9_]+)`)
	packages := regexp.MustCompile(`(?:^| )(\./[a-z0-9_/]+)(?:[ ]|$)`)
	seen := 0
	for page, text := range pages(t) {
		for _, line := range code(text) {
			if !strings.Contains(line, "go test") {
				continue
			}
			for _, p := range packages.FindAllStringSubmatch(line, -1) {
				files, err := filepath.Glob(filepath.Join("..", p[1], "*_test.go"))
				if err != nil || len(files) == 0 {
					t.Errorf("%s: %s: no tests in %s", page, line, p[1])
					continue
				}
				var source strings.Builder
				for _, file := range files {
					text, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					source.Write(text)
				}
				for _, m := range pattern.FindAllStringSubmatch(line, -1) {
					seen++
					if !regexp.MustCompile(`(?m)^func (Test|Benchmark|Example|Fuzz)?[A-Za-z0-9_]*` + m[1]).MatchString(source.String()) {
						t.Errorf("%s: %s: no test in %s is called %s", page, line, p[1], m[1])
					}
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no page shows a test; are they still found?")
	}
}
