package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const imports = "../../testbed/scenarios/import/"

// TestImport: an import writes files that run takes, once, and says what it left out.
func TestImport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "incast")
	files := []string{imports + "incast.cm", imports + "fat-tree.topo"}
	code, out, errs := etherealCommand(t.Context(), "import", "htsim", files[0], files[1], "--dir", dir)
	if code != exitOK || !strings.HasPrefix(errs, "warning: start times are taken for ps") || !strings.Contains(out, "32 hosts and 32 switches, 6 messages with 9000000 bytes") {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
	if code, out, errs := etherealCommand(t.Context(), "validate", filepath.Join(dir, "scenario.yaml"), filepath.Join(dir, "workload.yaml")); code != exitOK {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
	code, _, errs = etherealCommand(t.Context(), "import", "htsim", files[0], "--dir", dir)
	if code != exitInput || !strings.Contains(errs, "is there already, and nothing is overwritten") {
		t.Errorf("%d\n%s", code, errs)
	}
	code, _, errs = etherealCommand(t.Context(), "import", "htsim", files[0], "--dir", dir+"2")
	if code != exitOK || !strings.Contains(errs, "warning: the files have no topology") {
		t.Errorf("%d\n%s", code, errs)
	}
}

// TestImportWritesNothing: what a scenario cannot have is an error before a file is written.
func TestImportWritesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	graph := imports + "nccl-graph.xml"
	topology := filepath.Join(t.TempDir(), "topology.xml")
	text := `<system><pci class="0x030200"><gpu dev="0" sm="90"/></pci><pci class="0x030200"><gpu dev="1" sm="90"/></pci><net speed="999000000"/></system>`
	if err := os.WriteFile(topology, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := etherealCommand(t.Context(), "import", "nccl", topology, "--dir", dir)
	if code != exitInput || !strings.HasPrefix(errs, topology+": fabric.host_link.rate: 499.5Tb/s is outside") {
		t.Errorf("%d\n%s", code, errs)
	}
	code, _, errs = etherealCommand(t.Context(), "import", "nccl", topology, graph, "--dir", dir, "--nic-rate", "9000000Tb/s")
	if code != exitInput || !strings.Contains(errs, "--nic-rate") {
		t.Errorf("%d\n%s", code, errs)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("a folder was made")
	}
}

// TestForeignFiles: other programs' files are recognised wherever ours are read, and the error names the import.
func TestForeignFiles(t *testing.T) {
	for file, want := range map[string]string{
		"incast.cm": "a connection matrix of htsim; `ethereal import htsim ", "hpcc-topology.txt": "a topology of HPCC's ns-3; `ethereal import hpcc ",
		"nccl-graph.xml": "graphs of NCCL (NCCL_GRAPH_DUMP_FILE); `ethereal import nccl ",
	} {
		for _, command := range [][]string{{"run"}, {"validate"}, {"trace"}, {"topo", "--fabric"}} {
			code, _, errs := etherealCommand(t.Context(), append(command, imports+file)...)
			if code != exitInput || !strings.Contains(errs, want) {
				t.Errorf("%v %s: %d: %s", command, file, code, errs)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(path, []byte("name: x\nfabric: {kind: fat-tree, k: 5}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, errs := etherealCommand(t.Context(), "validate", path); strings.Contains(errs, "import") {
		t.Error(errs)
	}
}
