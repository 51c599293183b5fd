package docstest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestAttacks: the attack suite, .ci/attacks, and the tables of security.md name the same tests, and each is there.
func TestAttacks(t *testing.T) {
	script, err := os.ReadFile("../.ci/attacks")
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(script), "\nattacks='\n")
	list, _, ok2 := strings.Cut(list, "\n'\n")
	if !ok || !ok2 {
		t.Fatal(".ci/attacks has no list")
	}
	var suite []string
	for line := range strings.Lines(list) {
		words := strings.Fields(line)
		var source strings.Builder
		files, err := filepath.Glob(filepath.Join("..", words[0], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
		for _, name := range words[1:] {
			suite = append(suite, name)
			if !strings.Contains(source.String(), "\nfunc "+name+"(") {
				t.Errorf(".ci/attacks: %s has no test %s", words[0], name)
			}
		}
	}
	page, err := os.ReadFile("security.md")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	_, tried, _ := strings.Cut(string(page), "\n## What was tried\n")
	for line := range strings.Lines(tried) {
		if strings.HasPrefix(line, "| ") {
			named = append(named, regexp.MustCompile(`\b(Test|Fuzz)[A-Z]\w+`).FindAllString(line, -1)...)
		}
	}
	for _, name := range suite {
		if !slices.Contains(named, name) {
			t.Errorf("security.md has no row with %s, which .ci/attacks has", name)
		}
	}
	for _, name := range named {
		if !slices.Contains(suite, name) {
			t.Errorf(".ci/attacks has no %s, which security.md names", name)
		}
	}
}
