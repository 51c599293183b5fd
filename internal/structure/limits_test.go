package structure_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// Limits of CONTRIBUTING.md, in lines.
const (
	fileLimit     = 500
	functionLimit = 100
)

// long are the loops over instructions, a case each.
var long = map[string]bool{"interp/run.go run": true, "interp/traceexec.go exec": true, "interp/wide.go wideOp": true}

// TestLimits holds the lengths of files, and of functions outside of tests. What a program wrote has none.
func TestLimits(t *testing.T) {
	root := filepath.Join("..", "..")
	met := map[string]bool{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" {
			return err
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil || ast.IsGenerated(f) {
			return err
		}
		short := filepath.Base(filepath.Dir(name)) + "/" + filepath.Base(name)
		above := func(what string, lines, limit int) {
			if lines <= limit {
				return
			}
			if met[what] = true; !long[what] {
				t.Errorf("%s: %s has %d lines; the limit is %d", name, what, lines, limit)
			}
		}
		above(short, set.File(f.Pos()).LineCount(), fileLimit)
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && !strings.HasSuffix(name, "_test.go") {
				above(short+" "+fn.Name.Name, set.Position(fn.End()).Line-set.Position(fn.Pos()).Line+1, functionLimit)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for what := range long {
		if !met[what] {
			t.Errorf("%s keeps the limit: take it from the list", what)
		}
	}
}
