package structure_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// cores decide without sockets; the table of cores in docs/architecture.md has the first two lines.
var cores = []string{
	"hostagent", "controller", "controller/rollout", "controller/suspicion",
	"roce/transport", "testbed/host", "p4switch/interp",
	"controller/eventlog", "controller/view", // what was recorded, and a page's data
}

const module = "github.com/ethereal-fabric/ethereal/"

// TestCores: a core imports neither gRPC nor net/http, directly or through another package.
func TestCores(t *testing.T) {
	var packages []string
	for _, core := range cores {
		packages = append(packages, module+core)
	}
	imports := importsOf(t, packages...)
	for _, core := range cores {
		if len(imports[module+core]) == 0 {
			t.Errorf("%s imports nothing; was it moved?", core)
		}
		for _, chain := range chains(imports, module+core, socket) {
			t.Errorf("%s may not import what opens sockets: %s", core, strings.Join(chain, " -> "))
		}
	}
}

// wings are folders that others use as a library, or copy, without the rest: they need the packages below with, which
// need nothing else of ours either. Their tests also need those below tests.
var wings = map[string]struct{ with, tests []string }{
	"p4switch": {with: []string{"p4switch", "internal"}, tests: []string{"p4src"}}, // p4src: programs to try
}

// TestWings: a wing needs no other package of ours, directly or through another package.
func TestWings(t *testing.T) {
	for wing, needs := range wings {
		for _, tests := range []bool{false, true} {
			with, args := needs.with, []string{module + wing + "/..."}
			if tests {
				with, args = slices.Concat(with, needs.tests), append([]string{"-test"}, args...)
			}
			imports := importsOf(t, args...)
			other := func(name string) bool {
				name, ours := strings.CutPrefix(name, module)
				return ours && !slices.ContainsFunc(with, func(dir string) bool { return strings.HasPrefix(name, dir+"/") || name == dir })
			}
			found, packages := map[string]bool{}, 0
			for from := range imports {
				if !strings.HasPrefix(from, module+wing+"/") {
					continue
				}
				packages++
				for _, chain := range chains(imports, from, other) {
					if last := strings.Join(chain[len(chain)-2:], " -> "); !found[last] {
						found[last] = true
						t.Errorf("%s (tests: %v) may not need: %s", wing, tests, strings.Join(chain, " -> "))
					}
				}
			}
			if packages < 3 {
				t.Errorf("only %d packages of %s were looked at", packages, wing)
			}
		}
	}
}

// importsOf returns what packages, and what they import, import, by package, also of other modules and of the standard
// library. A package and its tests count as one.
func importsOf(t *testing.T, args ...string) map[string][]string {
	t.Helper()
	list := exec.Command("go", append([]string{"list", "-deps", "-f", "{{.ImportPath}}: {{join .Imports \" \"}}"}, args...)...)
	list.Stderr = t.Output()
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	imports := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		name, names, _ := strings.Cut(line, ":")
		name, _, _ = strings.Cut(name, " ") // "x [x.test]" is x with its tests
		for imported := range strings.FieldsSeq(names) {
			if !strings.HasPrefix(imported, "[") {
				imports[name] = append(imports[name], imported)
			}
		}
	}
	return imports
}

// socket reports whether a package opens sockets.
func socket(name string) bool { return name == "net/http" || name == "google.golang.org/grpc" }

// chains returns the shortest chains of imports by which a package reaches others that are sought, one per package of
// these.
func chains(imports map[string][]string, from string, sought func(string) bool) [][]string {
	var found [][]string
	seen := map[string]bool{from: true}
	for next := [][]string{{from}}; len(next) > 0; next = next[1:] {
		chain := next[0]
		at := chain[len(chain)-1]
		if sought(at) {
			found = append(found, chain)
			continue
		}
		for _, name := range imports[at] {
			if !seen[name] {
				seen[name] = true
				next = append(next, append(slices.Clone(chain), name))
			}
		}
	}
	return found
}

// TestChains: a chain through another package is found, and one that does not reach a socket is not.
func TestChains(t *testing.T) {
	imports := map[string][]string{
		"core": {"fmt", "messages"}, "messages": {"fmt", "google.golang.org/grpc"}, "google.golang.org/grpc": {"net/http"},
		"pure": {"fmt"},
	}
	got := chains(imports, "core", socket)
	if len(got) != 1 || strings.Join(got[0], " ") != "core messages google.golang.org/grpc" {
		t.Errorf("core: %v", got)
	}
	if got := chains(imports, "pure", socket); len(got) != 0 {
		t.Errorf("pure: %v", got)
	}
}
