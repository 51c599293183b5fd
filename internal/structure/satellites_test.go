package structure_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// satellite is a feature that the core does without.
type satellite struct {
	folders []string // with all below them
	files   []string // of other packages, which are for it alone
}

// satellites go by deleting their folders, their files, and for each package of their files the one line that uses
// them.
var satellites = map[string]satellite{
	"sweeps on Slurm and Kubernetes": {
		[]string{"testbed/cluster"},
		[]string{"cmd/ethereal/bench_tasks.go", "cmd/ethereal/bench_status.go", "cmd/ethereal/bench_submit.go"},
	},
	"static paths for switches without P4":  {[]string{"fabric/export"}, []string{"cmd/ethereal/export_static.go"}},
	"topologies of containerlab":            {[]string{"testbed/containerlab"}, []string{"cmd/ethereal/export_containerlab.go"}},
	"STF tests":                             {[]string{"p4switch/stf"}, []string{"cmd/ethereal/switch_stf.go"}},
	"an RNIC in software for RDMA programs": {[]string{"roce/device"}, []string{"cmd/ethereal/nic_linux.go"}},
	"gNMI beside BMv2":                      {[]string{"p4switch/sidecar"}, []string{"cmd/ethereal/gnmi.go"}},
	"checks of a host":                      {[]string{"hostagent/hostcheck"}, []string{"cmd/ethereal/preflight_host.go"}},
	"checks of a fabric":                    {[]string{"controller/preflight"}, []string{"cmd/ethereal/preflight.go"}},
	"proofs from tables":                    {[]string{"controller/verify"}, []string{"cmd/ethereal/verify.go"}},
	"the agent as a C library":              {[]string{"hostagent/capi"}, nil},
	"random cases":                          {[]string{"testbed/cases"}, []string{"cmd/ethereal/cases.go"}},
	"benchmarks beside other simulators":    {[]string{"testbed/bench"}, nil},
}

// TestSatellites: a tree without a satellite's folders and files, and without the one line by which a package uses the
// files, lacks nothing: no other file imports the folders, and what is then undefined stands in that line.
func TestSatellites(t *testing.T) {
	root := filepath.Join("..", "..")
	set := token.NewFileSet()
	packages := map[string]map[string]*ast.File{} // by folder and file, both from the root
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		if ok, err := build.Default.MatchFile(filepath.Dir(name), d.Name()); err != nil || !ok {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if packages[path.Dir(rel)] == nil {
			packages[path.Dir(rel)] = map[string]*ast.File{}
		}
		packages[path.Dir(rel)][rel], err = parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for what, s := range satellites {
		t.Run(what, func(t *testing.T) {
			for dir, files := range packages {
				ours := 0
				for _, name := range s.files {
					if files[name] != nil {
						ours++
					}
				}
				if slices.ContainsFunc(s.folders, func(folder string) bool { return dir == folder || strings.HasPrefix(dir, folder+"/") }) {
					continue
				}
				for name, file := range files {
					for _, spec := range file.Imports {
						imported := strings.TrimPrefix(strings.Trim(spec.Path.Value, `"`), module)
						if slices.Contains(s.folders, imported) && !slices.Contains(s.files, name) {
							t.Errorf("%s imports %s", name, imported)
						}
					}
				}
				if ours == 0 {
					continue
				}
				with, without := undefined(set, files, nil), undefined(set, files, s.files)
				var lines []string
				for at, text := range without {
					if _, ok := with[at]; !ok {
						lines = append(lines, at+": "+text)
					}
				}
				if len(lines) != 1 {
					t.Errorf("%d lines of %s use %v, want one:\n%s", len(lines), dir, s.files, strings.Join(lines, "\n"))
				}
			}
			for _, name := range s.files {
				if packages[path.Dir(name)][name] == nil {
					t.Errorf("there is no %s", name)
				}
			}
		})
	}
}

// undefined returns the lines of a package, without some of its files, in which names are used that it does not have.
// What it imports is not looked at: names from there count as defined.
func undefined(set *token.FileSet, files map[string]*ast.File, without []string) map[string]string {
	lines := map[string]string{}
	conf := types.Config{
		FakeImportC: true,
		Importer:    nothing{},
		Error: func(err error) {
			var e types.Error
			if errors.As(err, &e) && !strings.Contains(e.Msg, "could not import") {
				at := set.Position(e.Pos)
				lines[fmt.Sprintf("%s:%d", at.Filename, at.Line)] = e.Msg
			}
		},
	}
	var rest []*ast.File
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !slices.Contains(without, name) {
			rest = append(rest, files[name])
		}
	}
	_, _ = conf.Check("p", set, rest, nil) // Error has them
	return lines
}

// nothing imports nothing.
type nothing struct{}

func (nothing) Import(string) (*types.Package, error) { return nil, errors.New("not looked at") }
