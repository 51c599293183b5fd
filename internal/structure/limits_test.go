package structure_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// Limits of CONTRIBUTING.md: lines of a file and of a function, columns of a comment, where a tab is four.
const (
	fileLimit     = 500
	functionLimit = 100
	commentLimit  = 120
)

// directive matches a comment for a tool, such as go:generate.
var directive = regexp.MustCompile(`^//[a-z]+:`)

// TestLimits holds the lengths of files and of comments, and outside of tests of functions. What a program wrote has no
// limit.
func TestLimits(t *testing.T) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" {
			return err
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(f) {
			return err
		}
		above := func(what string, n int, unit string, limit int) {
			if n > limit {
				t.Errorf("%s: %s has %d %s; the limit is %d", name, what, n, unit, limit)
			}
		}
		above("the file", set.File(f.Pos()).LineCount(), "lines", fileLimit)
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && !strings.HasSuffix(name, "_test.go") {
				lines := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1
				above("function "+fn.Name.Name, lines, "lines", functionLimit)
			}
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(text), "\n") {
			if comment := strings.TrimSpace(line); strings.HasPrefix(comment, "//") && !directive.MatchString(comment) {
				columns := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
				above(fmt.Sprintf("the comment in line %d", i+1), columns, "columns", commentLimit)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
