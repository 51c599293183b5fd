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

// TestCores: a core imports neither gRPC nor net/http, directly or through another package.
func TestCores(t *testing.T) {
	const module = "github.com/ethereal-fabric/ethereal/"
	imports := map[string][]string{} // by package, also of other modules and of the standard library
	args := []string{"list", "-deps", "-f", "{{.ImportPath}} {{join .Imports \" \"}}"}
	for _, core := range cores {
		args = append(args, module+core)
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		if e, ok := err.(*exec.ExitError); ok {
			t.Fatalf("go list: %v\n%s", err, e.Stderr)
		}
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		names := strings.Fields(line)
		imports[names[0]] = names[1:]
	}
	for _, core := range cores {
		if len(imports[module+core]) == 0 {
			t.Errorf("%s imports nothing; was it moved?", core)
		}
		for _, chain := range chains(imports, module+core) {
			t.Errorf("%s may not import what opens sockets: %s", core, strings.Join(chain, " -> "))
		}
	}
}

// chains returns the shortest chains of imports by which a package reaches net/http or gRPC, one per package of these.
func chains(imports map[string][]string, from string) [][]string {
	var found [][]string
	seen := map[string]bool{from: true}
	for next := [][]string{{from}}; len(next) > 0; next = next[1:] {
		chain := next[0]
		at := chain[len(chain)-1]
		if at == "net/http" || at == "google.golang.org/grpc" {
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
	got := chains(imports, "core")
	if len(got) != 1 || strings.Join(got[0], " ") != "core messages google.golang.org/grpc" {
		t.Errorf("core: %v", got)
	}
	if got := chains(imports, "pure"); len(got) != 0 {
		t.Errorf("pure: %v", got)
	}
}
