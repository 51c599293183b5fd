package kinds_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/controller/targets/kinds"
)

// TestNobodyAsksForTheKind: outside of their packages nothing but the list imports a kind of switch, and nothing has
// the name of one in a text: what is different about it is in its traits.
func TestNobodyAsksForTheKind(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	inside := filepath.Join("controller", "targets") + string(filepath.Separator)
	const packages = "github.com/ethereal-fabric/ethereal/controller/targets/"
	named := map[string]bool{}
	for _, name := range kinds.All().Names() {
		named[name] = name != "ethereal" // ours is the program's own name, too
	}
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil || strings.HasPrefix(rel, inside) {
			return err
		}
		files++
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			x, ok := n.(*ast.BasicLit)
			if !ok || x.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(x.Value)
			if err != nil {
				t.Fatal(err)
			}
			if kind, is := strings.CutPrefix(text, packages); is && kind != "kinds" {
				t.Errorf("%s: %v imports the kind %s", rel, set.Position(x.Pos()).Line, kind)
			}
			if named[text] {
				t.Errorf("%s:%d asks for the kind %s", rel, set.Position(x.Pos()).Line, text)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("only %d files were looked at", files)
	}
}
