package docstest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	walkRow  = regexp.MustCompile(`(?m)^\| ([^|]*) \| (?:([^|]*) )?\| (?:[^|]* )?\|$`)
	walkStep = regexp.MustCompile("`([A-Za-z0-9]+)\\.([A-Za-z0-9]+)`")
)

// TestWalks: the functions of the tables in architecture.md that follow a packet or an event through the code are in
// the folder or file beside them.
func TestWalks(t *testing.T) {
	tables := strings.Split(read(t, "architecture.md"), "| functions, in order | in | what they decide |\n|---|---|---|\n")[1:]
	if len(tables) != 3 {
		t.Fatalf("docs/architecture.md has %d tables of functions in order, not 3", len(tables))
	}
	methods := map[string]map[string]bool{}
	for _, table := range tables {
		table, _, _ = strings.Cut(table, "\n\n")
		place := ""
		for _, row := range walkRow.FindAllStringSubmatch(table+"\n", -1) {
			if in := strings.Trim(row[2], "` "); in != "" {
				place = in
			}
			for _, step := range walkStep.FindAllStringSubmatch(row[1], -1) {
				if methods[place] == nil {
					methods[place] = methodsIn(t, place)
				}
				if name := step[1] + "." + step[2]; !methods[place][name] {
					t.Errorf("docs/architecture.md: %s has no %s", place, name)
				}
			}
		}
	}
}

// methodsIn returns the methods of types and interfaces that a Go file, or a folder's files, declare, as "Type.Method".
func methodsIn(t *testing.T, place string) map[string]bool {
	files := []string{filepath.Join("..", place)}
	if filepath.Ext(place) != ".go" {
		files, _ = filepath.Glob(filepath.Join("..", place, "*.go"))
	}
	out := map[string]bool{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch d := n.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					receiver := d.Recv.List[0].Type
					if star, ok := receiver.(*ast.StarExpr); ok {
						receiver = star.X
					}
					if id, ok := receiver.(*ast.Ident); ok {
						out[id.Name+"."+d.Name.Name] = true
					}
				}
				return false
			case *ast.TypeSpec:
				if i, ok := d.Type.(*ast.InterfaceType); ok {
					for _, m := range i.Methods.List {
						for _, id := range m.Names {
							out[d.Name.Name+"."+id.Name] = true
						}
					}
				}
			}
			return true
		})
	}
	return out
}
