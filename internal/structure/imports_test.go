package structure_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestImports keeps imports pointing one way: fabric <- hostagent, controller
// <- testbed <- cmd. hostagent and controller import neither each other nor
// p4switch, testbed and roce (roce/frame apart): their messages are a .proto
// below fabric. internal knows nothing of fabrics, and the switch imports
// nothing else: it stands alone.
func TestImports(t *testing.T) {
	allowed := map[string][]string{
		"fabric":                 {"fabric/statepb", "internal/strictyaml", "internal/portspeed"},
		"fabric/export":          {"fabric", "internal/ratio"},
		"fabric/imbalance":       {"fabric"},
		"fabric/lldp":            {"fabric"},
		"fabric/statepb":         {},
		"fabric/staterpc":        {"fabric/statepb"},
		"internal":               {"internal"},
		"internal/strictyaml":    {},
		"internal/portspeed":     {},
		"p4src":                  {},
		"mininet":                {},
		"hostagent":              {"fabric", "hostagent", "roce/frame", "internal"},
		"controller":             {"fabric", "controller", "p4src", "internal"},
		"controller/view":        {"fabric", "controller/view", "internal"},
		"p4switch/program":       {},
		"p4switch":               {"p4switch", "internal"},
		"roce":                   {"fabric", "roce", "p4switch/port", "internal"},
		"roce/frame":             {"fabric"},
		"p4switch/interp":        {"p4switch/program", "internal/splitmix"},
		"p4switch/ebpf":          {"p4switch/program", "p4switch/interp", "p4switch/port"},
		"p4switch/rpc":           {},
		"p4switch/portstate":     {},
		"p4switch/gnmi":          {"p4switch/portstate", "p4switch/rpc"},
		"p4switch/sidecar":       {"p4switch/gnmi", "p4switch/portstate", "p4switch/rpc", "p4switch/port", "internal"},
		"testbed":                {"fabric", "hostagent", "controller", "roce", "p4switch", "testbed", "p4src", "internal"},
		"cmd":                    {"fabric", "hostagent", "controller", "roce", "p4switch", "testbed", "p4src", "mininet", "cmd", "internal"},
		"testbed/workload/bound": {"fabric", "internal/heap"},
	}
	below := func(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" {
			return err
		}
		if strings.HasSuffix(name, "_test.go") && d.Name() != "example_test.go" { // examples are what users copy
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		pkg, rule := path.Dir(filepath.ToSlash(rel)), ""
		for dir := range allowed {
			if below(pkg, dir) && len(dir) > len(rule) {
				rule = dir
			}
		}
		if rule == "" {
			t.Errorf("%s: no rule says what %s may import", rel, pkg)
			return nil
		}
		files++
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imported, ours := strings.CutPrefix(imported, module)
			ok := !ours || imported == pkg
			for _, dir := range allowed[rule] {
				ok = ok || below(imported, dir)
			}
			if !ok {
				t.Errorf("%s: %s may not import %s", rel, rule, imported)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 10 {
		t.Errorf("only %d files were looked at", files)
	}
}
