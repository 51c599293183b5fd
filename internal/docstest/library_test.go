package docstest

import (
	"go/format"
	"regexp"
	"strings"
	"testing"
)

// goBlock is a fenced block of Go.
var goBlock = regexp.MustCompile("(?s)\n```go\n(.*?)```\n")

// TestLibrary: the program in the guide to the switch is the example of p4switch/interp, which that package's tests
// build and run, with the output that they expect.
func TestLibrary(t *testing.T) {
	page := read(t, "guide/switch.md")
	shown := goBlock.FindAllStringSubmatch(page, -1)
	if len(shown) != 1 {
		t.Fatalf("docs/guide/switch.md shows %d programs; want 1", len(shown))
	}
	example := strings.NewReplacer("package interp_test", "package main", "func Example()", "func main()",
		`"../process/`, `"p4switch/process/`).Replace(read(t, "../p4switch/interp/example_test.go"))
	example, output, ok := strings.Cut(example, "\t// Output: ")
	if !ok {
		t.Fatal("the example of p4switch/interp has no output")
	}
	example = regexp.MustCompile(`(?m)^// .*\nfunc main`).ReplaceAllString(example, "func main") + "}\n"
	if text, err := format.Source([]byte(example)); err != nil || string(text) != shown[0][1] {
		t.Errorf("docs/guide/switch.md shows another program than the example of p4switch/interp, %v; that one is:\n%s", err, text)
	}
	if output, _, _ = strings.Cut(output, "\n"); !strings.Contains(page, "    "+output+"\n") {
		t.Errorf("docs/guide/switch.md does not show that the program prints: %s", output)
	}
}
