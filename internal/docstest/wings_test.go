package docstest

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWings: README and architecture.md open with the same picture of the wings, and it has the wings and the imports
// of single packages that the table of folders has.
func TestWings(t *testing.T) {
	architecture := read(t, "architecture.md")
	picture := opening(t, "architecture.md", architecture)
	if opening(t, "README.md", read(t, "../README.md")) != picture {
		t.Error("README.md has another picture of the wings than docs/architecture.md; copy that one")
	}
	_, folders, _ := strings.Cut(architecture, "\n## Folders\n")
	var single []string
	wings := regexp.MustCompile("(?m)^\\| `([a-z0-9/]+)` \\|.*\\| ([^|]*) \\|$").FindAllStringSubmatch(folders, -1)
	if len(wings) < 6 {
		t.Fatalf("the table of folders in docs/architecture.md has the wings %q", wings)
	}
	for _, wing := range wings {
		if !strings.Contains(picture, "│ "+wing[1]+" ") {
			t.Errorf("the picture in docs/architecture.md lacks %s, which its table of folders has", wing[1])
		}
		for name := range strings.SplitSeq(wing[2], ", ") {
			if name = strings.Trim(name, "`"); strings.Contains(name, "/") {
				single = append(single, name)
			}
		}
	}
	var drawn []string
	for _, arrow := range regexp.MustCompile(`▶ (\S+)`).FindAllStringSubmatch(picture, -1) {
		drawn = append(drawn, arrow[1])
	}
	slices.Sort(single)
	slices.Sort(drawn)
	if drawn = slices.Compact(drawn); !slices.Equal(drawn, slices.Compact(single)) {
		t.Errorf("the picture in docs/architecture.md has arrows to %q, its table of folders imports of %q", drawn, single)
	}
}

// opening returns the first block of text on a page, which comes before its first section.
func opening(t *testing.T, name, page string) string {
	head, _, _ := strings.Cut(page, "\n## ")
	_, block, ok := strings.Cut(head, "```text\n")
	picture, _, closed := strings.Cut(block, "```")
	if !ok || !closed {
		t.Fatalf("%s does not open with a picture of the wings", name)
	}
	return picture
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
